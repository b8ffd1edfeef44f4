"""Sums of columns, against `google_crc32c` over bytes that are put together in Python."""

import struct

import google_crc32c
import pyarrow as pa
import pytest

from components.tables.column_checksums import column_checksums
from trainer_utils.format.crc32c import combine_crc32c

ROWS = {
    "text": ["a", None, "größe", ""],
    "n": [1, None, -3, 4],
    "list": [["x"], [], None, ["y", "zz"]],
}


def checked(data: bytes) -> tuple[int, int]:
    return len(data), google_crc32c.value(data)


def test_streams_are_lengths_and_values():
    found = {(column, stream): rest for column, stream, *rest in column_checksums(pa.table(ROWS))}
    assert {key: tuple(rest) for key, rest in found.items()} == {
        ("text", "lengths"): checked(struct.pack("<4q", 1, -1, 7, 0)),
        ("text", "values"): checked("agröße".encode()),
        ("n", "valid"): checked(bytes([1, 0, 1, 1])),
        ("n", "values"): checked(struct.pack("<3q", 1, -3, 4)),
        ("list", "lengths"): checked(struct.pack("<4q", 1, 0, -1, 2)),
        ("list", "item.lengths"): checked(struct.pack("<3q", 1, 1, 2)),
        ("list", "item.values"): checked(b"xyzz"),
    }


@pytest.mark.parametrize("cut", range(5))
def test_sums_of_parts_make_that_of_the_whole(cut):
    table = pa.table(ROWS)
    whole = column_checksums(table)
    parts = [column_checksums(table.slice(0, cut)), column_checksums(table.slice(cut))]
    for (*names, length, crc), first, second in zip(whole, *parts, strict=True):
        assert names == [*first[:2]] == [*second[:2]]
        assert length == first[2] + second[2]
        assert crc == combine_crc32c(first[3], second[3], second[2])


def test_a_text_is_the_same_in_any_type_of_arrow():
    texts = pa.array(ROWS["text"])
    plain = column_checksums(pa.table({"t": texts}))
    for other in (
        texts.cast(pa.large_string()),
        texts.cast(pa.binary()),
        texts.dictionary_encode(),
    ):
        assert column_checksums(pa.table({"t": other})) == plain
