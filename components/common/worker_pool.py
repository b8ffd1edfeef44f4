"""Work on all cores by light processes that import neither TFX nor Beam nor TensorFlow.

    run_all(write_task, ["train-00000", "train-00001"], processes=2)      # [result, result]

`multiprocessing` and `concurrent.futures` would import the main module anew in every process: with
TFX it takes ten seconds, and a script without a guard would run again. Forks of a process that has
TensorFlow's threads may hang. So threads of a `ThreadPoolExecutor` each hold one process of their
own, started with nothing but the path of imports (see `worker_process`).
"""

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, cast

from components.common.worker_process import Reply, Setup
from trainer_utils.format import DatasetError
from trainer_utils.machine import free_memory, usable_cores

__all__ = ["ALL", "count_processes", "run_all"]

ALL = 0
"""As many processes as cores that may be used."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")

# What takes less time alone is not worth the start of processes, half a second each.
_WORTH_SECONDS = 1.5
_MEMORY_SHARE = 0.5  # of what is free when the processes start
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from components.common.worker_process import serve; serve(int(sys.argv[2]))"
)
# Of libraries that would start a thread a core in every process.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def count_processes(most: int, *, tasks: int, seconds: float, process_bytes: int) -> int:
    """How many processes some work is given to; 1: it is done in this one.

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


def run_all(
    work: Callable[[_Argument], _Result], arguments: Sequence[_Argument], *, processes: int
) -> list[_Result]:
    """Calls a function for each argument, in processes if more than one; one call each at a time.

    Args:
        work: what can be pickled by its name; it goes to each process once.
        arguments: for a call each; they are begun in this order.
        processes: as `count_processes` says; 1: all is done here and now.

    Returns:
        What each call returned, in the order of the arguments.

    Raises:
        DatasetError: a process was killed, as the system does where memory runs out.
        Exception: what a call raised, as it was raised there. No other call is begun then, and no
            process is left.
    """
    if processes == 1:
        return [work(argument) for argument in arguments]
    with _Pool(pickle.dumps(work), processes) as pool:
        futures: list[Future[_Result]] = [pool.submit(argument) for argument in arguments]
        wait(futures, return_when=FIRST_EXCEPTION)
        failed = [f for f in futures if f.done() and f.exception() is not None]
        return [future.result() for future in failed or futures]


class _Pool:
    """Threads with a process each. Leaving it with an error kills what is at work."""

    def __init__(self, work: bytes, processes: int) -> None:
        self._setup = Setup(work, logging.getLogger().getEffectiveLevel())
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="worker-pool")
        self._own = threading.local()
        self._children: list[_Child] = []
        self._lock = threading.Lock()
        self._is_ended = False

    def __enter__(self) -> "_Pool":
        return self

    def submit(self, argument: object) -> "Future[Any]":
        return self._threads.submit(self._call, argument)

    def _call(self, argument: object) -> Any:
        if not hasattr(self._own, "child"):
            with self._lock:
                if self._is_ended:
                    raise RuntimeError("the pool has ended")
                self._own.child = _Child(self._setup)
                self._children.append(self._own.child)
        return self._own.child.call(argument)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_ended = True
        for child in self._children:
            child.end(now=kind is not None)
        self._threads.shutdown()


class _Child:
    """A process, and the pipes to and from it."""

    def __init__(self, setup: Setup) -> None:
        self._unsent: list[object] = [setup]
        path = json.dumps([part for part in sys.path if isinstance(part, str)])
        self._process = subprocess.Popen(
            [sys.executable, *_warning_options(), "-c", _CODE, path, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
        )
        self._requests = cast(BinaryIO, self._process.stdin)
        self._replies = cast(BinaryIO, self._process.stdout)

    def call(self, argument: object) -> Any:
        """What the work on an argument gives there; logs what it logged, raises what it raised."""
        self._unsent.append(argument)
        try:
            while self._unsent:
                pickle.dump(self._unsent.pop(0), self._requests)
            self._requests.flush()
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

    def end(self, *, now: bool) -> None:
        """Ends the process: at once, or by closing the pipe, which it waits at."""
        if now:
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
