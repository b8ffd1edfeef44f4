"""The global shuffle is a permutation of all records, anew each epoch, on any number of workers."""

import itertools

import pytest

from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.order.global_shuffle import GlobalShuffle
from trainer_utils.order.layout import BatchLayout

RECORDS = 20_001  # more than are worked out at a time
RANGES = [FileRange("a", 5, 12_000, True), FileRange("b", 0, 8_001, True)]


def epoch_of(workers: int, epoch: int, seed: int = 0) -> list[int]:
    layout = BatchLayout(num_records=RECORDS, batch_size=96, num_workers=workers, remainder=None)
    each = [GlobalShuffle(RANGES, layout=layout, worker=w, seed=seed) for w in range(workers)]
    return [
        row
        for step in range(layout.steps)
        for strategy in each
        for row in strategy.positions(epoch, step).tolist()
    ]


def test_an_epoch_is_a_permutation_whoever_reads_it():
    one = epoch_of(1, epoch=0)
    assert sorted(one) == [*range(RECORDS)]
    assert epoch_of(4, epoch=0) == one


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [epoch_of(1, epoch=0), epoch_of(1, epoch=1), epoch_of(1, epoch=0, seed=1)]
    for first, second in itertools.combinations(orders, 2):
        # Of two random permutations one place agrees on average; of 20 only with p < 1e-18.
        assert sum(a == b for a, b in zip(first, second, strict=True)) < 20


def test_a_record_is_named_by_its_file_and_number():
    layout = BatchLayout(num_records=RECORDS, batch_size=64, num_workers=1, remainder=None)
    strategy = GlobalShuffle(RANGES, layout=layout, worker=0, seed=3)
    names = [(p.path, n) for p in RANGES for n in range(p.skip, p.skip + p.take)]
    for step in (0, 200, 312):
        found = [(name.path, name.number) for name in strategy.records(2, step)]
        assert found == [names[row] for row in strategy.positions(2, step)]


def test_gzip_files_are_refused():
    layout = BatchLayout(num_records=4, batch_size=2, num_workers=1, remainder=None)
    with pytest.raises(ConfigError, match=r"gzip files.*a\.gz"):
        GlobalShuffle([FileRange("a.gz", 0, 4, True)], layout=layout, worker=0, seed=0)


def test_what_was_worked_out_for_one_epoch_is_not_taken_for_another():
    layout = BatchLayout(num_records=90, batch_size=9, num_workers=1, remainder=None)

    def made() -> GlobalShuffle:
        return GlobalShuffle([FileRange("a", 0, 90, True)], layout=layout, worker=0, seed=0)

    one = made()
    for epoch in (0, 1, 0):
        rows = [one.positions(epoch, step).tolist() for step in range(layout.steps)]
        assert rows == [made().positions(epoch, step).tolist() for step in range(layout.steps)]
