"""Provide an object store for a forked process, which sends its requests to a new process.

obstore's threads do not exist in a fork, so a request there would never be answered. PyTorch forks
the processes of a `DataLoader` by default. The first request in a forked process therefore starts
a new Python process without a fork, with its own memory and connections, that makes the requests.
It ends when the forked process ends.
"""

import collections
import functools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

_SERVE = (
    # The working folder may have a `json.py`, so it leaves the path before `json` is imported.
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import json; sys.path[:] = json.loads(sys.argv[2]); "
    "from trainer_utils.storage.store_process import serve; serve(int(sys.argv[1]))"
)
_END = None  # marks the end of a list


class ForkedStore:
    """The methods of an obstore store that reading needs, and `copy` and `delete`."""

    def __init__(self, process: "StoreProcess", scheme: str, bucket: str, *, to_read: bool) -> None:
        self._name, self._process = (scheme, bucket, to_read), process

    def get(self, key: str, *, options: Any) -> "_Answer":
        """Return an answer with `meta` and `bytes()`."""
        return _Answer(*self._process.call(self._name, "get", (key,), {"options": options}))

    def list(self, prefix: str | None, *, chunk_size: int) -> Iterator[Sequence[Any]]:
        """Yield pages of objects."""
        more = {"chunk_size": chunk_size}
        return self._process.pages(self._name, "list", (prefix,), more)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in ("head", "list_with_delimiter", "copy", "delete"):
            raise AttributeError(method)
        return lambda *arguments: self._process.call(self._name, method, arguments, {})


class _Answer:
    def __init__(self, meta: Any, data: bytes) -> None:
        self.meta, self._data = meta, data

    def bytes(self) -> bytes:
        return self._data


class StoreProcess:
    """A process that makes requests, for any number of threads, each with its own connection."""

    def __init__(self) -> None:
        self._lock, self._idle = threading.Lock(), collections.deque[Connection]()
        self._control: Connection | None = None

    def call(self, name: Any, method: str, arguments: Any, more: Any) -> Any:
        """Call a method of a store in the process; return its result or raise its error."""
        connection = self._ask(name, method, arguments, more)
        answer = self._answer(connection)
        self._idle.append(connection)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pages(self, name: Any, method: str, arguments: Any, more: Any) -> Iterator[Sequence[Any]]:
        """Yield the results of a generator method of a store in the process."""
        connection = self._ask(name, method, arguments, more)
        while (page := self._answer(connection)) is not _END:
            if isinstance(page, Exception):
                raise page  # the connection is dropped too, as when the caller stops early
            yield page
        self._idle.append(connection)

    def _ask(self, *request: Any) -> Connection:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.send(request)
        except ConnectionError as error:
            raise self._ended() from error
        return connection

    def _answer(self, connection: Connection) -> Any:
        try:
            return connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._ended() from error

    def _connect(self) -> Connection:
        here, there = socket.socketpair()
        with self._lock, there:
            if self._control is None:
                self._control = self._start()
            reduction.send_handle(self._control, there.fileno(), os.getpid())
        return Connection(here.detach())

    def _start(self) -> Connection:
        here, there = socket.socketpair()
        with there:
            command = [sys.executable, "-c", _SERVE, str(there.fileno()), json.dumps(sys.path)]
            process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        control = Connection(here.detach())
        weakref.finalize(self, _stop, process, control).atexit = False
        return control

    def _ended(self) -> ConnectionError:
        """Return the error for a process that has ended; the next call starts a new one."""
        with self._lock:
            self._control = None
            self._idle.clear()
        return ConnectionError("the process that asks the object store ended")


def _stop(process: "subprocess.Popen[bytes]", control: Connection) -> None:
    control.close()
    process.kill()
    process.wait()


def serve(descriptor: int) -> None:
    """Answer the requests of one process until it ends; the main function of the new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    control = Connection(descriptor)
    while True:
        try:
            handle = reduction.recv_handle(control)
        except (EOFError, OSError):
            os._exit(0)  # without waiting for pending requests
        threading.Thread(target=_answer_all, args=(Connection(handle),), daemon=True).start()


def _answer_all(connection: Connection) -> None:
    try:
        while True:
            name, method, arguments, more = connection.recv()
            for answer in _answers(name, method, arguments, more):
                connection.send(answer)
    except (EOFError, ConnectionError):
        return


def _answers(name: Any, method: str, arguments: Any, more: Any) -> Iterator[Any]:
    try:
        store = _store(*name)
        if method == "get":
            result = store.get(*arguments, **more)
            yield result.meta, bytes(result.bytes())
        elif method == "list":
            for page in store.list(*arguments, **more):
                yield [dict(info) for info in page]
            yield _END
        else:
            yield getattr(store, method)(*arguments)
    except Exception as error:
        yield _sendable(error)


@functools.lru_cache(maxsize=256)
def _store(scheme: str, bucket: str, to_read: bool) -> Any:
    from trainer_utils.storage.store_settings import open_store

    return open_store(scheme, bucket, to_read=to_read)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error
