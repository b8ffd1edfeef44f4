"""Retry calls to disks and stores that may succeed a moment later.

data = retry_transient(path, read_bytes, path)     # raises MachineError if every attempt fails
with retrying_for_minutes(): ...                   # for runs that write a dataset
"""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from trainer_utils.core.errors import ConfigError
from trainer_utils.storage.host_errors import (
    MachineError,
    is_host_error,
    machine_error,
)

_logger = logging.getLogger(__name__)

_lock = threading.Lock()

_patient_blocks = 0

_Given = ParamSpec("_Given")

_Result = TypeVar("_Result")

_PAUSES = (0.05, 0.2, 0.8)  # seconds before each retry

# Seconds, in a run that writes a dataset: the first pause, the longest one, and the total.
_FIRST_LONG_PAUSE, _LONGEST_PAUSE, _RETRY_SECONDS = 2.0, 30.0, 300.0

# Faults that may end by themselves, or after somebody frees disk space or restarts a server.
_PASSING = {
    *(errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC),
    *(errno.EDQUOT, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.EAGAIN, errno.EBUSY),
    *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE, errno.ENOBUFS),
    *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
}

RETRY_VARIABLE = "TFX_SHARDS_RETRY_SECONDS"
"""The environment variable that limits the retry time per call in runs that write a dataset."""


@contextmanager
def retrying_for_minutes() -> Iterator[None]:
    """Retry calls for minutes instead of a second, in all threads, until the block ends.

    It is for expensive runs: an outage of a minute must not end a conversion of hours.
    """
    global _patient_blocks
    with _lock:
        _patient_blocks += 1
    try:
        yield
    finally:
        with _lock:
            _patient_blocks -= 1


def retry_pauses(path: str, error: BaseException) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt at a call; log the long ones.

    Args:
        path: the file or folder, for the log.
        error: the error of the first attempt.
    """
    yield from _PAUSES
    end, pause = time.monotonic() + _retry_seconds(), _FIRST_LONG_PAUSE
    while _patient_blocks and _is_passing(error) and time.monotonic() + pause <= end:
        _logger.warning(
            "%r: %s. Trying again in %.0f s, for %.0f s more at most (%s)",
            path,
            getattr(error, "strerror", None) or error,
            pause,
            end - time.monotonic(),
            RETRY_VARIABLE,
        )
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _retry_seconds() -> float:
    """Return the maximum time in seconds to retry a call."""
    try:
        return float(os.environ.get(RETRY_VARIABLE) or _RETRY_SECONDS)
    except ValueError as error:
        text = os.environ[RETRY_VARIABLE]
        raise ConfigError.of(RETRY_VARIABLE, text, allowed="a number of seconds") from error


def _is_passing(error: BaseException) -> bool:
    """Return whether an error of the machine may pass within minutes."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _PASSING
    return isinstance(error, (MachineError, TimeoutError, ConnectionError))


def retry_transient(
    path: str, call: Callable[_Given, _Result], *args: _Given.args, **more: _Given.kwargs
) -> _Result:
    """Return the result of a call; retry it after pauses if the machine fails.

    Args:
        path: the file or folder, for messages.
        call: the function to call.
        args: its positional arguments.
        more: its keyword arguments.

    Raises:
        MachineError: every attempt failed; the message has `path` and the cause.
        Exception: any other error of the call.
    """
    pauses: Iterator[float] | None = None
    while True:
        try:
            return call(*args, **more)
        except (OSError, MemoryError) as error:
            if not is_host_error(error) or isinstance(error, (MachineError, PermissionError)):
                raise
            pauses = pauses or retry_pauses(path, error)
            if (pause := next(pauses, None)) is None:
                raise machine_error(path, error) from error
        time.sleep(pause)
