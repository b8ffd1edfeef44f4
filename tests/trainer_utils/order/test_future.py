"""The future of records, compared with the order that is read."""

import math

import numpy as np

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.order import InputOrder, OrderOptions
from trainer_utils.order.future import FutureUses


def test_records_come_in_the_order_of_their_positions():
    first, second = FileRange("a", 10, 5, False), FileRange("b", 0, 5, True)
    other = [FileRange("c", 0, 10, True)]
    lanes, later = [[first, second], other], [[second, first], other]
    future = FutureUses(2, lanes, later)
    assert (future.start, future.length) == (20, 10)
    assert future.next_use("a", 0, 11) == 20
    assert future.next_use("a", 12, 99) == 22
    assert future.next_use("a", 12, 99, after=22) == 37
    assert future.next_use("b", 4, 5) == 29
    assert future.next_use("a", 12, 99, after=37) == math.inf
    assert future.next_use("a", 15, 20) is None
    assert future.next_use("d", 0, 1) is None


def test_a_position_is_where_the_record_is_read():
    """Of one lane without windows the n-th record read has position n."""
    ranges = [FileRange(name, 0, 50, True) for name in "abcd"]
    order = InputOrder(ranges, OrderOptions(batch_size=1, shuffle=1, seed=3))
    strategy = order.strategy(0)
    for epoch in (0, 1):
        now, later = strategy.reads(epoch, 0).lanes, strategy.reads(epoch + 1, 0).lanes
        future = FutureUses(epoch, now, later)
        for step in range(0, 200, 7):
            (name,) = order.records(epoch=epoch, step=step, worker=0)
            found = future.next_use(name.path, name.number, name.number + 1)
            assert found == epoch * 200 + step


def test_an_epoch_that_goes_on_has_the_positions_of_the_whole_one():
    ranges = [FileRange(name, 0, 500, True) for name in "abcd"]
    order = InputOrder(ranges, OrderOptions(batch_size=10, shuffle=100))
    strategy = order.strategy(0)
    whole = FutureUses(1, strategy.reads(1, 0).lanes, strategy.reads(2, 0).lanes)
    step = int(strategy.starts[3])
    rest = FutureUses(1, strategy.reads(1, step).lanes, strategy.reads(2, 0).lanes)
    assert rest.start > whole.start
    rng = np.random.default_rng(0)
    for first in rng.integers(0, 499, 50).tolist():
        for path in "abcd":
            after = rest.start - 1
            both = [f.next_use(path, first, first + 1, after=after) for f in (whole, rest)]
            assert both[0] == both[1]
