"""Keeps what other libraries print while a conversion is on its way off the terminal.

    with suppress_import_noise():
        from pipelines.tools.conversion.pipeline import run_pipeline
    with suppress_run_noise():
        run_pipeline(...)

TensorFlow says on every import which CUDA plugins it could not register twice, and Google's
packages that they will leave this Python; TFX warns on every run of what its own launcher asks of
ML Metadata. None of it is about the work at hand.
"""

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["suppress_import_noise", "suppress_run_noise"]

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_PACKAGES = frozenset({"components", "pipelines", "trainer_utils"})


@contextlib.contextmanager
def suppress_run_noise() -> Iterator[None]:
    """Holds back warnings that TFX and Beam log; not where somebody asked for more than these."""
    from absl import logging as absl_logging

    logger = absl_logging.get_absl_logger()
    asked = absl_logging.get_verbosity() > absl_logging.WARNING

    def passes(record: logging.LogRecord) -> bool:
        is_ours = bool(_PACKAGES & {*Path(record.pathname).parts})
        return is_ours or asked or record.levelno > logging.WARNING

    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


@contextlib.contextmanager
def suppress_import_noise() -> Iterator[None]:
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
