"""Queries of `browse` and the records they find."""

import pytest

from pipelines.tools.browse.search import Query, find_examples
from pipelines.tools.records import ExampleReader


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(split="train"), list(range(48))),
        (Query(split="train", start=80), list(range(80, 90))),
        (Query(split="train", start=200), []),
        (Query(split="train", label="dog", start=60), list(range(61, 90, 2))),
        (Query(split="train", label="0", start=80), list(range(80, 90, 2))),
        (Query(split="eval", text="DOG/"), list(range(1, 10, 2))),
        (Query(split="train", text="0042"), [42]),
        (Query(split="train", label="dog", text="0042"), []),
        (Query(split="train", label="cat"), list(range(0, 90, 2))),
    ],
    ids=str,
)
def test_a_query_finds_its_records(dataset, query, expected):
    found = find_examples(ExampleReader(dataset), query, most=48)
    assert [example.number for example in found.examples] == expected


def test_going_on_finds_each_record_once(dataset):
    reader, query, seen = ExampleReader(dataset), Query(split="train", label="dog"), []
    start = 0
    while start is not None:
        found = find_examples(reader, Query(**{**vars(query), "start": start}), most=7)
        seen += [example.number for example in found.examples]
        start = found.next_start
    assert seen == list(range(1, 90, 2))
