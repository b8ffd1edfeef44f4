"""Read the code of a Markdown page: fenced blocks, and code within sentences.

    for block in blocks(Path("README.md")):
        block.language, block.text, block.note

The language of a block determines its test. `sh` and `python` are run. In `console` the command
after each `$` is run, and its output compared. `Dockerfile` is parsed; `text` is a drawing. A
comment before a block, `<!-- not run: needs a cluster -->` or `<!-- output: of one machine -->`, is
its note.
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
LANGUAGES = ("sh", "console", "python", "Dockerfile", "text")

_FENCE = re.compile(
    r"(?:^ *<!-- (?P<note>[a-z ]+: [^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: its page and first line, language, note and text without indentation."""

    place: str
    language: str
    note: str
    text: str

    @property
    def is_run(self) -> bool:
        return not self.note.startswith("not run: ")


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(
            f"{page.name}:{line}",
            match["language"],
            match["note"] or "",
            textwrap.dedent(match["text"]),
        )


def spans(page: Path) -> list[str]:
    """Return the code within sentences, each piece on one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", page.read_text()))]


def shell_lines(text: str) -> list[str]:
    """Return the commands, with continued lines joined."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console with its expected output lines."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *output = part.splitlines()
        yield command, [line for line in output if line.strip()]
