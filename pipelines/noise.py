"""Keep the output of other libraries off the terminal.

    silence_process(print)                       # for the whole process of a command line

Warnings of this project are shown. TensorFlow and ML Metadata log to file descriptor 2 regardless
of their log settings.
"""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_PACKAGES = ("components", "pipelines", "trainer_utils")
_ROOT = Path(__file__).resolve().parents[1]  # of the three packages


def _is_our_file(path: str) -> bool:
    """Return whether a file is a module of this project."""
    return any(Path(path).resolve().is_relative_to(_ROOT / name) for name in _PACKAGES)


def _is_our_module(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES


class _Showing(logging.Handler):
    """A log handler that shows warnings of this project."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning as one line."""
        self._show(f"Warning: {record.getMessage()}")


def silence_process(show: Callable[[str], None]) -> None:
    """Silence the logs and warnings of other libraries in this process.

    Args:
        show: called with each warning of this project.
    """
    os.environ.setdefault(_LEVEL, "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN prints a message when it starts
    os.environ.setdefault("GLOG_minloglevel", "3")  # for ML Metadata
    _show_own_warnings(show)
    _show_own_logs(show)
    sys.unraisablehook = _report_own_unraisable  # TensorFlow 2.16 fails while the process ends


def _show_own_warnings(show: Callable[[str], None]) -> None:
    """Ignore Python's warnings, except for those in modules of this project."""
    warnings.filterwarnings("ignore")
    for name in _PACKAGES:
        warnings.filterwarnings("default", module=rf"{name}(\.|$)")

    def show_warning(message: Warning | str, *_arguments: Any, **_keywords: Any) -> None:
        show(f"Warning: {message}")

    warnings.showwarning = show_warning


def _show_own_logs(show: Callable[[str], None]) -> None:
    """Silence loggers, except for warnings of this project."""
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
    for name in _PACKAGES:
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.addHandler(_Showing(show))
    with contextlib.suppress(ImportError):  # absl is installed with TensorFlow
        from absl import logging as absl_logging  # absl must create its logger itself

        def passes(record: logging.LogRecord) -> bool:
            if record.levelno >= logging.WARNING and _is_our_file(record.pathname):
                show(f"Warning: {record.getMessage()}")
            return False  # shown already

        absl_logging.get_absl_logger().setLevel(logging.WARNING)
        absl_logging.get_absl_logger().addFilter(passes)


def _report_own_unraisable(unraisable: Any) -> None:
    """Report an exception that Python cannot raise, if it is in a function of this project."""
    if _is_our_module(str(getattr(unraisable.object, "__module__", ""))):
        sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def no_native_output() -> Iterator[None]:
    """Discard writes to file descriptor 2; `sys.stderr` still works."""
    stream = cast(Any, sys.stderr)
    try:
        is_own = sys.stderr is sys.__stderr__ and stream.fileno() == 2  # pytest may capture it
    except (AttributeError, OSError, ValueError):
        is_own = False
    if not is_own:
        yield
        return
    stream.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(kept, "w", errors="backslashreplace", buffering=1)  # noqa: SIM115
    try:
        yield
    finally:
        shown, sys.stderr = cast(Any, sys.stderr), stream
        shown.flush()
        os.dup2(kept, 2)
        shown.close()
