"""What commands print, and how: JSON or tables on stdout, progress and messages on stderr.

print_facts(report.to_json(), str(report), as_json=True)
with shown_progress("Verifying") as advance:
    advance(4096, total_bytes)
"""

import contextlib
import json
import logging
import os
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import click

__all__ = [
    "dataset_argument",
    "json_option",
    "print_facts",
    "quiet",
    "say",
    "shown_progress",
    "take_over_process",
    "verbose_option",
    "was_interrupted",
]

_PACKAGES = ("components", "pipelines", "trainer_utils")
_PATIENCE_SECONDS = 2.0

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
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    global _was_interrupted
    _was_interrupted = True
    signal.default_int_handler(number, frame)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, whatever became of the KeyboardInterrupt."""
    return _was_interrupted


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document in place of text."
    )(command)


def verbose_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--verbose`; without it the logs of TensorFlow and TFX stay off the terminal."""

    def set_up(ctx: click.Context, _: click.Parameter, verbose: bool) -> None:
        ctx.find_root().meta["verbose"] = verbose
        if not verbose and not ctx.resilient_parsing:
            _quiet_libraries()

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_up,
        help="Show the logs of TensorFlow and TFX, and tracebacks.",
    )(command)


def dataset_argument(
    command: Callable[..., Any] | None = None, *, required: bool = True
) -> Callable[..., Any]:
    """`URI`: of a dataset, or the folder that `convert` was given for its output."""
    decorate = click.argument("uri", required=required, callback=_find_dataset)
    return decorate if command is None else decorate(command)


def _find_dataset(ctx: click.Context, _: click.Parameter, uri: str | None) -> str | None:
    from trainer_utils.dataset.location import newest_dataset

    return None if uri is None or ctx.resilient_parsing else newest_dataset(uri)


def _quiet_libraries() -> None:
    if not _is_own_process:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # it announces itself
    os.environ.setdefault("GLOG_minloglevel", "3")  # of ML Metadata
    warnings.filterwarnings("ignore")
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)
    with contextlib.suppress(ImportError):  # TensorFlow brings it
        from absl import logging as absl_logging  # which must make its logger itself

        absl_logging.get_absl_logger().setLevel(logging.WARNING)
        absl_logging.get_absl_logger().addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log line is a warning of this project; only these are of use without a log."""
    parts = Path(record.pathname).parts
    if record.levelno < logging.WARNING or not set(_PACKAGES) & set(parts):
        return False
    say(f"Warning: {record.getMessage()}")
    return False  # said


@contextlib.contextmanager
def quiet(ctx: click.Context) -> Iterator[None]:
    """Keeps what native libraries write to file descriptor 2 off the terminal, unless verbose.

    ML Metadata logs there whatever it is told. Python's own stderr goes on as before.
    """
    if ctx.find_root().meta.get("verbose") or not (_is_own_process and _has_own_stderr()):
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
    """Whether Python's stderr is the process's: a test, for one, may have taken it over."""
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


def print_facts(value: Any, text: str, *, as_json: bool, is_styled: bool = False) -> None:
    """Prints JSON or text on stdout. A reader that has gone, such as `head`, is no error.

    Args:
        value: for JSON.
        text: whose lines are ours; what else in it would drive a terminal is escaped.
        as_json: which of the two.
        is_styled: whether the text has colours, and nothing of the data that is not escaped.
    """
    from trainer_utils.format.printable import printable, printable_json  # brings numpy

    if not is_styled:
        text = printable(text, keep="\n")
    if as_json:
        text = printable_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say(*lines: str) -> None:
    """Messages for the person at the terminal, on stderr, a line each."""
    from trainer_utils.format.printable import printable

    with contextlib.suppress(BrokenPipeError):
        for line in lines:
            click.echo(printable(line), err=True)


@contextlib.contextmanager
def shown_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, once the work has taken two seconds; elsewhere nothing.

    Args:
        label: what is being done.

    Yields:
        A function to be called with how much has been done since the last time, and the whole.
    """
    started, waiting = time.monotonic(), 0
    with contextlib.ExitStack() as stack:
        bar: Any = None

        def advance(amount: int, total: int) -> None:
            nonlocal bar, waiting
            waiting += amount
            if not sys.stderr.isatty() or time.monotonic() - started < _PATIENCE_SECONDS:
                return
            if bar is None:
                bar = stack.enter_context(
                    click.progressbar(length=total, label=label, file=sys.stderr)
                )
            bar.update(waiting)
            waiting = 0

        yield advance
