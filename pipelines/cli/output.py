"""All that commands print: JSON or tables on stdout, messages and progress on stderr.

print_facts(found.to_json, found.parts, as_json=as_json)
print_messages("Written: report.html")
with show_progress("Verifying") as advance:
    advance(4096, total_bytes)
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # they bring numpy: a third of a second in which Ctrl-C is a traceback
    from trainer_utils.format.json_text import Json
    from trainer_utils.text_output import Part

__all__ = ["print_facts", "print_messages", "show_progress"]

_LINE_SECONDS = 60.0


def print_facts(
    to_json: "Callable[[], Json]", to_parts: Callable[[], "str | Sequence[Part]"], *, as_json: bool
) -> None:
    """Prints JSON or text on stdout. A reader that has gone, such as `head`, is no error.

    Args:
        to_json: makes what JSON can hold.
        to_parts: makes the text: lines and tables, in colour where stdout is a terminal. What in
            them would drive a terminal is escaped.
        as_json: which of the two.
    """
    try:
        if as_json:
            _print_json(to_json())
        else:
            parts = to_parts()
            _print_parts(parts.split("\n") if isinstance(parts, str) else parts)
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _print_json(facts: "Json") -> None:
    from trainer_utils.format.printable import printable_json  # brings numpy

    click.echo(printable_json(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)))


def _print_parts(parts: "Sequence[Part]") -> None:
    from trainer_utils.text_output import as_text, print_parts

    if sys.stdout.isatty():
        print_parts(parts)
    else:
        click.echo(as_text(parts))


def print_messages(*lines: str) -> None:
    """Messages for the person at the terminal, on stderr, a line each."""
    from trainer_utils.format.printable import printable

    with contextlib.suppress(BrokenPipeError):
        for line in lines:
            click.echo(printable(line), err=True)


@contextlib.contextmanager
def show_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Shows where work is: a bar on a terminal, elsewhere a line for each minute that it takes.

    Args:
        label: what is being done.

    Yields:
        A function to be called with how much has been done since the last time, and the whole.
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
