"""Make batches in child processes, which hand them over in shared memory.

A batch is a function of epoch and step, so any process may make any batch. Its arrays are in a
memory file that is sent once over a socket. The file is used again when nothing refers to its
arrays. The processes are fresh Python interpreters, which import nothing of the main module.
"""

import collections
import io
import itertools
import json
import mmap
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer_utils import machine
from trainer_utils.format import ConfigError
from trainer_utils.machine import usable_cores

if TYPE_CHECKING:
    from trainer_utils.reading.batches import Batches


_ALIGNMENT = 64  # bytes; TensorFlow copies arrays that are aligned otherwise
_MIN_BYTES = 1 << 20
_SERVE = (
    # Ctrl-C reaches the whole group: the process that reads the batches ends this one.
    # `_signal` is built in: the working folder, which is on the path here, may have a `signal.py`.
    "import _signal; _signal.signal(_signal.SIGINT, _signal.SIG_IGN); "
    "_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT]); "
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from trainer_utils.reading.processes import serve; serve(int(sys.argv[1]))"
)


class BatchProcesses:
    """A pool of processes that make batches, for any number of threads.

    The processes start with the first call.

    Args:
        batches: the batches to make.
        count: the number of processes.

    Raises:
        ConfigError: the options have functions that another process cannot import.
    """

    def __init__(self, batches: "Batches", count: int) -> None:
        payload = io.BytesIO()
        try:
            _Importable(payload).dump((batches, max(1, usable_cores() // count)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_to_be_sent(count, str(error)) from error
        self._payload = payload.getvalue()
        self._count, self._lock, self._owner = count, threading.Lock(), 0
        self._forked_in = os.getpid()

    def make(self, epoch: int, reads: Sequence[int]) -> tuple[list[Any], dict[Any, str]]:
        """Return the batches of some reads of an epoch, and the newly found unreadable records.

        Raises:
            RuntimeError: the process was killed.
            Exception: an error raised by `Batches`.
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
        if self._forked_in != os.getpid():  # a thread of the parent may have held the lock
            self._forked_in, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if self._owner != os.getpid():  # a forked process starts its own
                idle = queue.SimpleQueue[_Process | None]()
                for _ in range(self._count):
                    idle.put(_Process(self._payload))
                self._owner, self._idle = os.getpid(), idle
        return self._idle


class _Importable(pickle.Pickler):
    """A pickler that raises PicklingError for functions and classes of the main module."""

    def reducer_override(self, value: Any) -> Any:
        """Raise for a value that the other process would look up in its own main module."""
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise pickle.PicklingError("one of the main module")
        return NotImplemented


class _ProcessEndedError(Exception):
    """A process ended before it answered."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit status {code}")
        self.code = code


class _Process:
    """A process, and the memory shared with it."""

    def __init__(self, payload: bytes) -> None:
        here, there = socket.socketpair()
        with there:
            arguments = [sys.executable, "-c", _SERVE, str(there.fileno()), json.dumps(sys.path)]
            # Blocked until the child ignores it, so that Ctrl-C never ends it with a traceback.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                self._process = subprocess.Popen(
                    arguments, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._connection, self._payload = Connection(here.detach()), payload
        self._requests = itertools.count()
        self._files: list[mmap.mmap] = []
        self._released: collections.deque[int] = collections.deque()
        self.stop = weakref.finalize(self, _stop, self._process, self._connection)

    def ask(self, epoch: int, reads: list[int]) -> tuple[list[Any], dict[Any, str]] | Exception:
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

    def _ask(self, epoch: int, reads: list[int]) -> tuple[list[Any], dict[Any, str]] | Exception:
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
        number, num_bytes, bounds, pickled, unreadable = answer
        if number == len(self._files):
            descriptor = reduction.recv_handle(self._connection)
            self._files.append(mmap.mmap(descriptor, num_bytes))
            os.close(descriptor)
        owner = np.frombuffer(self._files[number], np.uint8)
        weakref.finalize(owner, self._released.append, number).atexit = False
        memory = memoryview(owner)  # type: ignore[arg-type]
        return pickle.loads(pickled, buffers=[memory[a:b] for a, b in bounds]), unreadable


def _stop(process: "subprocess.Popen[bytes]", connection: Connection) -> int:
    connection.close()
    process.kill()
    return process.wait()


def serve(descriptor: int) -> None:
    """Answer requests until the other end of a socket is closed."""
    connection, maps, free = Connection(descriptor), list[mmap.mmap](), set[int]()
    batches: Batches | None = None
    told: set[Any] = set()
    try:
        payload = connection.recv_bytes()
        while True:
            request, epoch, reads, returned = connection.recv()
            free.update(returned)
            try:
                if batches is None:
                    batches, machine.most_threads = pickle.loads(payload)
                made = batches.make(epoch, reads)
            except Exception as error:
                connection.send((request, _sendable(error)))
                continue
            new = {key: why for key, why in batches.unreadable.items() if key not in told}
            told.update(new)
            buffers: list[pickle.PickleBuffer] = []
            pickled = pickle.dumps(made, protocol=5, buffer_callback=buffers.append)
            number, bounds, file = _store([buffer.raw() for buffer in buffers], maps, free)
            connection.send((request, (number, len(maps[number]), bounds, pickled, new)))
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
    ends = [*itertools.accumulate(-(-one.nbytes // _ALIGNMENT) * _ALIGNMENT for one in arrays)]
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
    bounds = [(begin, begin + one.nbytes) for begin, one in zip([0, *ends], arrays, strict=False)]
    for (begin, end), one in zip(bounds, arrays, strict=True):
        maps[number][begin:end] = one
    return number, bounds, file


def _sendable(error: Exception) -> Exception:
    """Return an error that the other process can unpickle, a RuntimeError if necessary."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error


def _not_to_be_sent(count: int, what: str) -> ConfigError:
    rule = f"0 with functions that another process cannot import, as {what}"
    return ConfigError.of(
        "processes", count, allowed=rule, advice="Put them into a module of their own"
    )
