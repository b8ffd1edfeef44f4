"""Numbers and tables as people read them.

human_bytes(4_200_000)                                  # '4.2 MB'
as_table(["split", "records"], [["train", 404]])        # two lines, numbers to the right
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.format.printable import printable

__all__ = ["as_table", "counted", "human_bytes"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def human_bytes(number: float) -> str:
    """`4.2 MB`, with 1 MB = 10^6 bytes."""
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    digits = 0 if unit == 0 or number >= 100 else 1
    return f"{number:.{digits}f} {_UNITS[unit]}"


def counted(counts: Mapping[str, int]) -> str:
    """`3 TRUNCATED_IMAGE, 1 EMPTY_FILE`: the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return printable(", ".join(f"{count:,} {name}" for name, count in ordered))


def as_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows in columns: numbers to the right, texts to the left; None is `?`; a cell is one line."""
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        any(isinstance(row[place], (int, float)) for row in rows) for place in range(len(header))
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
