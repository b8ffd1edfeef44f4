"""The process and its terminal: signals, encodings; JSON or tables on stdout, the rest on stderr.

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

_is_own_process = False


def take_over_process() -> None:
    """Says that the process is the command line's: only then is anything global changed.

    A name that the terminal's encoding lacks is shown escaped from now on, in place of an error.
    """
    global _is_own_process
    _is_own_process = True
    for name in ("stdout", "stderr"):  # None where a daemon closed them
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def freeze_modules() -> None:
    """Leave what is imported out of garbage collections, in a process of the command line's own.

    A conversion of some thousand files asks for a full collection: 30 ms of modules each time.
    """
    if _is_own_process:
        gc.freeze()


def set_verbose(ctx: click.Context, _: click.Parameter, verbose: bool) -> None:
    """Takes `--verbose`; without it the logs of other libraries stay off the terminal."""
    ctx.find_root().meta["verbose"] = verbose
    if ctx.resilient_parsing or not _is_own_process:
        return
    if verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")  # so that its import is heard as well
    else:
        silence_process(print_messages)


def is_verbose() -> bool:
    """Whether the command that runs was called with --verbose."""
    return bool(click.get_current_context().find_root().meta.get("verbose"))


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def quiet() -> contextlib.AbstractContextManager[None]:
    """Keeps what native libraries write off the terminal, unless verbose."""
    is_loud = is_verbose() or not _is_own_process
    return contextlib.nullcontext() if is_loud else no_native_output()


class Facts(NamedTuple):
    """What a command found, where no object has both: for `--json`, and for people.

    Each may be a function that makes it; `note` goes to stderr before the parts.
    """

    json: Any
    parts: Any
    note: str = ""


def print_facts(found: Any, *, as_json: bool) -> None:
    """Prints JSON or text, escaped; a reader that has gone, such as `head`, is no error."""
    from trainer_utils.format.printable import printable_json  # brings numpy
    from trainer_utils.text_output import as_text, print_parts

    try:
        if as_json:
            facts = found.json if isinstance(found, Facts) else getattr(found, "to_dict", None)
            facts = found.to_json if facts is None else facts
            facts = facts() if callable(facts) else facts
            text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
            click.echo(printable_json(text))
        else:
            if isinstance(found, Facts) and found.note:
                print_messages(*found.note.split("\n"))
            parts = getattr(found, "parts", None)
            parts = parts() if callable(parts) else str(found) if parts is None else parts
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
    """Messages for the person at the terminal, on stderr, a line each."""
    from trainer_utils.format.printable import printable

    with contextlib.suppress(BrokenPipeError):
        for line in lines:
            click.echo(printable(line), err=True)


@contextlib.contextmanager
def show_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Shows where work is: a bar on a terminal, elsewhere a line for each minute that it takes.

    What it yields is called with how much has been done since the last time, and the whole.
    """
    from trainer_utils.step_display import show_step

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
