"""Set up the process and its terminal; print JSON or tables on stdout, messages on stderr.

take_over_process()
print_facts(found, as_json=False)
print_messages("Written: report.html")
with show_progress("Verifying") as advance:
    advance(4096, total_bytes)
"""

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from pipelines.noise import no_native_output, silence_process

_LINE_SECONDS = 60.0

_OBJECTS_PER_COLLECTION = 50_000  # new ones; Python's default is 700
_is_own_process = False


def take_over_process() -> None:
    """Mark the process as one of the command line, which allows changes of global state.

    From now on, characters that the terminal's encoding lacks are escaped instead of raising, and
    garbage is collected less often. Imports alone would trigger 150 collections, which take 5 to
    10 % of the CPU time of a small conversion.
    """
    global _is_own_process
    _is_own_process = True
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    for name in ("stdout", "stderr"):  # None if a daemon closed them
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def freeze_modules() -> None:
    """Exclude imported modules from garbage collection, in a process of the command line.

    A conversion of some thousand files triggers full collections, which would each spend 30 ms on
    the modules.
    """
    if _is_own_process:
        gc.freeze()


def set_verbose(ctx: click.Context, _: click.Parameter, verbose: bool) -> None:
    """Handle `--verbose`: without it, silence the logs of other libraries."""
    ctx.find_root().meta["verbose"] = verbose
    if ctx.resilient_parsing or not _is_own_process:
        return
    if verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")  # so that its import logs as well
    else:
        silence_process(print_messages)


def is_verbose() -> bool:
    """Return whether the running command was called with --verbose."""
    return bool(click.get_current_context().find_root().meta.get("verbose"))


def is_terminal() -> bool:
    """Return whether stdin and stderr are terminals, so that a user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def quiet() -> contextlib.AbstractContextManager[None]:
    """Return a context that discards the output of native libraries, unless verbose."""
    is_loud = is_verbose() or not _is_own_process
    return contextlib.nullcontext() if is_loud else no_native_output()


class Facts(NamedTuple):
    """A result of a command without a class for it: the JSON for `--json`, the parts to print.

    Both may be functions that return the value. The note is printed to stderr before the parts.
    """

    json: Any
    parts: Any
    note: str = ""


def print_facts(result: Any, *, as_json: bool) -> None:
    """Print JSON or text, escaped; a closed pipe, such as from `head`, is not an error."""
    from trainer_utils.core.printable import printable_json  # imports numpy
    from trainer_utils.core.text_output import as_text, print_parts

    try:
        if as_json:
            facts = result.json if isinstance(result, Facts) else getattr(result, "to_dict", None)
            facts = result.to_json if facts is None else facts
            facts = facts() if callable(facts) else facts
            text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
            click.echo(printable_json(text))
        else:
            if isinstance(result, Facts) and result.note:
                print_messages(*result.note.split("\n"))
            parts = getattr(result, "parts", None)
            parts = parts() if callable(parts) else str(result) if parts is None else parts
            parts = parts.split("\n") if isinstance(parts, str) else parts
            if sys.stdout.isatty():
                print_parts(parts)
            else:
                click.echo(as_text(parts))
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_messages(*lines: str) -> None:
    """Print messages on stderr, one per line."""
    from trainer_utils.core.printable import printable

    with contextlib.suppress(BrokenPipeError):
        for line in lines:
            click.echo(printable(line), err=True)


@contextlib.contextmanager
def show_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress: as a bar on a terminal, elsewhere as one line per minute.

    The yielded function takes the amount of work done since the last call, and the total.
    """
    from trainer_utils.core.step_display import show_step

    started = last_said = time.monotonic()
    done = 0
    with show_step(label) as step:

        def advance(amount: int, total: int) -> None:
            nonlocal done, last_said
            done += amount
            step.update(done, total)
            now = time.monotonic()
            if now - last_said >= _LINE_SECONDS and not sys.stderr.isatty():
                last_said = now
                print_messages(f"{label}: {done / max(total, 1):.0%} after {now - started:.0f} s")

        yield advance
