"""Light processes of this machine, which import neither TFX nor Beam nor TensorFlow.

They are forked by a server (`multiprocessing`'s forkserver) that has imported the module, and no
main module: with TFX that takes ten seconds in each, and a fork of TensorFlow's threads may hang.
"""

import concurrent.futures
import contextlib
import faulthandler
import fcntl
import functools
import gc
import logging
import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from logging.handlers import QueueHandler
from typing import Any, NamedTuple

from trainer_utils.format import DatasetError
from trainer_utils.machine import free_memory, usable_cores

# What takes less time alone is not worth the start of processes, 0.3 s of a core each.
_WORTH_SECONDS = 0.75
_MEMORY_SHARE = 0.5  # of what is free when the processes start
# Of libraries that would start a thread a core in every process.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def count_processes(most: int, *, tasks: int, seconds: float, process_bytes: int) -> int:
    """How many processes do some work; 1: it is done in this one.

    Args:
        most: as many as are allowed; 0: one a core.
        tasks: how many parts the work has.
        seconds: about what it takes alone.
        process_bytes: of memory that one of them may need.
    """
    if seconds < _WORTH_SECONDS or not sys.executable:
        return 1
    fitting = int(free_memory() * _MEMORY_SHARE) // process_bytes
    return max(1, min(most or usable_cores(), tasks, fitting))


class Pool:
    """Processes that begin when there is work, and wait for more until `end`.

    Args:
        module: that they import.
    """

    def __init__(self, module: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._executor: concurrent.futures.ProcessPoolExecutor | None = None
        self._size = 0
        if usable_cores() > 1 and sys.executable:
            self._context.set_forkserver_preload([module] if module else [])
            with contextlib.suppress(OSError), _light():  # whoever needs one is told
                multiprocessing.forkserver.ensure_running()

    def map(
        self, call: Callable[[Any], Any], arguments: Sequence[Any], processes: int
    ) -> list[Any]:
        """What each call returned, in the order of the arguments.

        Raises:
            DatasetError: a process was killed, as the system does where memory runs out.
            Exception: what a call raised. No other is begun then, and no process is left.
        """
        children: dict[int, Any] = {}
        try:
            with tempfile.NamedTemporaryFile() as file:  # goes to each process once, at any size
                pickle.dump(call, file)
                file.flush()
                executor = self._grown(processes)
                with _light():
                    futures = [executor.submit(_answer, file.name, a) for a in arguments]
                children.update(executor._processes)
                for future in concurrent.futures.as_completed(futures):
                    _take(future.result())
            return [future.result().value for future in futures]
        except BaseException as error:
            if self._executor is not None:  # it may have come while work was handed out
                children.update(self._executor._processes or {})
            lost = None
            if isinstance(error, BrokenProcessPool):
                self.end()  # its thread asks each process for its status, which can be read once
                lost = _lost(children)
            for child in children.values():
                child.kill()
            self.end()
            if lost is not None:
                raise lost from error
            raise

    def _grown(self, processes: int) -> concurrent.futures.ProcessPoolExecutor:
        if self._executor is None or self._size < processes:
            self.end()
            self._size = processes
            self._executor = concurrent.futures.ProcessPoolExecutor(
                processes, self._context, _begin, (logging.getLogger().getEffectiveLevel(),)
            )
        return self._executor

    def end(self) -> None:
        """Ends the processes, once they are done with what they are at."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


@contextlib.contextmanager
def _light() -> Iterator[None]:
    """Has processes that begin within import no main module, and compute in one thread each."""
    main, before = sys.modules["__main__"], dict(os.environ)
    sys.modules["__main__"] = types.ModuleType("__main__")  # which would run again in each
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name in _ONE_THREAD:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in _ONE_THREAD if name in before})


def _lost(children: dict[int, Any]) -> DatasetError:
    codes = {pid: child.exitcode or 0 for pid, child in children.items()}
    # The others are ended by the pool, with SIGTERM.
    pid, code = min(codes.items(), key=lambda item: (item[1] in (0, -signal.SIGTERM), item[1]))
    how = f"it ended with status {code}. What it printed says why"
    if code < 0:
        how = f"{signal.Signals(-code).name} ended it"
    if code == -signal.SIGKILL:
        how += (
            ", as the system does where memory runs out. Give it more memory, or start no "
            "processes: beam_pipeline_args=['--direct_num_workers=1'] "
            "(--beam-arg=--direct_num_workers=1)"
        )
    return DatasetError(
        f"worker process {pid}: expected its work to be done, got no answer: {how}."
    )


class _Reply(NamedTuple):
    value: Any
    error: BaseException | None
    traceback: str
    records: list[logging.LogRecord]


def _take(reply: _Reply) -> None:
    """Logs what was logged there, and raises what was raised."""
    for record in reply.records:
        if (logger := logging.getLogger(record.name)).isEnabledFor(record.levelno):
            logger.handle(record)
    if reply.error is not None:
        raise reply.error from RuntimeError(f"\n{reply.traceback}")


_records: "queue.SimpleQueue[logging.LogRecord]" = queue.SimpleQueue()


def _begin(log_level: int) -> None:
    """What a process does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    faulthandler.enable()
    _end_with_parent()
    os.dup2(2, 1)  # what a library prints would be taken for the program's own output
    sys.stdout = sys.stderr
    logging.getLogger().addHandler(QueueHandler(_records))
    logging.getLogger().setLevel(log_level)
    logging.captureWarnings(True)
    gc.freeze()  # a full collection, of which a thousand files ask for one, takes 30 ms of modules


def _end_with_parent() -> None:
    """Has this process end with its parent, even inside a library that never ends."""
    if (parent := multiprocessing.parent_process()) is None:
        return
    if sys.platform == "linux":  # of the pipe's end comes SIGIO, which needs no lock of Python's
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _read_call(path: str) -> Callable[[Any], Any]:
    with open(path, "rb") as stream:
        found: Callable[[Any], Any] = pickle.load(stream)
    return found


def _answer(path: str, argument: object) -> _Reply:
    """Makes a call; what became of it, in what can be pickled."""
    value, error, text = None, None, ""
    try:
        value = _read_call(path)(argument)
    except BaseException as caught:
        error, text = caught, traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # some are pickled well, and cannot be read again
    except Exception:
        error = RuntimeError(f"{type(error).__qualname__}: {error}")
    return _Reply(value, error, text, [_records.get() for _ in range(_records.qsize())])
