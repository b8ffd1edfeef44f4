"""The process of the command line: signals, encodings, and the noise of libraries.

take_over_process()
with quiet():
    import tensorflow
"""

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import signal
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click

from pipelines.cli.output import print_messages

__all__ = [
    "end_if_interrupted",
    "finish_process",
    "import_tfx_core",
    "is_verbose",
    "quiet",
    "quiet_libraries",
    "require_tfx",
    "take_over_process",
    "was_interrupted",
]

_PACKAGES = ("components", "pipelines", "trainer_utils")
_TENSORFLOW = "tensorflow"

_is_own_process = False
_was_interrupted = False
_stderr: Any = None  # the process's own, while file descriptor 2 leads nowhere


def take_over_process() -> None:
    """Says that the process is the command line's: only then is anything global changed.

    A name that the terminal's encoding lacks is shown escaped from now on, in place of an error.
    """
    global _is_own_process
    _is_own_process = True
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    for name in ("stdout", "stderr"):  # None where a daemon closed them
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    global _was_interrupted
    _was_interrupted = True
    signal.default_int_handler(number, frame)


def finish_process() -> None:
    """Says that the exit status stands: Ctrl-C while Python ends makes no other one of it."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, whatever became of the KeyboardInterrupt."""
    return _was_interrupted


def end_if_interrupted() -> None:
    """Ends the command where Ctrl-C was pressed and what was imported has swallowed it.

    Raises:
        KeyboardInterrupt: so it was.
    """
    if _was_interrupted:
        raise KeyboardInterrupt


def quiet_libraries() -> None:
    """Keeps the logs of TensorFlow, TFX and ML Metadata off the terminal; warnings of ours stay."""
    if not _is_own_process:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # it announces itself
    os.environ.setdefault("GLOG_minloglevel", "3")  # of ML Metadata
    warnings.filterwarnings("ignore")
    sys.unraisablehook = _ignore  # TensorFlow 2.16 fails while the process ends
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
    with contextlib.suppress(ImportError):  # TensorFlow brings it
        from absl import logging as absl_logging  # which must make its logger itself

        absl_logging.get_absl_logger().setLevel(logging.WARNING)
        absl_logging.get_absl_logger().addFilter(_is_ours)


def _ignore(_: object) -> None:
    """Takes what Python cannot raise and would print, as `Exception ignored in …`."""


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log line is a warning of this project; only these are of use without a log."""
    parts = Path(record.pathname).parts
    if record.levelno < logging.WARNING or not set(_PACKAGES) & set(parts):
        return False
    print_messages(f"Warning: {record.getMessage()}")
    return False  # said


def is_verbose() -> bool:
    """Whether the command that runs was called with --verbose."""
    return bool(click.get_current_context().find_root().meta.get("verbose"))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps what native libraries write to file descriptor 2 off the terminal, unless verbose.

    ML Metadata logs there whatever it is told. Python's own stderr goes on as before.
    """
    if is_verbose() or not (_is_own_process and _has_own_stderr()):
        yield
        return
    global _stderr
    sys.stderr.flush()
    _stderr = sys.stderr
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(kept, "w", errors="backslashreplace", buffering=1)  # noqa: SIM115
    try:
        yield
    finally:
        _restore_streams()


def _has_own_stderr() -> bool:
    """Whether Python's stderr is the process's: a test may have taken it over."""
    is_own, stream = sys.stderr is sys.__stderr__, cast(Any, sys.stderr)
    try:
        return is_own and stream.fileno() == 2
    except (AttributeError, OSError, ValueError):
        return False


def _restore_streams() -> None:
    """Ends what `quiet` began, if anything."""
    global _stderr
    if _stderr is None:
        return
    kept: Any = sys.stderr
    sys.stderr, _stderr = _stderr, None
    kept.flush()
    os.dup2(kept.fileno(), 2)
    kept.close()


def require_tfx(command: str) -> None:
    """Refuses to go on without the extra.

    Raises:
        ConfigError: it says what to install.
    """
    if importlib.util.find_spec("tfx") is None:
        from trainer_utils.extras import HOW_TO_GET_TFX
        from trainer_utils.format import ConfigError

        raise ConfigError(f"tfx-shards {command} needs TFX: {HOW_TO_GET_TFX}")


def import_tfx_core() -> None:
    """Imports what a conversion needs of TFX as it is where there is no TensorFlow: in a third.

    TFX's core, which is a package of its own, does without: all that it then lacks is TensorFlow's
    file systems, in place of which are Python's and `components.common.tfx_files`. In a process
    that is another's, which may want them, nothing is done, and the conversion imports as usual.
    """
    if not _is_own_process or _TENSORFLOW in sys.modules:
        return
    sys.modules[_TENSORFLOW] = cast(Any, None)  # Python's own way to say that there is none
    try:
        # Other libraries say there that TensorFlow is missing, which is of no use to users.
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module("pipelines.tools.conversion.pipeline")
    finally:
        del sys.modules[_TENSORFLOW]
