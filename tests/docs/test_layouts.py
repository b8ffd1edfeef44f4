"""The page of layouts has a row for each layout, with the description from the registry.

python -m tests.docs.test_layouts     # writes the table of docs/layouts.md
"""

import re

from components.layouts.registry import all_layouts
from tests.docs.markdown import REPOSITORY

PAGE = REPOSITORY / "docs/layouts.md"
TABLE = re.compile(r"(?<=<!-- layouts -->\n).*(?=<!-- end of layouts -->)", re.DOTALL)


def table():
    """Return the table of all layouts of this package."""
    rows = ["| layout | kinds | files | features | splits | refused |", "|---|---|---|---|---|---|"]
    for one in all_layouts():
        if one.custom is None:
            tree = "<br>".join(f"`{line.strip()}`" for line in one.tree.splitlines())
            cells = (f"`{one.name}`", ", ".join(one.kinds), tree)
            cells = (*cells, one.features, one.splits, one.refused)
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def test_page_has_a_row_for_each_layout():
    assert TABLE.search(PAGE.read_text())[0] == table()


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
