"""`InputHistory` against every step of the order, listed one by one."""

import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.order.history import InputHistory
from trainer_utils.order.ledger import InputLedger, Stretch, plan_of

RANGES = [FileRange(f"{n}", 0, size, to_end=True) for n, size in enumerate([30, 1, 22])]
RECORDS = [RecordName(part.path, n) for part in RANGES for n in range(part.take)]


def history_of(options: OrderOptions, stretches: list[Stretch]) -> InputHistory:
    order = InputOrder(RANGES, options, mean_record_bytes=100, digest="d")
    plan = plan_of(order, [("somewhere", "train")], 100)
    ledger = InputLedger()
    for stretch in stretches:
        ledger = ledger.with_stretch(plan, stretch)
    read = InputLedger.from_json(ledger.to_json())

    def open_order(plan, workers, replicas):
        return plan.order(RANGES, digest="d", num_workers=workers, num_replicas=replicas)

    return InputHistory(read, open_order)


def stretch(first, steps, start, workers=1, replicas=None, **fields) -> Stretch:
    return Stretch(
        plan=0, first_step=first, steps=steps, start=start, num_workers=workers,
        num_replicas=replicas or workers, **fields,
    )  # fmt: skip


@given(
    shuffle=st.sampled_from([True, False, "global", 9]),
    remainder=st.sampled_from([None, "drop", "pad", "balance"]),
    echoing=st.integers(1, 3),
    workers=st.sampled_from([1, 2, 4]),
    skipped=st.lists(st.integers(0, 29)),
    start=st.integers(0, 12),
    steps=st.integers(0, 30),
)
@settings(max_examples=40)
def test_the_steps_of_records_are_those_of_batches(
    shuffle, remainder, echoing, workers, skipped, start, steps
):
    options = OrderOptions(
        batch_size=8, shuffle=shuffle, remainder=remainder, echoing=echoing, on_corrupt="skip"
    )
    runs = {0: [(n, 1) for n in sorted(set(skipped))]}
    told = history_of(options, [stretch(40, steps, start, workers, skipped=runs)])
    seen = collections.defaultdict(set)
    for step in range(40, 40 + steps):
        batch = told.batch(step)
        assert batch.at.step == step
        for row in batch.rows:
            seen[row.record].add(batch.at)
    for record in RECORDS:
        assert told.steps_of(record) == sorted(seen[record]), record


def test_replicas_of_a_worker_get_equal_parts_of_its_rows():
    options = OrderOptions(batch_size=8, shuffle=False, on_corrupt="skip")
    told = history_of(options, [stretch(0, 1, 0, 1, 4, skipped={0: [(2, 3)]})])
    rows = [(row.replica, row.record.number, row.stands_in) for row in told.batch(0).rows]
    # Replica 1 has records 2 and 3, neither of which can be read.
    assert rows == [
        (0, 0, False), (0, 1, False), (1, 0, True), (2, 5, False), (3, 6, False), (3, 7, False)
    ]  # fmt: skip
    assert [record.number for record in told.batch(0).skipped] == [2, 3, 4]


def test_in_full_batches_the_first_readable_record_stands_in_twice():
    options = OrderOptions(batch_size=4, shuffle=False, drop_remainder=True, on_corrupt="skip")
    told = history_of(options, [stretch(0, 13, 0, skipped={0: [(5, 2), (8, 4)]})])
    rows = [[row.record.number for row in told.batch(step).rows] for step in (1, 2)]
    assert rows == [[4, 4, 4, 7], [0, 0, 0, 0]]
    assert [at.step for at in told.steps_of(RecordName("0", 0))] == [0, 2]


@pytest.mark.parametrize("step", [0, 9, 25])
def test_a_step_that_the_run_does_not_have_is_refused(step):
    told = history_of(OrderOptions(batch_size=8), [stretch(10, 5, 0), stretch(15, 10, 5)])
    with pytest.raises(ConfigError, match=rf"^step: expected .* from 10 to 24, got {step}$"):
        told.batch(step)


def test_single_examples_some_of_which_were_skipped_are_refused():
    options = OrderOptions(batch_size=None, on_corrupt="skip", shuffle=9)
    told = history_of(options, [stretch(0, 5, 0, skipped={0: [(1, 1)]})])
    with pytest.raises(DatasetError, match="train with a batch_size"):
        told.batch(0)
    whole = history_of(options, [stretch(0, 5, 0)])
    records = [whole.batch(step).rows[0].record for step in range(5)]
    assert [whole.steps_of(record)[0].step for record in records] == [0, 1, 2, 3, 4]
