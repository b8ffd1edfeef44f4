"""The order-free checksum: blind to order, to sharding, and to nothing else."""

import random

import google_crc32c
import numpy as np
import pytest

from trainer_utils.format import combine_checksums, multiset_checksum


def checksum(records: list[bytes]) -> int:
    return multiset_checksum(
        np.array([len(record) for record in records], np.int64),
        np.array([google_crc32c.value(record) for record in records], np.uint32),
    )


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    source = random.Random(0)
    return [source.randbytes(source.randint(8, 40)) for _ in range(2000)]


def test_order_does_not_matter(records):
    assert checksum(random.Random(1).sample(records, len(records))) == checksum(records)


def test_lots_add_up_to_the_whole(records):
    lots = [records[:1], records[1:900], [], records[900:]]
    assert combine_checksums(map(checksum, lots)) == checksum(records)


def test_any_lost_doubled_or_changed_record_changes_it(records):
    sums = {checksum(records)}
    for number in range(200):
        lost = records[:number] + records[number + 1 :]
        sums |= {checksum(lost), checksum([*records, records[number]])}
        sums.add(checksum([*lost, records[number] + b"\0"]))
    assert len(sums) == 601
