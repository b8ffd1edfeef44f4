"""A light process that calls functions as often as its parent asks, and ends with it.

python -c '…; from components.common.worker_process import serve; serve(parent, module)' <paths>

`worker_pool` starts it. It imports what the functions need, and neither TFX nor Beam. For each
function a `Setup` and then arguments come pickled through its standard input, a `Reply` for each
argument goes through what was its standard output; what a library prints goes to standard error,
where it disturbs nobody.
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
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from logging.handlers import QueueHandler
from typing import Any, BinaryIO, NamedTuple, TypeAlias

__all__ = ["Reply", "Setup", "serve"]

_PR_SET_PDEATHSIG = 1  # of prctl(2), Linux

_Records: TypeAlias = "queue.SimpleQueue[logging.LogRecord]"


class Setup(NamedTuple):
    """What comes before calls of `work`, pickled; log records from `log_level` on go home."""

    work: bytes
    log_level: int


class Reply(NamedTuple):
    """What became of a call.

    Args:
        error: that it raised; None where it did not.
        records: what was logged meanwhile.
    """

    value: Any
    error: BaseException | None
    traceback: str
    records: list[logging.LogRecord]


def serve(parent: int, module: str) -> None:
    """Answers calls until the parent closes the pipe, or is no more.

    Args:
        module: to import before anything is asked; empty: none.
    """
    requests, replies = _take_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    faulthandler.enable()
    _end_with(parent)
    records: _Records = queue.SimpleQueue()
    logging.getLogger().addHandler(QueueHandler(records))
    logging.captureWarnings(True)
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, messages), daemon=True).start()
    with contextlib.suppress(Exception):  # which is the answer to the first call
        if module:
            importlib.import_module(module)
    gc.freeze()  # a full collection, of which a thousand files ask for one, takes 30 ms of modules
    work = b""
    while True:
        message = messages.get()
        if isinstance(message, Setup):
            work = message.work
            logging.getLogger().setLevel(message.log_level)
            with contextlib.suppress(Exception):  # which is the answer to the first call
                _unpickled(work)
        else:
            replies.write(_answer(work, message, records))
            replies.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output, in whose place come nothing and standard error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # which is written line by line: the process ends without a flush
    return requests, replies


def _end_with(parent: int) -> None:
    """Has the kernel kill this process with its parent, even inside a library that never ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before that was said
        os._exit(1)


def _receive(requests: BinaryIO, messages: "queue.SimpleQueue[Any]") -> None:
    """Takes what is sent in; the end of the pipe ends the process, whatever it is at."""
    try:
        while True:
            messages.put(pickle.load(requests))
    except EOFError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@functools.lru_cache(maxsize=1)
def _unpickled(work: bytes) -> Callable[[Any], Any]:
    """The function, for which all that it needs is imported."""
    found: Callable[[Any], Any] = pickle.loads(work)
    return found


def _answer(work: bytes, argument: object, records: _Records) -> bytes:
    """Calls the function; what became of it is pickled."""
    value: Any = None
    error: BaseException | None = None
    text = ""
    try:
        value = _unpickled(work)(argument)
    except BaseException as caught:
        error, text = caught, traceback.format_exc()
    logged = [records.get() for _ in range(records.qsize())]
    try:
        reply = pickle.dumps(Reply(value, error, text, logged))
        pickle.loads(reply)  # some errors are pickled well, and cannot be read again
    except Exception:
        what = value if error is None else error
        shown = RuntimeError(f"{type(what).__qualname__}: {what}")
        reply = pickle.dumps(Reply(None, shown, text, logged))
    return reply
