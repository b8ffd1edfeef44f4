"""Entries come out of their columns as they went in."""

import numpy as np
import pytest

from components.common import entries as module
from components.common.entries import Entries
from components.common.entry import Blob, Column, Entry

COLUMNS = (
    Column("label", "label"),
    Column("labels", "label", is_list=True),
    Column("count", "int"),
    Column("score", "float"),
    Column("scores", "float", is_list=True),
    Column("caption", "string"),
    Column("nothing", "string"),
)


def varied_entry(number: int) -> Entry:
    """Entries of all kinds of values, many of them missing."""
    name = f"é/{number} \udce9.jpg"
    part = {0: {}, 1: {"offset": number}, 2: {"row": number, "column": "image.bytes"}}[number % 3]
    return Entry(
        name,
        (None, "train", "eval")[number % 3],
        (Blob(name, number, **part), Blob(f"map/{number % 5}.png", 2**40 + number)),
        (
            f"class {number % 4}" if number % 5 else None,
            tuple(f"tag {tag}" for tag in range(number % 3)) if number % 7 else None,
            -(2**63) + number if number % 2 else None,
            number / 3,
            (float(number), float("-inf")) if number % 2 else (),
            f"\udcff {number}",
            None,
        ),
    )


@pytest.mark.parametrize("chunk", [1, 7, 1 << 14])
@pytest.mark.parametrize("size", [0, 1, 50])
def test_entries_come_out_as_they_went_in(monkeypatch, size, chunk):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    given = [varied_entry(number) for number in range(size)]
    held = Entries.of(iter(given), columns=COLUMNS, num_blobs=2)
    assert list(held) == given
    assert held.total_bytes().tolist() == [sum(b.size for b in entry.blobs) for entry in given]
    codes, names = held.coded_splits()
    assert [None if code < 0 else names[code] for code in codes] == [e.split for e in given]
    assert [list(held.column(n)) for n in range(len(COLUMNS))] == [
        [entry.values[n] for entry in given] for n in range(len(COLUMNS))
    ]


def test_entries_are_taken_by_place_and_by_slice():
    given = [varied_entry(number) for number in range(20)]
    held = Entries.of(given, columns=COLUMNS, num_blobs=2)
    assert held[3] == given[3]
    assert held[-1] == given[-1]
    assert list(held[4:9]) == given[4:9]
    assert list(held.take(np.array([7, 0, 7]))) == [given[7], given[0], given[7]]
    with pytest.raises(IndexError):
        held[20]


def test_a_taken_split_that_does_not_occur_is_no_split():
    given = [varied_entry(number) for number in range(9)]
    held = Entries.of(given, columns=COLUMNS, num_blobs=2).take(np.array([0, 1, 4]))
    assert held.coded_splits()[1] == ["train"]


def test_joined_entries_lack_what_their_listing_lacks_and_ints_become_floats():
    one = Entries.of(
        [Entry("a", None, (Blob("a", 1),), (3,))], columns=[Column("n", "int")], num_blobs=1
    )
    two = Entries.of(
        [Entry("b", "x", (Blob("t", 1, row=4, column="c"),), ("cat", 0.5))],
        columns=[Column("label", "label"), Column("n", "float")],
        num_blobs=1,
    )
    columns = (Column("n", "float"), Column("label", "label"))
    joined = list(Entries.join([one, two], [[0, None], [1, 0]], columns=columns))
    assert joined == [
        Entry("a", None, (Blob("a", 1),), (3.0, None)),
        Entry("b", "x", (Blob("t", 1, row=4, column="c"),), (0.5, "cat")),
    ]
