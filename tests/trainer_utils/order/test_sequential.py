"""The order of the files, against slices of a list."""

import itertools

import pytest

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.sequential import Sequential

RANGES = [FileRange("a", 0, 9, True), FileRange("b", 0, 0, True), FileRange("c", 3, 14, True)]
RECORDS = 23
NAMES = [(part.path, n) for part in RANGES for n in range(part.skip, part.skip + part.take)]


def strategies(workers: int, remainder: str | None, rotates: bool = False) -> list[Sequential]:
    layout = BatchLayout(
        num_records=RECORDS, batch_size=6, num_workers=workers, remainder=remainder
    )
    return [
        Sequential(RANGES, layout=layout, worker=worker, rotates=rotates)
        for worker in range(workers)
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("remainder", [None, "drop", "pad", "balance"])
def test_each_batch_holds_the_neighbours_in_the_files(workers, remainder):
    each = strategies(workers, remainder)
    layout = each[0].layout
    for step in range(layout.steps):
        rows = [*itertools.chain.from_iterable(s.positions(0, step).tolist() for s in each)]
        begin = layout.begin(step)
        assert rows == [*range(begin, begin + len(rows))]
    assert rows[-1] == (RECORDS if remainder != "drop" else 18) - 1


def test_an_epoch_begins_behind_what_the_one_before_left_out():
    (only,) = strategies(1, "drop", rotates=True)
    steps = range(only.layout.steps)
    for epoch in range(6):
        rows = [*itertools.chain.from_iterable(only.positions(epoch, n).tolist() for n in steps)]
        assert rows == [(epoch * 5 + n) % RECORDS for n in range(18)]


@pytest.mark.parametrize("epoch", range(5))
@pytest.mark.parametrize("step", range(3))
def test_what_is_read_is_what_comes_from_a_step_on(epoch, step):
    (only,) = strategies(1, "drop", rotates=True)
    reads = only.reads(epoch, step)
    read = [(p.path, n) for p in reads.ranges for n in range(p.skip, p.skip + p.take)]
    rows = [row for n in range(step, 3) for row in only.positions(epoch, n).tolist()]
    assert read == [NAMES[row] for row in rows]
    assert reads.sizes.tolist() == [6]
