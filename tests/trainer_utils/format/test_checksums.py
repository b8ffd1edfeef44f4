"""Sums against RFC 3720 and google-crc32c; of sets of records; of a file in itself."""

import dataclasses
import json
import random

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer_utils.format.test_manifest import SEALED
from trainer_utils.format import DatasetError, Manifest, combine_checksums, multiset_checksum
from trainer_utils.format.json_text import seal
from trainer_utils.format.tfrecord import (
    combine_crc32c,
    extend_crc32c,
    masked_crc32c,
    masked_crc32c_of_lengths,
)


def test_the_mask_is_tensorflows():
    # 0x8a9136aa is of 32 zeros by RFC 3720, appendix B.4
    assert extend_crc32c(extend_crc32c(0, bytes(7)), bytes(25)) == 0x8A9136AA
    rotated = (0x8A9136AA >> 15 | 0x8A9136AA << 17) & 0xFFFFFFFF
    assert masked_crc32c(bytes(32)) == (rotated + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(bytes(10), bytes(22)) == masked_crc32c(bytes(32))


@pytest.mark.parametrize("count", [0, 1, 64, 65, 500])
def test_lengths_are_summed_as_google_crc32c_sums_each(count):
    lengths = np.random.default_rng(0).integers(0, 2**62, 2 * count)[::2]
    expected = [masked_crc32c(int(n).to_bytes(8, "little")) for n in lengths]
    assert masked_crc32c_of_lengths(lengths).tolist() == expected


@given(st.binary(), st.binary(max_size=5000))
def test_sums_of_two_parts_make_that_of_the_whole(one, other):
    sums = extend_crc32c(0, one), extend_crc32c(0, other)
    assert combine_crc32c(*sums, len(other)) == extend_crc32c(0, one + other)


def checksum(records: list[bytes]) -> int:
    return multiset_checksum(
        np.array([len(record) for record in records], np.int64),
        np.array([google_crc32c.value(record) for record in records], np.uint32),
    )


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    source = random.Random(0)
    return [source.randbytes(source.randint(8, 40)) for _ in range(2000)]


def test_order_does_not_matter_and_lots_add_up_to_the_whole(records):
    mixed = random.Random(1).sample(records, len(records))
    lots = [mixed[:1], mixed[1:900], [], mixed[900:]]
    assert combine_checksums(map(checksum, lots)) == checksum(records)


def test_any_lost_doubled_or_changed_record_changes_it(records):
    sums = {checksum(records)}
    for number in range(200):
        lost = records[:number] + records[number + 1 :]
        sums |= {checksum(lost), checksum([*records, records[number]])}
        sums.add(checksum([*lost, records[number] + b"\0"]))
    assert len(sums) == 601


def test_the_sum_of_a_manifest_is_the_crc_of_its_bytes_with_zeros_for_the_sum():
    text = SEALED.to_json()
    said = json.loads(text)["checksum"]
    zeroed = text.replace(f'"checksum": "{said}"', '"checksum": "00000000"')
    assert f"{google_crc32c.value(zeroed.encode()):08x}" == said
    assert seal(zeroed) == text == seal(text)


def test_a_text_that_looks_like_the_sum_does_not_pass_for_it():
    forged = '\n  "checksum": "12345678"'
    manifest = dataclasses.replace(SEALED, config={"a": forged, "checksum": "12345678"})
    assert Manifest.from_json(manifest.to_json(), path="x") == manifest


def test_a_manifest_that_was_changed_is_refused():
    text = SEALED.to_json()
    for changed in (
        text.replace("abc", "abd"),
        text + "\n",
        text.replace('"records": 3', '"records": 4'),
    ):
        assert changed != text
        with pytest.raises(DatasetError, match="own checksum does not agree"):
            Manifest.from_json(changed, path="x")


def test_a_text_with_two_places_for_a_sum_or_none_is_refused():
    text = SEALED.to_json()
    line = next(line for line in text.splitlines(keepends=True) if '  "checksum"' in line)
    for bad, count in ((text.replace(line, line * 2), 2), (text.replace(line, ""), 0)):
        with pytest.raises(ValueError, match=f"expected a line with its checksum, got {count}"):
            seal(bad)
