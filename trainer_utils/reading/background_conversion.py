"""Convert raw inputs in one process of low priority, while they are read.

    conversion = start_conversion(ConversionRequest(place, {"splits": {"train": 1}}, "/data/out"))
    conversion.wait(); conversion.uri          # the dataset

Inputs with the same request share the process. It ends with the process that started it, also if
that one is killed; another conversion to the same folder resumes its work.
"""

import atexit
import collections
import contextlib
import dataclasses
import logging
import os
import pickle
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, NamedTuple

from trainer_utils.core.errors import ConfigError, TfxShardsError
from trainer_utils.core.printable import printable
from trainer_utils.dataset.raw_inputs import raw_converter
from trainer_utils.runtime.fork_lock import ForkLock
from trainer_utils.runtime.interpreters import pickle_importable, start_interpreter

_logger = logging.getLogger(__name__)
# A tenth of a core that others keep busy, and all of an idle one. With 19 a conversion next to a
# trainer that decodes on all cores would never end. Linux derives the priority of reads and writes.
_NICENESS = 10
_OOM_SCORE = "500"  # as if it used another half of the machine's memory
_PARENT_SECONDS = 1.0  # between two checks that the parent is alive
_MAX_REASON = 10_000  # characters, which a socket holds until they are read
_MAX_LINES = 20  # of the output of a process, for the error of its end
# For libraries that would start a thread per core.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclasses.dataclass(frozen=True)
class ConversionRequest:
    """A conversion of raw inputs.

    Args:
        place: the raw inputs.
        settings: the settings of the conversion.
        out: the folder for the dataset, absolute.
        fingerprint: a hash of the names, sizes and versions of the input files.
    """

    place: str
    settings: Mapping[str, Any]
    out: str
    fingerprint: str = ""

    @property
    def key(self) -> str:
        """The same string for conversions of one place to one folder, even if its files change."""
        return repr((self.place, sorted(self.settings.items()), self.out))

    @property
    def command(self) -> str:
        """The command that resumes it, or with settings the call."""
        if not self.settings:
            return f"tfx-shards convert {shlex.quote(self.place)} {shlex.quote(self.out)}"
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"pipelines.convert({self.place!r}, {self.out!r}{settings})"

    def to_bytes(self) -> bytes:
        """Return the pickled request.

        Raises:
            ConfigError: another process cannot import a function in its settings.
        """
        try:
            return pickle_importable((self.place, dict(self.settings), self.out))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            rule = f"settings that another process can import, for convert_to; found {error}"
            raise ConfigError.of("conversion", dict(self.settings), allowed=rule) from error


class BackgroundConversion:
    """A running or ended conversion.

    Args:
        request: the conversion.
        process: its process.
        connection: the connection to it, over which it sends its outcome.

    Attributes:
        uri: the uri of the dataset, or None before the conversion has finished.
        error: the reason of a failure, or None.
    """

    def __init__(
        self,
        request: ConversionRequest,
        process: "subprocess.Popen[bytes]",
        connection: Connection,
    ) -> None:
        self.request, self._process, self._connection = request, process, connection
        self.uri: str | None = None
        self.error: str | None = None
        self._ended, self._is_stopped = threading.Event(), False

    @property
    def is_running(self) -> bool:
        """Whether it has neither finished nor failed."""
        return not self._ended.is_set()

    def serves(self, request: ConversionRequest) -> bool:
        """Return whether it still runs, or has converted the files of a request."""
        if self.is_running:  # two processes must not write to one folder
            return True
        return self.error is None and self.request.fingerprint == request.fingerprint

    @property
    def process_id(self) -> int:
        """Id of the process."""
        return self._process.pid

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, and return whether it has.

        Args:
            seconds: the longest time to wait. None: as long as it takes.
        """
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """End the process. Its finished work is kept, and the next conversion resumes from it."""
        self._is_stopped = True
        self._process.kill()
        self._process.wait()

    def watch(self) -> None:
        """Wait for the outcome, and log it."""
        lines = _relay(self._process.stderr)
        outcome = None
        with contextlib.suppress(EOFError, OSError), self._connection:
            outcome = _Outcome(*self._connection.recv())
        code = self._process.wait()
        request = self.request
        if self._is_stopped:
            outcome = outcome or _Outcome(None, "it was stopped")
        elif outcome is None:
            how = f"exited with status {code}"
            if code < 0:
                how = f"was killed by {signal.Signals(-code).name}"
            shown = f": {' / '.join(lines)}" if lines else ""
            outcome = _Outcome(None, f"its process {how}{shown}")
        self.uri, self.error = outcome
        if self.error is None:
            _logger.info("%s is converted to %s", printable(request.place), printable(request.out))
        elif not self._is_stopped:
            _logger.warning(
                "converting %s to %s failed, so training continues from the raw files: %s. To "
                "resume the conversion: %s",
                *(printable(request.place), printable(request.out), printable(self.error)),
                printable(request.command),
            )
        self._ended.set()


class _Outcome(NamedTuple):
    uri: str | None
    error: str | None


def _relay(stream: IO[bytes] | None) -> list[str]:
    """Log the lines of a process until it ends, and return the last ones."""
    lines = collections.deque[str](maxlen=_MAX_LINES)
    if stream is None:
        return []
    with stream:
        for line in stream:
            lines.append(line.decode(errors="replace").rstrip())
            _logger.info("%s", printable(lines[-1]))
    return [*lines]


_lock = ForkLock()
_owner = 0  # the process that started the conversions below
_conversions: dict[str, BackgroundConversion] = {}


def start_conversion(request: ConversionRequest) -> BackgroundConversion:
    """Start a conversion, unless this process runs it already or has finished it.

    Inputs that have changed since a finished conversion are converted again.

    Raises:
        ConfigError: the folder cannot be written to or contains the inputs, or another process
            cannot import a function in the settings.
    """
    global _owner
    try:
        raw_converter().check(request.place, request.settings, request.out)
    except ConfigError as error:
        problem = f"convert_to: {error}"
        raise ConfigError(problem, setting="convert_to", value=request.out) from error
    payload = request.to_bytes()
    with _lock:
        if _owner != os.getpid():  # the first conversion of this process, which may be forked
            _conversions.clear()
            _owner = os.getpid()
        known = _conversions.get(request.key)
        if known is not None and known.serves(request):
            return known
        process, connection = start_interpreter(
            __name__, niceness=_NICENESS, environment=_ONE_THREAD, stderr=subprocess.PIPE
        )
        started = BackgroundConversion(request, process, connection)
        _conversions[request.key] = started
        with contextlib.suppress(OSError):  # it ended already, which `watch` reports
            connection.send((os.getpid(), payload))
        threading.Thread(target=started.watch, name="conversion", daemon=True).start()
    return started


def conversion_here(request: ConversionRequest) -> BackgroundConversion | None:
    """Return the conversion if this process started it, else None."""
    return _conversions.get(request.key) if _owner == os.getpid() else None


@atexit.register
def _stop_all() -> None:
    """End the processes that still convert."""
    if _owner != os.getpid():
        return
    for conversion in _conversions.values():
        if conversion.is_running:
            conversion.stop()
            _logger.warning(
                "the conversion to %s ends unfinished with this process. To resume it: %s",
                printable(conversion.request.out),
                printable(conversion.request.command),
            )


# In the other process -----------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Receive a request, convert, and send the uri of the dataset or the reason of a failure."""
    with Connection(descriptor) as connection:
        parent, request = connection.recv()
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        with contextlib.suppress(OSError):  # if memory runs out, Linux ends this process first
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
        try:
            uri = raw_converter().convert(*pickle.loads(request))
        except TfxShardsError as error:
            connection.send((None, str(error)[:_MAX_REASON]))
        except Exception as error:
            connection.send((None, f"{type(error).__name__}: {error}"[:_MAX_REASON]))
            raise
        else:
            connection.send((uri, None))


def _end_with(parent: int) -> None:
    """End this process once its parent is gone, even if that was killed."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)
