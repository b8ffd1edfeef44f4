"""Format lines and tables for people: coloured on a terminal, plain text elsewhere.

    as_text(["photos/", make_table(["split", "records"], [["train", 404]])])

Each line and cell is escaped here, once, so that data cannot drive a terminal or forge a line.
"""

from __future__ import annotations

import abc
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

from trainer_utils.core.printable import printable

if TYPE_CHECKING:  # importing rich takes 50 ms, which JSON output avoids
    from rich.table import Table


Part: TypeAlias = Union[str, "Table"]
"""A line or a table."""

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_GAP = 2  # columns between columns
_UNBOUNDED = 1 << 20  # columns: plain text is neither folded nor cut


def human_bytes(number: float) -> str:
    """Format a number of bytes as `4.2 MB`, with 1 MB = 10^6 bytes."""
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if unit == 0 or number >= 100 else 1
    return f"{number:.{digits}f} {_UNITS[unit]}"


def quantity(number: int, noun: str, nouns: str = "") -> str:
    """Format a count with its noun, such as `1 shard` or `1,200 shards`.

    Args:
        number: the count.
        noun: the singular.
        nouns: the plural, if it is irregular.
    """
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def list_counts(counts: Mapping[str, int]) -> str:
    """Format counts as `3 TRUNCATED_IMAGE, 1 EMPTY_FILE`, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {name}" for name, count in ordered)


def make_table(
    header: Sequence[str] | None,
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[str] = (),
    indent: int = 0,
    styles: Mapping[str, str] | None = None,
) -> Table:
    """Arrange rows in columns, with numbers to the right and strings to the left.

    Args:
        header: the names of the columns, or None for no header.
        rows: the rows. A cell is a string, a number, a list of lines, or None, shown as `?`.
        right: columns to align to the right as well, such as numbers with a unit.
        indent: columns to indent the table by.
        styles: rich's styles, by the value of a cell.
    """
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    table = Table(box=None, show_header=header is not None, pad_edge=False, padding=(0, _GAP, 0, 0))
    if indent:
        table.add_column(width=indent - _GAP)
    for place, name in enumerate(header or [""] * max(map(len, rows), default=0)):
        is_number = name in right or any(isinstance(row[place], (int, float)) for row in rows)
        table.add_column(
            Text(_cell(name)),  # as data: brackets in a name are no markup
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number,
        )
    for row in rows:
        cells = [Text(_cell(cell), (styles or {}).get(str(cell), "")) for cell in row]
        table.add_row(*([""] if indent else []), *cells)
    return table


def _cell(value: object) -> str:
    if value is None:
        return "?"
    if isinstance(value, int):
        return f"{value:,}"
    lines = [value] if not isinstance(value, (list, tuple)) else value
    return "\n".join(printable(str(line)) for line in lines)


def as_text(parts: Iterable[Part]) -> str:
    """Format parts below each other, without colours or a maximum width."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines.append(printable(part))
            continue
        from rich.console import Console

        stream = io.StringIO()
        console = Console(file=stream, width=_UNBOUNDED, color_system=None, force_jupyter=False)
        console.print(part)
        lines += map(str.rstrip, stream.getvalue().splitlines())
    return "\n".join(lines)


class TextReport(abc.ABC):
    """A result for people; its string is its parts as plain text."""

    @abc.abstractmethod
    def parts(self) -> Sequence[Part]:
        """Return the lines and tables to print, for `print_parts`."""

    def __str__(self) -> str:
        return as_text(self.parts())


def print_parts(parts: Iterable[Part]) -> None:
    """Print parts on a terminal; tables fold to its width, lines do not wrap."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=True)
        else:
            console.print(part)
