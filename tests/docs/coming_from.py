"""The rows of docs/coming-from.md, and the test of each.

@row("Datum", "`echoing`")
def test_…
"""

import re
from collections.abc import Callable
from typing import TypeVar

from tests.docs.markdown import REPOSITORY

_Test = TypeVar("_Test", bound=Callable[..., object])
PAGE = REPOSITORY / "docs/coming-from.md"

COVERED: set[tuple[str, str]] = set()
"""The rows with a test, as (heading, first cell), for all imported tests."""


def row(heading: str, *cells: str) -> Callable[[_Test], _Test]:
    """Mark a test as the test of rows, given by their first cells."""

    def mark(test: _Test) -> _Test:
        COVERED.update((heading, cell) for cell in cells)
        return test

    return mark


def rows() -> list[tuple[str, str]]:
    """Return all rows of the page, as (heading, first cell)."""
    found = []
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("| ")]
        cells = [re.split(r"(?<!\\) \| ", line.strip("| "))[0] for line in lines]
        found += [(heading, cell) for cell in cells[1:]]  # without the header of the table
    return found
