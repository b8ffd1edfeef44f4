"""Make batches in child processes, which hand them over in shared memory.

A batch is a function of epoch and step, so any process may make any batch. Its arrays are in a
memory file that is sent once over a socket. The file is used again when nothing refers to its
arrays. The processes are fresh Python interpreters, which import nothing of the main module.
"""

import collections
import itertools
import mmap
import os
import pickle
import queue
import subprocess
import tempfile
import traceback
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeAlias

import numpy as np

from trainer_utils.core.errors import ConfigError
from trainer_utils.format.slices import RecordName
from trainer_utils.reading.elements import Batch
from trainer_utils.reading.input_stats import COUNTERS, StageCounters
from trainer_utils.runtime import threads
from trainer_utils.runtime.fork_lock import ForkLock
from trainer_utils.runtime.interpreters import pickle_importable, start_interpreter
from trainer_utils.runtime.machine import usable_cores

_ALIGNMENT = 64  # bytes; TensorFlow copies arrays that are aligned otherwise
_MIN_BYTES = 1 << 20


Answer: TypeAlias = tuple[list[Batch], dict[RecordName, str], list[int]]
"""Batches, newly found unreadable records, and the growth of counters."""


class BatchMaker(Protocol):
    """A picklable maker of batches."""

    @property
    def unreadable(self) -> Mapping[RecordName, str]:
        """Error of each record that was left out, by path and number."""

    @property
    def counters(self) -> StageCounters:
        """The counters of this process."""

    def make(self, epoch: int, reads: Sequence[int]) -> list[Batch]:
        """Return the batches of some reads of an epoch."""


class BatchProcesses:
    """A pool of processes that make batches, for any number of threads.

    The processes start with the first call.

    Args:
        batches: makes the batches.
        count: the number of processes.

    Raises:
        ConfigError: the options have functions that another process cannot import.
    """

    def __init__(self, batches: BatchMaker, count: int) -> None:
        try:
            self._payload = pickle_importable((batches, max(1, usable_cores() // count)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_to_be_sent(count, str(error)) from error
        self._count, self._lock, self._owner = count, ForkLock(), 0

    def make(self, epoch: int, reads: Sequence[int]) -> Answer:
        """Return the batches of some reads of an epoch.

        Returns:
            The batches, the newly found unreadable records, and the growth of the process's
            counters, in the order of `COUNTERS`.

        Raises:
            RuntimeError: the process was killed.
            Exception: an error of making them.
        """
        idle = self._processes()
        try:
            process = idle.get() or _Process(self._payload)
            answer = process.ask(epoch, list(reads))
            idle.put(process)
        except BaseException as error:
            # This includes exceptions of a signal's handler. The process may still send its answer,
            # and the next request would take it for its own. So another process replaces it.
            idle.put(None)
            if isinstance(error, _ProcessEndedError):
                raise RuntimeError(
                    f"a process that makes batches ended with exit status {error.code}. If the "
                    "system killed it because memory ran out, use fewer than "
                    f"processes={self._count}"
                ) from error
            raise
        if isinstance(answer, Exception):  # including an OSError that the process ran into
            raise answer
        return answer

    def _processes(self) -> "queue.SimpleQueue[_Process | None]":
        """Return the queue of idle processes; a None is replaced by a new process."""
        with self._lock:
            if self._owner != os.getpid():  # a forked process starts its own
                idle = queue.SimpleQueue[_Process | None]()
                for _ in range(self._count):
                    idle.put(_Process(self._payload))
                self._owner, self._idle = os.getpid(), idle
        return self._idle


class _ProcessEndedError(Exception):
    """A process ended before it answered."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit status {code}")
        self.code = code


class _Process:
    """A process, and the memory shared with it."""

    def __init__(self, payload: bytes) -> None:
        self._process, self._connection = start_interpreter(__name__)
        self._payload = payload
        self._requests = itertools.count()
        self._files: list[mmap.mmap] = []
        self._released: collections.deque[int] = collections.deque()
        self.stop = weakref.finalize(self, _stop, self._process, self._connection)

    def ask(self, epoch: int, reads: list[int]) -> Answer | Exception:
        """Return the result of `BatchProcesses.make`, or the error that it raises.

        If the answer is not read completely, the process is stopped and must not be used again.
        """
        try:
            return self._ask(epoch, reads)
        except (EOFError, ConnectionError) as error:  # a TimeoutError is a signal handler's
            raise _ProcessEndedError(self.stop()) from error
        except BaseException:
            self.stop()
            raise

    def _ask(self, epoch: int, reads: list[int]) -> Answer | Exception:
        """Send a request, and return the answer with its arrays in shared memory."""
        if self._payload:
            self._connection.send_bytes(self._payload)
            self._payload = b""
        free = [self._released.popleft() for _ in range(len(self._released))]
        request = next(self._requests)
        self._connection.send((request, epoch, reads, free))
        answered, answer = self._connection.recv()
        if answered != request:
            raise RuntimeError(f"request {request}: expected its answer, got that of {answered}")
        if isinstance(answer, Exception):
            return answer
        number, num_bytes, bounds, pickled, unreadable, counters = answer
        if number == len(self._files):
            descriptor = reduction.recv_handle(self._connection)
            self._files.append(mmap.mmap(descriptor, num_bytes))
            os.close(descriptor)
        owner = np.frombuffer(self._files[number], np.uint8)
        weakref.finalize(owner, self._released.append, number).atexit = False
        memory = memoryview(owner)  # type: ignore[arg-type]
        batches = pickle.loads(pickled, buffers=[memory[a:b] for a, b in bounds])
        return batches, unreadable, counters


def _stop(process: "subprocess.Popen[bytes]", connection: Connection) -> int:
    connection.close()
    process.kill()
    return process.wait()


def serve(descriptor: int) -> None:
    """Answer requests until the other end of a socket is closed."""
    connection, maps, free = Connection(descriptor), list[mmap.mmap](), set[int]()
    batches: BatchMaker | None = None
    reported: set[Any] = set()
    counted = [0] * len(COUNTERS)
    try:
        payload = connection.recv_bytes()
        while True:
            request, epoch, reads, returned = connection.recv()
            free.update(returned)
            try:
                if batches is None:
                    batches, threads.most_threads = pickle.loads(payload)
                made_batches = batches.make(epoch, reads)
            except Exception as error:
                connection.send((request, _sendable(error)))
                continue
            new = {key: why for key, why in batches.unreadable.items() if key not in reported}
            reported.update(new)
            counters = batches.counters.values()
            grown = [now - before for now, before in zip(counters, counted, strict=True)]
            counted = counters
            buffers: list[pickle.PickleBuffer] = []
            pickled = pickle.dumps(made_batches, protocol=5, buffer_callback=buffers.append)
            number, bounds, file = _store([buffer.raw() for buffer in buffers], maps, free)
            connection.send((request, (number, len(maps[number]), bounds, pickled, new, grown)))
            if file is not None:
                reduction.send_handle(connection, file, os.getppid())
                os.close(file)
    except (EOFError, OSError):  # the parent has gone
        return


def _store(
    arrays: Sequence[memoryview], maps: list[mmap.mmap], free: set[int]
) -> tuple[int, list[tuple[int, int]], int | None]:
    """Copy arrays into a free memory file.

    Returns:
        The file's number, the bounds of the arrays in it, and the descriptor of a new file or None.
    """
    ends = [*itertools.accumulate(-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays)]
    need = ends[-1] if ends else 0
    number, file = next((n for n in free if len(maps[n]) >= need), len(maps)), None
    free.discard(number)
    if number == len(maps):
        # Use powers of two, so that other batches fit too. Unwritten pages take no memory.
        size = max(_MIN_BYTES, 1 << max(need - 1, 0).bit_length())
        if hasattr(os, "memfd_create"):  # many containers limit /dev/shm to 64 MB
            file = os.memfd_create("tfx-shards-batch")
        else:
            with tempfile.TemporaryFile() as stream:
                file = os.dup(stream.fileno())
        os.ftruncate(file, size)
        maps.append(mmap.mmap(file, size))
    bounds = [
        (begin, begin + array.nbytes) for begin, array in zip([0, *ends], arrays, strict=False)
    ]
    for (begin, end), array in zip(bounds, arrays, strict=True):
        maps[number][begin:end] = array
    return number, bounds, file


class _TracebackOfProcess(Exception):
    """The traceback of an error in another process, which Python prints above the error."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _SentError:
    """An error that arrives in the other process with its traceback as its cause."""

    def __init__(self, error: Exception, lines: str) -> None:
        self._error, self._lines = error, lines

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_traceback, (self._error, self._lines)


def _with_traceback(error: Exception, lines: str) -> Exception:
    error.__cause__ = _TracebackOfProcess(lines)
    return error


def _sendable(error: Exception) -> "_SentError":
    """Return an error that the other process can unpickle, a RuntimeError if necessary."""
    lines = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _SentError(error, lines)


def _not_to_be_sent(count: int, what: str) -> ConfigError:
    rule = f"0 with functions that another process cannot import, as {what}"
    return ConfigError.of(
        "processes", count, allowed=rule, advice="Put them into a module of their own"
    )
