"""Work on all cores by light processes that import neither TFX nor Beam nor TensorFlow.

    with keep_processes("components.example_gen.file_shards"):
        run_all(write_task, ["train-00000", "train-00001"], processes=2)  # [result, result]

`multiprocessing` and `concurrent.futures` would import the main module anew in every process: with
TFX it takes ten seconds, and a script without a guard would run again. Forks of a process that has
TensorFlow's threads may hang. So threads of a `ThreadPoolExecutor` each hold one process of their
own, started with nothing but the path of imports (see `worker_process`). This process works too:
it is at it before another has begun.
"""

import contextlib
import contextvars
import json
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, BinaryIO, Generic, TypeVar, cast

from components.common.worker_process import Reply, Setup
from trainer_utils.format import DatasetError
from trainer_utils.machine import free_memory, usable_cores

__all__ = ["ALL", "count_processes", "keep_processes", "run_all"]

ALL = 0
"""As many processes as cores that may be used."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")

# What takes less time alone is not worth the start of processes, 0.3 s of a core each.
_WORTH_SECONDS = 0.75
_MEMORY_SHARE = 0.5  # of what is free when the processes start
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from components.common.worker_process import serve; serve(int(sys.argv[2]), sys.argv[3])"
)
# Of libraries that would start a thread a core in every process.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def count_processes(most: int, *, tasks: int, seconds: float, process_bytes: int) -> int:
    """How many processes do some work, this one among them; 1: it is done here alone.

    Args:
        most: as many as are allowed; `ALL`: one a core.
        tasks: how many parts the work has.
        seconds: about what it takes alone.
        process_bytes: of memory that one of them may need.
    """
    if seconds < _WORTH_SECONDS or not sys.executable:
        return 1
    fitting = int(free_memory() * _MEMORY_SHARE) // process_bytes
    return max(1, min(most or usable_cores(), tasks, fitting))


@contextlib.contextmanager
def keep_processes(module: str) -> Iterator[None]:
    """Has all calls of `run_all` within use the same processes, one of which begins at once.

    So it starts on a core that has nothing to do while the work is still planned.

    Args:
        module: where what is called comes from; processes import it when they begin. Empty: none.
    """
    kept = _Processes(module)
    outer = _kept.set(kept)
    try:
        if usable_cores() > 1 and sys.executable:
            with contextlib.suppress(OSError):  # whoever needs one is told
                kept.begin(1)
        yield
    finally:
        _kept.reset(outer)
        kept.end()


def run_all(
    work: Callable[[_Argument], _Result], arguments: Iterable[_Argument], *, processes: int
) -> list[_Result]:
    """Calls a function for each argument, in processes if more than one; one call each at a time.

    Args:
        work: what can be pickled by its name; it goes to each process once.
        arguments: for a call each; they are begun in this order, by other processes while the
            rest of them is made.
        processes: as `count_processes` says, this one among them; 1: all is done here.

    Returns:
        What each call returned, in the order of the arguments.

    Raises:
        DatasetError: a process was killed, as the system does where memory runs out.
        Exception: what a call raised, as it was raised there. No other call is begun then, what
            this process is at is ended first, and no other process is left.
    """
    if processes == 1:
        return [work(argument) for argument in arguments]
    kept = _kept.get(None)
    if kept is None:
        with keep_processes(module=""):
            return run_all(work, arguments, processes=processes)
    setup = Setup(pickle.dumps(work), logging.getLogger().getEffectiveLevel())
    children = kept.take(processes - 1)
    with ThreadPoolExecutor(processes - 1, thread_name_prefix="worker-pool") as threads:
        try:
            for child in children:
                child.prepare(setup)
            calls: _Calls[_Argument, _Result] = _Calls()
            futures = [threads.submit(calls.make, child.call) for child in children]
            calls.add(arguments, makers=processes)
            calls.make(work)
            for future in as_completed(futures):
                future.result()
        except BaseException:
            for child in children:
                child.end()
            raise
    kept.give_back(children)
    return calls.results()


class _Processes:
    """Processes that wait for work, each of which has imported a module."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._waiting: list[_Child] = []

    def take(self, count: int) -> "list[_Child]":
        """As many as are asked for, of which those begin that there are not yet."""
        self.begin(count - len(self._waiting))
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def begin(self, count: int) -> None:
        """Starts so many more."""
        for _ in range(count):
            self._waiting.append(_Child(self._module))

    def give_back(self, children: "list[_Child]") -> None:
        """Keeps some that have done their work."""
        self._waiting.extend(children)

    def end(self) -> None:
        """Ends them all."""
        for child in self._waiting:
            child.end()


_kept: contextvars.ContextVar[_Processes] = contextvars.ContextVar("kept")


class _Calls(Generic[_Argument, _Result]):
    """Calls to make, by whoever asks for the next, and what came of them."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[int, _Argument] | None] = queue.SimpleQueue()
        self._results: dict[int, _Result] = {}
        self._has_failed = False

    def add(self, arguments: Iterable[_Argument], *, makers: int) -> None:
        """Adds a call for each argument, and then an end for each who makes calls."""
        try:
            for numbered in enumerate(arguments):
                self._waiting.put(numbered)
        finally:
            for _ in range(makers):
                self._waiting.put(None)

    def make(self, call: Callable[[_Argument], _Result]) -> None:
        """Makes one call after the other, until the end or until one has failed, here or there.

        Raises:
            Exception: what the call raises.
        """
        for number, argument in iter(self._waiting.get, None):
            if self._has_failed:
                return
            try:
                self._results[number] = call(argument)
            except BaseException:
                self._has_failed = True
                raise

    def results(self) -> list[_Result]:
        """What they returned, in the order of the arguments."""
        return [self._results[number] for number in sorted(self._results)]


class _Child:
    """A process, and the pipes to and from it."""

    def __init__(self, module: str) -> None:
        path = json.dumps([part for part in sys.path if isinstance(part, str)])
        self._process = subprocess.Popen(
            [sys.executable, *_warning_options(), "-c", _CODE, path, str(os.getpid()), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
        )
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, self._process.stdout)

    def prepare(self, setup: Setup) -> None:
        """Says what the next calls are of."""
        with contextlib.suppress(OSError):  # it has ended, as the first call will say
            self._send(setup)

    def _send(self, something: object) -> None:
        pickle.dump(something, self._requests)
        self._requests.flush()

    def call(self, argument: object) -> Any:
        """What the work on an argument gives there; logs what it logged, raises what it raised."""
        try:
            self._send(argument)
            reply: Reply = pickle.load(self._replies)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
            raise self._lost(argument) from error
        for record in reply.records:
            logger = logging.getLogger(record.name)
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        if reply.error is not None:
            raise reply.error from _RemoteTraceback(reply.traceback)
        return reply.value

    def _lost(self, argument: object) -> DatasetError:
        status = self._process.wait()
        how = f"it ended with status {status}. What it printed says why"
        if status < 0:
            how = f"signal {-status} ({_signal_name(-status)}) ended it"
        if status == -signal.SIGKILL:
            how += (
                ", as the system does where memory runs out. Give it more memory, or start no "
                "processes: beam_pipeline_args=['--direct_num_workers=1']"
            )
        return DatasetError(
            f"worker process {self._process.pid}: expected {argument!r} to be done, got no answer: "
            f"{how}."
        )

    def end(self) -> None:
        """Ends the process, whatever it is at."""
        self._process.kill()
        with contextlib.suppress(OSError):  # what was not sent to one that is no more
            self._requests.close()
        self._process.wait()
        self._replies.close()


class _RemoteTraceback(Exception):
    """Where an error was raised in another process, for whoever reads a log."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text

    def __str__(self) -> str:
        return f"\n{self._text}"


def _warning_options() -> Iterator[str]:
    yield from (f"-W{option}" for option in sys.warnoptions)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
