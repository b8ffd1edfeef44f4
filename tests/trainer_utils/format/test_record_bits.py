"""Selections of records as bits, and positions in filtered ranges, against plain lists."""

import random

import numpy as np
import pytest

from trainer_utils.format.record_bits import RecordBits, SelectedBlocks
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions


def drawn(source: random.Random, size: int) -> np.ndarray:
    share = source.choice([0.0, 0.02, 0.5, 0.97, 1.0])
    return np.array([source.random() < share for _ in range(size)], np.bool_)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 255, 256, 257, 1000])
def test_bits_hold_the_mask(size):
    mask = drawn(random.Random(size), size)
    bits = RecordBits.of(mask)
    assert (len(bits), bits.count) == (size, mask.sum())
    assert bits.mask().tolist() == mask.tolist()
    assert bits.part(size // 3, size).mask().tolist() == mask[size // 3 :].tolist()
    assert bits == RecordBits.of(mask)
    assert bits.bits.nbytes == -(-size // 8)


def test_select_finds_the_records_of_several_files():
    blocks = SelectedBlocks(
        [RecordBits.of(np.array([False, True])), RecordBits.of(np.array([True, True]))],
        np.array([0, 5]),
    )
    assert blocks.select(np.array([0, 5, 6]), files=np.array([0, 1, 1])).tolist() == [1, 0, 1]
    assert [blocks.place(0, 0), blocks.place(0, 1), blocks.place(1, 1)] == [None, 0, 6]


@pytest.mark.parametrize("seed", range(30))
def test_positions_in_filtered_ranges_equal_a_list(seed):
    source = random.Random(seed)
    ranges, names = [], []
    for number in range(source.randrange(1, 9)):
        path, skip, size = f"{number % 4}", source.randrange(5), source.choice([0, 1, 30, 700])
        part = FileRange(path, skip, size)
        if source.random() < 0.7:
            part = part.filtered(drawn(source, size))
            assert part.filtered(np.ones(part.take, np.bool_)) == part
        if source.random() < 0.3:
            part = part.filtered(drawn(source, part.take))
        ranges.append(part)
        names += [RecordName(path, n) for n in part.numbers.tolist()]
        assert part.stop == skip + size
        assert len(part.numbers) == part.take
    positions = RecordPositions(ranges)
    assert positions.locate(np.arange(len(names))) == names
    mixed = np.array(source.sample(range(len(names)), len(names)), np.int64)
    assert positions.locate(mixed) == [names[place] for place in mixed.tolist()]
    for number in range(0, 705, 11):
        for path in "0123":
            name = RecordName(path, number)
            expected = [place for place, one in enumerate(names) if one == name]
            assert positions.positions_of(name) == expected
    ends = np.cumsum([part.take for part in ranges]).tolist()
    assert [positions.end_of(index) for index in range(len(ranges))] == ends


def test_range_is_divided_among_other_files():
    mask = drawn(random.Random(1), 40)
    part = FileRange("raw", 3, 40).filtered(mask)
    others = [FileRange("a", 3, 10), FileRange("b", 0, 25), FileRange("c", 0, 5)]
    found = part.divided(others)
    expected = [(o.path, n) for o in others for n in range(o.skip, o.stop)]
    chosen = [name for name, is_kept in zip(expected, mask.tolist(), strict=True) if is_kept]
    assert [(one.path, n) for one in found for n in one.numbers.tolist()] == chosen
