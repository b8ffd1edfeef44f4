"""`InputOrder` over random plans: each record once, the same for any workers, there and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils.format import ConfigError
from trainer_utils.format.slices import RecordName
from trainer_utils.order import FileRange, InputOrder, OrderOptions

SHUFFLES = st.one_of(st.sampled_from([True, False, "global"]), st.integers(1, 3000))


def ranges_of(sizes, folder=""):
    return [FileRange(f"{folder}{n}", 0, size) for n, size in enumerate(sizes)]


@st.composite
def orders(draw):
    sizes = draw(st.lists(st.integers(0, 400), min_size=1, max_size=4))
    size = draw(st.sampled_from([1, 2, 3, 6, 12, 16, 60, 64]))
    chosen = {
        "batch_size": size,
        "shuffle": draw(SHUFFLES),
        "seed": draw(st.integers(-(1 << 70), 1 << 70)),
        "remainder": draw(st.sampled_from([None, "pad", "balance", "drop"])),
        "echoing": draw(st.sampled_from([1, 1, 1, 2])),
        "reshuffle_each_iteration": draw(st.booleans()),
    }
    if chosen["remainder"] == "drop" and 0 < sum(sizes) < size:
        chosen["remainder"] = None

    return InputOrder(ranges_of(sizes), OrderOptions(**chosen), mean_record_bytes=1 << 20)


@given(orders(), st.data())
@settings(max_examples=150)
def test_the_steps_of_a_record_are_those_that_it_is_listed_at(order, data):
    epoch = data.draw(st.integers(0, 3))
    files = [RecordName(part.path, n) for part in order.ranges for n in range(part.take)]
    if not files:
        return
    listed = {record: set() for record in files}
    for step in range(order.steps_per_epoch):
        for record in order.records(epoch=epoch, step=step, worker=0):
            listed[record].add(step)
    for record in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=20)):
        assert order.steps(epoch=epoch, record=record) == sorted(listed[record])


@pytest.mark.parametrize("shuffle", [True, 500, "global"])
def test_epochs_and_seeds_differ_unless_they_shall_not(shuffle):
    def first(epoch, **changes):
        options = OrderOptions(**{"batch_size": 32, "shuffle": shuffle, **changes})
        order = InputOrder(ranges_of([5000]), options, mean_record_bytes=1 << 20)
        return order.positions(epoch, 0).tolist()

    assert len({tuple(sorted(first(e, seed=s))) for e in range(3) for s in (0, 1, -1)}) == 9
    assert first(7, reshuffle_each_iteration=False) == first(0)


def test_a_block_is_shuffled_as_a_whole():
    order = InputOrder(ranges_of([60_000]), OrderOptions(batch_size=60, shuffle=6000))
    moved = [
        abs(step - other)
        for step in range(0, 900, 50)
        for record in order.records(epoch=0, step=step, worker=0)[::10]
        for other in order.steps(epoch=0, record=RecordName("0", (record.number + 1) % 60_000))
    ]
    # Neighbours of a chunk are within a block of 100 steps, and not one after the other.
    assert sum(distance > 10 for distance in moved) > len(moved) / 2


def test_workers_read_neighbouring_records():
    workers = 8
    order = InputOrder(
        ranges_of([64_000]), OrderOptions(batch_size=64, shuffle=6400), num_workers=workers
    )
    chunks = [
        {n // 25 for step in range(100) for n in order.positions(0, step, worker).tolist()}
        for worker in range(workers)
    ]
    total = len(set.union(*chunks))
    assert sum(map(len, chunks)) < 1.1 * total


def test_what_cannot_be_planned_and_what_no_worker_reads_is_refused():
    for setting, value in (("batch_size", 10), ("batch_size", 600), ("state", "nonsense")):
        options = OrderOptions(**{"batch_size": 8, "remainder": "drop", setting: value})
        with pytest.raises(ConfigError) as caught:
            InputOrder(ranges_of([100]), options, num_workers=4)
        assert caught.value.setting == setting
    order = InputOrder(ranges_of([100]), OrderOptions(batch_size=8, shuffle=9), num_workers=2)
    for asked in ((0, 13, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 2)):
        with pytest.raises(ConfigError):
            order.positions(*asked)


CHANGED = [
    ({"seed": 1}, "seed"),
    ({"shuffle": 10}, "digest"),
    ({"remainder": "pad"}, "digest"),
    ({"echoing": 2}, "digest"),
    ({"reshuffle_each_iteration": False}, "digest"),
    ({"batch_size": 16}, "batch_size"),
]


@pytest.mark.parametrize(("change", "named"), CHANGED)
def test_a_token_of_another_order_is_refused(change, named):
    def make(digest="d", **chosen):
        options = OrderOptions(**{"batch_size": 8, "shuffle": "global", **chosen})
        return InputOrder(ranges_of([100]), options, digest=digest)

    token = make().state(3)
    with pytest.raises(ConfigError, match=named):
        make(**change, state=token)
    with pytest.raises(ConfigError, match="digest"):
        make(digest="other", state=token)
