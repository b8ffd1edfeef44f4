"""`InputOrder` over random plans: each record once, the same for any workers, there and back."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils.format import ConfigError
from trainer_utils.format.slices import RecordName
from trainer_utils.order import FileRange, InputOrder, MixPart, OrderOptions, plan_workers

SHUFFLES = st.one_of(st.sampled_from([True, False, "global"]), st.integers(1, 3000))


def ranges_of(sizes, folder=""):
    return [FileRange(f"{folder}{n}", 0, size) for n, size in enumerate(sizes)]


@st.composite
def orders(draw, remainders=(None, "pad", "balance", "drop")):
    """A function that makes the same order for any number of workers, and the batch size."""
    sizes = draw(st.lists(st.integers(0, 400), min_size=1, max_size=4))
    size = draw(st.sampled_from([1, 2, 3, 6, 12, 16, 60, 64]))
    chosen = {
        "batch_size": size,
        "shuffle": draw(SHUFFLES),
        "seed": draw(st.integers(-(1 << 70), 1 << 70)),
        "remainder": draw(st.sampled_from(remainders)),
        "echoing": draw(st.sampled_from([1, 1, 1, 2])),
        "reshuffle_each_iteration": draw(st.booleans()),
    }
    if chosen["remainder"] == "drop" and 0 < sum(sizes) < size:
        chosen["remainder"] = None

    def make(workers=1, **changes):
        options = OrderOptions(**{**chosen, **changes})
        return InputOrder(
            ranges_of(sizes), options, num_workers=workers, mean_record_bytes=1 << 20, digest="d"
        )

    return make, size


def global_batch(order, epoch, step):
    workers = range(order.layout.num_workers)
    return [n for worker in workers for n in order.positions(epoch, step, worker).tolist()]


@given(orders(), st.integers(0, 3))
@settings(max_examples=150)
def test_an_epoch_has_every_record_once(made, epoch):
    make, size = made
    order = make()
    batches = [global_batch(order, epoch, step) for step in range(order.steps_per_epoch)]
    seen = Counter(itertools.chain(*batches))
    echoing, total = order.options.echoing, order.layout.num_records
    dropped = total % size if order.options.remainder == "drop" else 0
    assert set(seen.values()) <= {echoing}
    assert set(seen) <= set(range(total))
    assert len(seen) == total - dropped
    assert sum(worker.records for worker in plan_workers(order).workers) == total - dropped


@given(orders(remainders=(None, "pad", "drop")), st.data())
@settings(max_examples=150)
def test_a_global_batch_is_the_same_for_any_number_of_workers(made, data):
    make, size = made
    one = make()
    if not one.steps_per_epoch:
        return
    epoch, step = data.draw(st.integers(0, 3)), data.draw(st.integers(0, one.steps_per_epoch - 1))
    alone = one.positions(epoch, step).tolist()
    for workers in [n for n in range(1, size + 1) if size % n == 0]:
        shared = make(workers)
        assert global_batch(shared, epoch, step) == alone
        token = shared.state(epoch * shared.steps_per_epoch + step).to_json()
        assert make(1, state=token).start == one.state(epoch * one.steps_per_epoch + step)


@given(orders(), st.data())
@settings(max_examples=150)
def test_the_steps_of_a_record_are_those_that_it_is_listed_at(made, data):
    order, epoch = made[0](), data.draw(st.integers(0, 3))
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


@pytest.mark.parametrize(
    ("settings", "workers", "said"),
    [
        ({"batch_size": 10}, 4, "10"),
        ({"batch_size": 600, "remainder": "drop"}, 1, "600"),
        ({"batch_size": 8, "state": "nonsense"}, 1, "nonsense"),
        ({"batch_size": 8, "state": {"version": 2, "epoch": 0}}, 1, "2"),
    ],
)
def test_what_cannot_be_planned_is_refused(settings, workers, said):
    with pytest.raises(ConfigError, match=said):
        InputOrder(ranges_of([100]), OrderOptions(**settings), num_workers=workers)


@pytest.mark.parametrize(
    "asked", [(0, 13, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 2)], ids=["step", "epoch", "-1", "worker"]
)
def test_what_no_worker_reads_is_refused(asked):
    order = InputOrder(ranges_of([100]), OrderOptions(batch_size=8, shuffle=9), num_workers=2)
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


def test_between_epochs_the_batch_size_may_change():
    first = InputOrder(ranges_of([100]), OrderOptions(batch_size=8, shuffle="global"))
    token = first.state(2 * first.steps_per_epoch)
    options = OrderOptions(batch_size=20, shuffle="global", state=token)
    resumed = InputOrder(ranges_of([100]), options)
    assert (resumed.start.epoch, resumed.start.step, resumed.start.batch_size) == (2, 0, 20)


def test_weights_give_each_dataset_its_share():
    parts = [ranges_of([900], "a"), ranges_of([100, 50], "b")]
    options = OrderOptions(batch_size=50, shuffle=500, weights=[3, 1])
    sizes = [MixPart(sum(one.take for one in part), "") for part in parts]
    order = InputOrder([*parts[0], *parts[1]], options, parts=sizes)
    counts = Counter(
        record.path[0]
        for step in range(order.steps_per_epoch)
        for record in order.records(epoch=0, step=step, worker=0)
    )
    assert counts == {"a": 900, "b": 300}
