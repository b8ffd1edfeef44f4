"""Makes a small table of real texts, from what comes with Python and with installed packages.

make_texts("texts.csv")      # up to 2,000 paragraphs with the source of each, and three broken rows
"""

import csv
import inspect
import io
import random
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

_LEAST_WORDS, _MOST_WORDS = 12, 120


def make_texts(path: str, *, most: int = 500, seed: int = 0) -> None:
    """Writes paragraphs with where each is from, in a random order, and three rows that are bad.

    Args:
        path: of the table: `text`, `label` and `words`.
        most: paragraphs of one source.
        seed: of the choice and the order; equal seeds and packages give equal files.
    """
    random_state = random.Random(seed)
    rows = []
    for label, texts in _sources().items():
        found = sorted(set(_paragraphs(texts)))
        for text in random_state.sample(found, min(most, len(found))):
            rows.append([text, label, str(len(text.split()))])
    random_state.shuffle(rows)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["text", "label", "words"])
    writer.writerows(rows)
    bad = b"a row that lacks two fields\n" + b"not UTF-8: \xff\xfe,python,3\n" + b"no label,,2\n"
    Path(path).write_bytes(stream.getvalue().encode() + bad)


def _sources() -> dict[str, Iterable[str]]:
    from pydoc_data.topics import topics  # the manual that `help()` shows

    import numpy

    return {
        "python": topics.values(),
        "numpy": _docstrings(numpy),
        "licence": _licences(),
        "readme": _readmes(),
    }


def _docstrings(package: Any) -> Iterator[str]:
    for name in sorted(package.__all__):
        yield inspect.getdoc(getattr(package, name)) or ""


def _licences() -> Iterator[str]:
    for distribution in metadata.distributions():
        for file in distribution.files or ():
            if re.match(r"(LICEN[CS]E|COPYING)", file.name):
                yield Path(str(distribution.locate_file(file))).read_text(errors="ignore")


def _readmes() -> Iterator[str]:
    for distribution in metadata.distributions():
        yield distribution.read_text("METADATA") or ""


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text):
            words = paragraph.split()
            if _LEAST_WORDS <= len(words) <= _MOST_WORDS:
                yield " ".join(words)
