"""Lightweight local processes, which import neither TFX nor Beam nor TensorFlow.

A server forks them. It is a fresh Python that has imported only the module they need: importing TFX
would take ten seconds in each, and a fork of TensorFlow's threads may hang. Server and processes
belong to one `Pool`. Nothing of the calling program changes: neither its own fork server, nor its
environment, its main module or its garbage collector.

The calling thread sends each process one task at a time. There is no queue and no thread that could
block, so an exception ends the pool at once, however many tasks wait.
"""

import contextlib
import ctypes
import faulthandler
import functools
import gc
import importlib
import logging
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from logging.handlers import QueueHandler
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

from trainer_utils.core.errors import DatasetError
from trainer_utils.runtime.machine import free_memory, usable_cores

# Shorter work is not worth starting processes, which takes 0.3 s of a core each.
_WORTH_SECONDS = 0.75
_MEMORY_SHARE = 0.5  # share of the memory that is free when the processes start
# For libraries that would start a thread per core in every process.
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "TOKENIZERS_PARALLELISM": "false",
}
_END_SECONDS = 1.5  # for the server to end its processes and itself
_STATUS_SECONDS = 10.0  # for the status of an ended process to arrive
_PARENT_SECONDS = 1.0  # between two checks by the server that its parent is alive
_PACKAGES = ("components", "pipelines", "trainer_utils")
_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")
_PR_SET_PDEATHSIG = 1  # Linux's prctl option: the signal that a process gets when its parent ends


def is_worth_processes(seconds: float) -> bool:
    """Return whether work of `seconds` of one core is worth starting processes."""
    return seconds >= _WORTH_SECONDS


def count_processes(most: int, *, tasks: int, seconds: float, process_bytes: int) -> int:
    """Return the number of processes for some work. 1: it is done in this process.

    Args:
        most: the maximum number. 0: one per core.
        tasks: the number of parts of the work.
        seconds: the approximate time of the work in one process.
        process_bytes: the memory that one process may need.
    """
    if not is_worth_processes(seconds) or not sys.executable:
        return 1
    fitting = int(free_memory() * _MEMORY_SHARE) // process_bytes
    return max(1, min(most or usable_cores(), tasks, fitting))


class Pool:
    """Processes that start when there is work, and wait for more until `end`.

    Args:
        module: the module that they need, which their server imports.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._server: _Server | None = None
        self._workers: list[_Worker] = []
        self._thread: _Thread | None = None

    def start_early(self) -> None:
        """Start the server, which imports the module while this process does something else."""
        if usable_cores() > 1 and sys.executable and self._server is None:
            with contextlib.suppress(OSError):  # the caller that needs it gets the error
                self._server = _Server(self._module)

    def map(
        self,
        call: Callable[[_Argument], _Result],
        arguments: Sequence[_Argument],
        processes: int,
        *,
        on_result: Callable[[int, _Result], None] | None = None,
        helps_start: bool = False,
    ) -> list[_Result]:
        """Return the result of each call, in the order of the arguments.

        Args:
            call: a function that can be pickled, of a module that other processes can import.
            arguments: the argument of each call, in starting order.
            processes: the maximum number of concurrent calls.
            on_result: called with the index of each argument whose call is done, and its result.
            helps_start: make calls in a thread of this process until all processes have started.
                For short calls, since a call in a thread cannot be ended.

        Raises:
            DatasetError: a process was killed, for example by the system when memory runs out.
            Exception: the error of a call. No further call starts, and all processes end.
        """
        try:
            with tempfile.NamedTemporaryFile() as file:  # sent to each process once, at any size
                pickle.dump(call, file)
                file.flush()
                processes = min(processes, len(arguments))
                self._request(processes)
                if helps_start and self._server is not None and self._server.num_starting:
                    self._thread = _Thread()
                results: list[_Result] = self._run(file.name, arguments, processes, on_result)
                return results
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the processes immediately."""
        server, self._server, workers, self._workers = self._server, None, self._workers, []
        self._end_thread()
        if server is not None:
            server.end(has_forked=bool(workers) or server.num_starting > 0)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def _request(self, count: int) -> None:
        """Start the server if necessary, and request that it forks the missing processes."""
        if self._server is None:
            self._server = _Server(self._module)
        known = len(self._workers) + self._server.num_starting
        if (missing := count - known) > 0:
            self._server.fork(missing)

    def _run(
        self,
        call_path: str,
        arguments: Sequence[Any],
        processes: int,
        on_result: Callable[[int, Any], None] | None,
    ) -> list[Any]:
        """Send each process one call at a time, until all calls have returned their results."""
        assert self._server is not None
        results: list[Any] = [None] * len(arguments)
        # Pickled while processes work, so that no process waits for it.
        messages = enumerate(pickle.dumps((call_path, argument)) for argument in arguments)
        waiting = next(messages, None)
        idle, busy = self._workers[:processes], dict[Connection, tuple[_Worker, int]]()
        if self._thread is not None:
            idle.append(self._thread.worker)  # the first to get a call
        while busy or waiting is not None:
            while idle and waiting is not None:
                worker = idle.pop()
                if worker.process is None and len(self._workers) >= processes:
                    self._end_thread()  # enough processes have started
                    continue
                number, message = waiting
                with _naming_death(self._server, worker):
                    worker.connection.send_bytes(message)
                busy[worker.connection] = worker, number
                waiting = next(messages, None)
            for ready in wait([*busy, self._server.connection]):
                if ready is self._server.connection:
                    missing = processes - len(self._workers)
                    started = self._server.read_messages()
                    self._workers += started
                    idle = started[: max(0, missing)] + idle
                    continue
                assert isinstance(ready, Connection)
                worker, number = busy[ready]
                with _naming_death(self._server, worker):
                    reply: _Reply | logging.LogRecord = ready.recv()
                if isinstance(reply, logging.LogRecord):
                    _handle(reply)
                    continue
                results[number] = _value_of(reply)
                del busy[ready]
                idle.append(worker)
                if on_result is not None:
                    on_result(number, results[number])
        self._end_thread()
        return results


class _Worker(NamedTuple):
    process: int | None  # its id; None for the thread
    connection: Connection


@contextlib.contextmanager
def _naming_death(server: "_Server", worker: _Worker) -> Iterator[None]:
    """Raise the error that says how a worker died, if its connection breaks."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise server.error_of(worker.process) from error


class _Thread:
    """A thread of this process that makes calls as worker processes do."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self.worker = _Worker(None, Connection(here.detach()))
        self._thread = threading.Thread(
            target=self._work, args=(Connection(there.detach()),), daemon=True
        )
        self._thread.start()

    @staticmethod
    def _work(connection: Connection) -> None:
        with connection:
            _make_calls(connection, threading.Lock())

    def end(self) -> None:
        """End the thread after its current call; do not wait for a disk that does not answer."""
        self.worker.connection.close()
        self._thread.join(_END_SECONDS)


class _Server:
    """The process that forks the others, and the caller's end of the connection to it.

    It is fresh and has one thread. It ends with all processes that it has forked when the caller's
    end is closed or its parent is gone.
    """

    def __init__(self, module: str) -> None:
        here, there = socket.socketpair()
        path = [place for place in sys.path if isinstance(place, str)]
        code = (
            f"import sys; sys.path[:] = {path!r}; from components.runtime.processes import serve; "
            f"serve({there.fileno()}, {module!r}, {os.getpid()})"
        )
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        # Blocked until the server ignores it: Ctrl-C reaches the whole group.
        with there, _blocked(signal.SIGINT):
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                env=_environment(),
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.connection = Connection(here.detach())
        self._statuses: dict[int, int] = {}
        self._starting: list[Connection] = []  # of requested processes, in order

    @property
    def num_starting(self) -> int:
        """Number of processes that were requested and have not started."""
        return len(self._starting)

    def fork(self, count: int) -> None:
        """Request processes with this process's environment, path and folder."""
        setting = pickle.dumps(_Setting.of_this_process())
        try:
            for _ in range(count):
                here, there = socket.socketpair()
                self._starting.append(Connection(here.detach()))
                with there:
                    self.connection.send_bytes(setting)
                    reduction.send_handle(self.connection, there.fileno(), self._process.pid)
        except (EOFError, OSError) as error:
            raise self._own_error() from error

    def read_messages(self) -> list[_Worker]:
        """Receive the reports of the server, and return the processes that have started."""
        started: list[_Worker] = []
        try:
            while self.connection.poll():
                if (process := self._read()) is not None:
                    started.append(_Worker(process, self._starting.pop(0)))
        except (EOFError, OSError) as error:
            raise self._own_error() from error
        return started

    def error_of(self, process: int | None) -> DatasetError:
        """Return the error that describes how a process ended."""
        if process is None:
            return DatasetError("a thread of this process ended before finishing its work.")
        try:
            end = time.monotonic() + _STATUS_SECONDS
            while process not in self._statuses and time.monotonic() < end:
                if self.connection.poll(0.1):
                    self._read()
        except (EOFError, OSError):  # the server is gone, and its processes with it
            return self._own_error()
        return _worker_death_error(process, self._statuses.get(process))

    def end(self, *, has_forked: bool = True) -> None:
        """End the server and all processes that it has forked.

        Args:
            has_forked: whether it may have forked any. Otherwise it ends at once, even while it
                imports a module.
        """
        self.connection.close()
        if not has_forked:
            self._process.kill()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # a process is blocked by a disk that does not answer
            self._process.kill()
            self._process.wait()

    def _read(self) -> int | None:
        """Receive a message: the id of a started process, or a status (then return None)."""
        process, status = pickle.loads(self.connection.recv_bytes())
        if status is None:
            return int(process)
        self._statuses[process] = status
        return None

    def _own_error(self) -> DatasetError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STATUS_SECONDS)
        return _worker_death_error(self._process.pid, self._process.returncode)


@contextlib.contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment() -> dict[str, str]:
    return {**os.environ, **_ONE_THREAD}


def _worker_death_error(process: int, code: int | None) -> DatasetError:
    how = "its exit status is unknown"
    if code is not None:
        how = f"exited with status {code}. See its output for the cause"
    if code is not None and code < 0:
        how = f"killed by {signal.Signals(-code).name}"
    if code == -signal.SIGKILL:
        how += (
            ", which usually means that memory ran out. Give it more memory, or run without "
            "worker processes: beam_pipeline_args=['--direct_num_workers=1'] "
            "(--beam-arg=--direct_num_workers=1)"
        )
    return DatasetError(f"worker process {process} died before finishing its work: {how}.")


class _Reply(NamedTuple):
    value: Any
    error: BaseException | None
    traceback: str


def _handle(record: logging.LogRecord) -> None:
    """Log a record that comes from a worker process."""
    if (logger := logging.getLogger(record.name)).isEnabledFor(record.levelno):
        logger.handle(record)


def _value_of(reply: _Reply) -> Any:
    """Return the value, or raise the error of the worker process."""
    if reply.error is not None:
        raise reply.error from RuntimeError(f"\n{reply.traceback}")
    return reply.value


# In the server and the processes ------------------------------------------------------------------


class _Setting(NamedTuple):
    """The state of the calling process that work may depend on."""

    log_level: int
    folder: str
    path: list[str]
    environment: dict[str, str]

    @classmethod
    def of_this_process(cls) -> "_Setting":
        try:
            folder = os.getcwd()
        except OSError:  # it was removed
            folder = ""
        level = logging.getLogger().getEffectiveLevel()
        path = [place for place in sys.path if isinstance(place, str)]
        return cls(level, folder, path, _environment())

    def apply(self) -> None:
        with contextlib.suppress(OSError):
            os.chdir(self.folder or ".")
        sys.path[:] = self.path
        os.environ.clear()
        os.environ.update(self.environment)


def serve(descriptor: int, module: str, parent: int) -> None:
    """Fork processes on request and report how they end. This is the server's main function.

    Args:
        descriptor: a socket to the calling process.
        module: the module to import first.
        parent: the id of the calling process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    with contextlib.suppress(OSError):  # there is no stderr
        os.dup2(2, 1)  # keep output of libraries out of the program's stdout
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if module:
        with contextlib.suppress(ImportError):  # the worker that needs it gets the error
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else a full collection, one per thousand files, takes 30 ms for modules
    connection, running = Connection(descriptor), set[int]()
    try:
        while os.getppid() == parent:
            ready, _, _ = select.select([descriptor, woken.fileno()], [], [], _PARENT_SECONDS)
            if woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    woken.recv(1024)
                for process, status in _ended(running):
                    connection.send_bytes(pickle.dumps((process, status)))
            if descriptor in ready:
                setting: _Setting = pickle.loads(connection.recv_bytes())
                there = reduction.recv_handle(connection)
                server = os.getpid()
                process = os.fork()
                if process == 0:
                    try:
                        for endpoint in (connection, woken, wakes):
                            endpoint.close()
                        _work(Connection(there), setting, server)
                    finally:
                        os._exit(1)
                os.close(there)
                running.add(process)
                connection.send_bytes(pickle.dumps((process, None)))
    except (EOFError, OSError):  # the other end is closed
        pass
    for process in running:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
    for process in running:
        with contextlib.suppress(OSError):
            os.waitpid(process, 0)
    os._exit(0)


def _ended(running: set[int]) -> Iterator[tuple[int, int]]:
    """Remove the processes that have ended, and yield each with its status."""
    for process in [*running]:
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            running.discard(process)
            yield process, os.waitstatus_to_exitcode(status)


class _SendingHandler(QueueHandler):
    """A log handler that sends records immediately: a retry may wait for minutes."""

    def __init__(self, connection: Connection, lock: threading.Lock) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._connection, self._lock = connection, lock

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send a record that `QueueHandler` has made picklable."""
        data = pickle.dumps(record)
        with self._lock:
            self._connection.send_bytes(data)


def _work(connection: Connection, setting: _Setting, server: int) -> None:
    """Make calls until the other end is closed. This is the main function of a worker process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end_with(server)
    setting.apply()
    faulthandler.enable()
    sys.stdout = sys.stderr
    lock = threading.Lock()
    logging.getLogger().addHandler(_SendingHandler(connection, lock))
    logging.getLogger().setLevel(setting.log_level)
    for name in _PACKAGES:  # a program may silence other libraries with the root's level
        logging.getLogger(name).setLevel(min(logging.WARNING, setting.log_level or logging.WARNING))
    logging.captureWarnings(True)
    _make_calls(connection, lock)
    os._exit(0)


def _make_calls(connection: Connection, lock: threading.Lock) -> None:
    """Make the calls that arrive, and send their outcomes, until the other end is closed."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            call_path, argument = pickle.loads(connection.recv_bytes())
            answer = _answer(call_path, argument)
            with lock:
                connection.send_bytes(answer)


def _end_with(server: int) -> None:
    """Make this process end with the server, even inside a library that never returns."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


@functools.lru_cache(maxsize=1)
def _read_call(path: str) -> Callable[[Any], Any]:
    with open(path, "rb") as stream:
        call: Callable[[Any], Any] = pickle.load(stream)
    return call


def _answer(path: str, argument: object) -> bytes:
    """Make a call and return its outcome as a pickled `_Reply`."""
    value, error, text = None, None, ""
    try:
        value = _read_call(path)(argument)
    except BaseException as caught:
        error, text = caught, traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # some errors can be pickled but not unpickled
    except Exception:
        error = RuntimeError(f"{type(error).__qualname__}: {error}")
    try:
        return pickle.dumps(_Reply(value, error, text))
    except Exception as caught:
        return pickle.dumps(_Reply(None, RuntimeError(f"{caught!r}"), traceback.format_exc()))
