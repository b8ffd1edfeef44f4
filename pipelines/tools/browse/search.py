"""Finds records by label and by a part of their name, a page at a time.

found = find_examples(reader, Query(split="train", label="cat", text="2024"), most=48)
found.examples, found.next_start
"""

import dataclasses
import time
from collections.abc import Sequence

from pipelines.tools.records import Example, ExampleReader, Value
from trainer_utils.format.naming import LABEL_FEATURES, NAME_FEATURES

__all__ = ["Found", "Query", "find_examples"]

_PATIENCE_SECONDS = 2.0  # then the page shows what there is, and how to go on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Query:
    """What is looked for.

    Args:
        split: that it is in.
        label: a class by name or number; empty: any.
        text: what its file name or id holds, upper and lower case alike; empty: anything.
        start: the first record that is searched.
    """

    split: str
    label: str = ""
    text: str = ""
    start: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """A page of what was found.

    Args:
        examples: in the order of the shards.
        next_start: where to go on; None at the split's end.
    """

    examples: Sequence[Example]
    next_start: int | None


def find_examples(reader: ExampleReader, query: Query, *, most: int) -> Found:
    """The next records that a query is after.

    Args:
        reader: of the dataset.
        query: what is looked for.
        most: records on a page.

    Raises:
        DatasetError: a record is damaged.
    """
    count = reader.count(query.split)
    if not (query.label or query.text):
        stop = min(query.start + most, count)
        numbers: Sequence[int] = range(query.start, stop)
    else:
        numbers, stop = _matching(reader, query, most, count)
    examples = list(reader.read(query.split, numbers))
    return Found(examples=examples, next_start=stop if stop < count else None)


def _matching(
    reader: ExampleReader, query: Query, most: int, count: int
) -> tuple[Sequence[int], int]:
    """The numbers of records that match, and the first that was not searched."""
    numbers: list[int] = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    wanted = (*NAME_FEATURES, *LABEL_FEATURES)
    for number, _, found in reader.scan(query.split, wanted, start=query.start):
        values = {name: reader.value(name, found[name]) for name in found}
        if _has_label(values, query.label) and _has_text(values, query.text):
            numbers.append(number)
        if len(numbers) == most or time.monotonic() > deadline:
            return numbers, number + 1
    return numbers, count


def _has_label(values: dict[str, Value], label: str) -> bool:
    if not label:
        return True
    found = [values[name] for name in LABEL_FEATURES if name in values]
    return any(
        label in (*value.names, *(value.texts if value.kind == "text" else map(str, value.values)))
        for value in found
    )


def _has_text(values: dict[str, Value], text: str) -> bool:
    found = [values[name] for name in NAME_FEATURES if name in values]
    names = [name for value in found if value.kind == "text" for name in value.texts]
    return any(text.casefold() in name.casefold() for name in names) or not text
