"""Keeps what other libraries print off the terminal: the one place that does.

    with quiet_import():                         # from Python: an import; quiet_run(): a run
        from pipelines.tools.conversion.runs import run_pipeline
    silence_process(print)                       # a command line: all of its process

TensorFlow tells on every import of CUDA plugins that it could not register twice, TFX on every run
of what its own launcher asks of ML Metadata, which logs to file descriptor 2 whatever it is told.
"""

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_PACKAGES = frozenset({"components", "pipelines", "trainer_utils"})


def _is_ours(record: logging.LogRecord) -> bool:
    return bool(_PACKAGES & {*Path(record.pathname).parts})


@contextlib.contextmanager
def quiet_run() -> Iterator[None]:
    """Holds back warnings that TFX and Beam log; not where somebody asked for more than these."""
    from absl import logging as absl_logging

    logger = absl_logging.get_absl_logger()
    asked = absl_logging.get_verbosity() > absl_logging.WARNING

    def passes(record: logging.LogRecord) -> bool:
        return asked or record.levelno > logging.WARNING or _is_ours(record)

    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Holds back warnings, and what goes to file descriptor 2; where an import fails, it is shown.

    Somebody who has set TensorFlow's log level has decided already, and gets what that brings.
    """
    with contextlib.ExitStack() as stack:
        if "tensorflow" not in sys.modules:
            stack.enter_context(warnings.catch_warnings())
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            if _LEVEL not in os.environ:
                stack.enter_context(_held_stderr())
        yield


@contextlib.contextmanager
def _held_stderr() -> Iterator[None]:
    try:
        stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with tempfile.TemporaryFile() as held, os.fdopen(stderr, "wb") as shown:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            shutil.copyfileobj(held, shown)
            raise
        finally:
            os.dup2(stderr, 2)


def silence_process(show: Callable[[str], None]) -> None:
    """Keeps the logs of TensorFlow, TFX and ML Metadata away for good.

    Args:
        show: gets the warnings of this project.
    """
    os.environ.setdefault(_LEVEL, "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # it announces itself
    os.environ.setdefault("GLOG_minloglevel", "3")  # of ML Metadata
    warnings.filterwarnings("ignore")
    sys.unraisablehook = lambda _: None  # TensorFlow 2.16 fails while the process ends
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
    with contextlib.suppress(ImportError):  # TensorFlow brings it
        from absl import logging as absl_logging  # which must make its logger itself

        def passes(record: logging.LogRecord) -> bool:
            if record.levelno >= logging.WARNING and _is_ours(record):
                show(f"Warning: {record.getMessage()}")
            return False  # said

        absl_logging.get_absl_logger().setLevel(logging.WARNING)
        absl_logging.get_absl_logger().addFilter(passes)


@contextlib.contextmanager
def no_native_output() -> Iterator[None]:
    """Lets file descriptor 2 lead nowhere; Python's own stderr goes on as before."""
    stream = cast(Any, sys.stderr)
    try:
        is_own = sys.stderr is sys.__stderr__ and stream.fileno() == 2  # a test may have taken it
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
