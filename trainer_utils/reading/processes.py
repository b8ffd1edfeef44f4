"""Batches made by processes of their own, and handed over in memory that they share.

A batch is a function of epoch and step, so any process may make any of them. Its arrays lie in a
file of memory, which comes once over a socket and is used again when nobody holds them any more.
The processes are new ones of this Python, which import nothing of the main module.
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


_ALIGNMENT = 64  # bytes; TensorFlow copies what lies otherwise
_LEAST_BYTES = 1 << 20
_SERVE = (
    # Ctrl-C reaches the whole group: the process that reads the batches ends this one.
    # `_signal` is built in: the working folder, which is on the path here, may have a `signal.py`.
    "import _signal; _signal.signal(_signal.SIGINT, _signal.SIG_IGN); "
    "_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT]); "
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from trainer_utils.reading.processes import serve; serve(int(sys.argv[1]))"
)


class BatchProcesses:
    """Makes batches, for any number of threads; the processes start with the first call.

    Refuses functions in the options that another process cannot import.
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
        """The batches of some reads of an epoch, and which records were found unreadable since.

        Raises what `Batches` raises, and RuntimeError where the process was killed.
        """
        idle = self._processes()
        try:
            process = idle.get() or _Process(self._payload)
            answer = process.ask(epoch, list(reads))
            idle.put(process)
        except BaseException as error:
            # Also an exception of a signal's handler. The process may still send its answer, which
            # the next request would take for its own: another one takes its place.
            idle.put(None)
            if isinstance(error, _ProcessEndedError):
                raise RuntimeError(
                    f"a process that makes batches ended with exit status {error.code}; if the "
                    "system ended it for want of memory, give the input fewer than "
                    f"processes={self._count}"
                ) from error
            raise
        if isinstance(answer, Exception):  # an OSError, too, is then what it met, and not its end
            raise answer
        return answer

    def _processes(self) -> "queue.SimpleQueue[_Process | None]":
        """The processes that are idle; None for each that is to be started."""
        if self._forked_in != os.getpid():  # a thread of the parent may have held the lock
            self._forked_in, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if self._owner != os.getpid():  # a process that was forked has its own
                idle = queue.SimpleQueue[_Process | None]()
                for _ in range(self._count):
                    idle.put(_Process(self._payload))
                self._owner, self._idle = os.getpid(), idle
        return self._idle


class _Importable(pickle.Pickler):
    """A pickler that refuses functions and classes of the main module, by a PicklingError."""

    def reducer_override(self, value: Any) -> Any:
        """Refuse a value that the other process would look for in a main module of its own."""
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise pickle.PicklingError("one of the main module")
        return NotImplemented


class _ProcessEndedError(Exception):
    """A process ended before it answered."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit status {code}")
        self.code = code


class _Process:
    """One process, and the memory that it shares with this one."""

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
        """Return what `BatchProcesses.make` returns, or the error that it raises.

        A process whose answer was not read to its end is stopped, and must not be asked again.
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
    """Answers calls until the other end of a socket is closed: a process's whole work."""
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
    except (EOFError, OSError):  # nobody asks any more
        return


def _store(
    arrays: Sequence[memoryview], maps: list[mmap.mmap], free: set[int]
) -> tuple[int, list[tuple[int, int]], int | None]:
    """Copies arrays into a file of memory that is free: which, and where; of a new one, itself."""
    ends = [*itertools.accumulate(-(-one.nbytes // _ALIGNMENT) * _ALIGNMENT for one in arrays)]
    need = ends[-1] if ends else 0
    number, file = next((n for n in free if len(maps[n]) >= need), len(maps)), None
    free.discard(number)
    if number == len(maps):
        # Powers of two, so that others fit too; what is not written takes no memory.
        size = max(_LEAST_BYTES, 1 << max(need - 1, 0).bit_length())
        if hasattr(os, "memfd_create"):  # /dev/shm is 64 MB in many a container
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
    """An error as another process can raise it."""
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
