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

from trainer_utils.format.json_text import Json

if TYPE_CHECKING:
    from rich.progress import Progress

    from trainer_utils.text_output import Part

__all__ = ["print_facts", "print_messages", "show_progress"]

_PATIENCE_SECONDS = 2.0


def print_facts(
    to_json: Callable[[], Json], to_parts: Callable[[], "str | Sequence[Part]"], *, as_json: bool
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


def _print_json(facts: Json) -> None:
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
    """A bar on a terminal, once the work has taken two seconds; elsewhere nothing.

    Args:
        label: what is being done.

    Yields:
        A function to be called with how much has been done since the last time, and the whole.
    """
    started, done = time.monotonic(), 0
    with contextlib.ExitStack() as stack:
        bar: Progress | None = None

        def advance(amount: int, total: int) -> None:
            nonlocal bar, done
            done += amount
            if not sys.stderr.isatty() or time.monotonic() - started < _PATIENCE_SECONDS:
                return
            if bar is None:
                from rich.console import Console
                from rich.progress import Progress

                bar = stack.enter_context(Progress(console=Console(stderr=True)))
                bar.add_task(label)
            bar.update(bar.task_ids[0], completed=done, total=total)

        yield advance
