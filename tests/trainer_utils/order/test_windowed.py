"""The windowed shuffle: every record once an epoch, the same batches on any number of workers."""

import itertools

import pytest

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.order import windowed
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.windowed import Windowed

SIZES = (400, 0, 1, 350, 249)
RANGES = [FileRange(f"shard-{n}", 0, size, True) for n, size in enumerate(SIZES)]
RECORDS = sum(SIZES)


def batches(
    workers: int, epoch: int, *, seed: int = 0, window: int = 192, keeps_pairs: bool = False
) -> list[list[int]]:
    layout = BatchLayout(num_records=RECORDS, batch_size=24, num_workers=workers, remainder=None)
    each = [
        Windowed(
            RANGES,
            layout=layout,
            worker=w,
            window_records=window,
            seed=seed,
            keeps_pairs=keeps_pairs,
        )
        for w in range(workers)
    ]
    return [
        [row for strategy in each for row in strategy.positions(epoch, step).tolist()]
        for step in range(layout.steps)
    ]


def rows_of(some: list[list[int]]) -> list[int]:
    return [row for batch in some for row in batch]


@pytest.mark.parametrize("window", [1, 100, 192, 10_000])
@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_an_epoch_shows_every_record_once(window, epoch):
    assert sorted(rows_of(batches(1, epoch, window=window))) == [*range(RECORDS)]


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8])
def test_batches_are_the_same_on_any_number_of_workers(workers):
    for one, several in zip(batches(1, 1), batches(workers, 1), strict=True):
        assert sorted(one) == sorted(several)


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 12])
def test_pairs_of_rows_are_the_same_on_any_number_of_workers(workers):
    def pairs(batch: list[int]) -> set[tuple[int, int]]:
        return set(zip(batch[::2], batch[1::2], strict=True))

    full = RECORDS // 24
    alone, several = (batches(n, 1, keeps_pairs=True)[:full] for n in (1, workers))
    assert [pairs(batch) for batch in alone] == [pairs(batch) for batch in several]
    plain = batches(1, 1)[:full]
    assert [pairs(batch) for batch in plain] != [pairs(batch) for batch in alone]
    assert [sorted(batch) for batch in plain] == [sorted(batch) for batch in alone]


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [rows_of(batches(1, 0)), rows_of(batches(1, 1)), rows_of(batches(1, 0, seed=1))]
    assert orders[0] == rows_of(batches(1, 0))
    assert len({tuple(order) for order in orders}) == 3


def test_windows_keep_to_the_limit_and_follow_one_another():
    layout = BatchLayout(num_records=RECORDS, batch_size=24, num_workers=1, remainder=None)
    strategy = Windowed(RANGES, layout=layout, worker=0, window_records=480, seed=0)
    starts = strategy.starts.tolist()
    assert starts[0] == 0
    assert starts[-1] == layout.steps
    steps = [stop - start for start, stop in itertools.pairwise(starts)]
    assert min(steps) >= 1
    assert max(steps) * 24 <= 480
    for window, (start, stop) in enumerate(itertools.pairwise(starts)):
        assert {strategy.window_of(step) for step in range(start, stop)} == {window}


def test_every_lane_of_every_epoch_has_a_seed_of_its_own():
    seeds = {
        windowed._seed(seed, epoch, lane)
        for seed in (0, 1)
        for epoch in (0, 1)
        for lane in range(8)
    }
    assert len(seeds) == 32


def test_every_window_of_an_epoch_has_an_order_of_its_own():
    layout = BatchLayout(num_records=3000, batch_size=10, num_workers=1, remainder=None)
    ranges = [FileRange("a", 0, 3000, True)]
    strategy = Windowed(ranges, layout=layout, worker=0, window_records=600, seed=0)
    windows = [
        strategy.places(0, window).rows.tolist() for window in range(len(strategy.starts) - 1)
    ]
    alike = [(a, b) for a, b in itertools.combinations(windows, 2) if len(a) == len(b)]
    assert alike
    for one, other in alike:
        assert sum(a == b for a, b in zip(one, other, strict=True)) < len(one) / 4


@pytest.mark.parametrize("first", [0, 5, 11])
def test_every_row_is_read_ahead_in_time_and_once(first):
    layout = BatchLayout(num_records=RECORDS, batch_size=24, num_workers=1, remainder=None)
    strategy = Windowed(RANGES, layout=layout, worker=0, window_records=192, seed=0)
    last = int(strategy.starts[-2])
    at_hand: set[int] = set()
    for step in range(first, layout.steps):
        ahead = strategy.read_ahead(1, step, first=first).tolist()
        if step < last:  # then come those of the next epoch
            assert not at_hand.intersection(ahead)
        at_hand.update(ahead)
        assert at_hand.issuperset(strategy.positions(1, step).tolist())
    begun = int(strategy.starts[1])
    following = [n for step in range(begun) for n in strategy.positions(2, step).tolist()]
    left = [n for step in range(first, layout.steps) for n in strategy.positions(1, step).tolist()]
    assert at_hand == {*left, *following}


def test_what_is_read_ahead_with_a_step_is_a_part_of_the_next_window_in_the_order_of_the_files():
    layout = BatchLayout(num_records=3000, batch_size=10, num_workers=1, remainder=None)
    ranges = [FileRange("a", 0, 3000, True)]
    strategy = Windowed(ranges, layout=layout, worker=0, window_records=600, seed=0)
    start, stop, end = strategy.starts[4:7].tolist()
    parts = [strategy.read_ahead(0, step).tolist() for step in range(start, stop)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    following = [n for step in range(stop, end) for n in strategy.positions(0, step).tolist()]
    assert [n for part in parts for n in part] == sorted(following)
