"""What a ledger holds: as text and back, merged over workers, refused where it is damaged."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import DatasetError
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.order.ledger import InputLedger, Stretch, merge_ledgers, plan_of, runs_of

RANGES = [FileRange(f"gs://b/{n}", 0, 50, to_end=True) for n in range(3)]
ORDER = InputOrder(RANGES, OrderOptions(batch_size=8), mean_record_bytes=12.1, digest="d")
PLAN = plan_of(ORDER, [("gs://b", "train[:80%]"), (("a", "b"), "eval")], 12.1)


def stretch(**fields) -> Stretch:
    numbers = {"plan": 0, "first_step": 0, "steps": 9, "start": 0}
    return Stretch(**{**numbers, "num_workers": 2, "num_replicas": 2, **fields})


NUMBERS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 49)))


@given(NUMBERS, NUMBERS, st.lists(st.integers(0, 99), unique=True).map(sorted))
def test_text_and_back(first, second, lost):
    sides = [
        InputLedger().with_stretch(
            PLAN, stretch(skipped=runs_of([(RANGES[f].path, n) for f, n in side], ORDER), lost=lost)
        )
        for side in (first, second)
    ]
    read = [InputLedger.from_json(side.to_json()) for side in sides]
    assert [one.to_json() for one in read] == [one.to_json() for one in sides]
    assert read[0].plans == sides[0].plans
    (merged,) = merge_ledgers(read[0], [read[1]]).stretches
    found = {
        (file, number)
        for file, runs in merged.skipped.items()
        for start, count in runs
        for number in range(start, start + count)
    }
    assert found == {*first, *second}
    assert list(merged.lost) == lost


def test_what_other_workers_say_of_other_stretches_is_left_out():
    own = InputLedger().with_stretch(PLAN, stretch(steps=5))
    for fields in ({"start": 1}, {"first_step": 1}, {"num_workers": 1}, {"num_replicas": 4}):
        other = InputLedger().with_stretch(PLAN, stretch(skipped={0: ((1, 1),)}, **fields))
        assert merge_ledgers(own, [other]) == own


@pytest.mark.parametrize("weights", [[1, 3], (1.0, 3.0), np.array([1, 3], np.float32)])
def test_weights_of_any_numbers_are_kept_as_the_same(weights):
    order = InputOrder(RANGES, OrderOptions(batch_size=8, weights=weights), digest="d")
    ledger = InputLedger().with_stretch(plan_of(order, [("a", "train")], None), stretch())
    (plan,) = InputLedger.from_json(ledger.to_json()).plans
    assert plan.settings["weights"] == [1, 3]


def test_a_stretch_without_a_step_leaves_nothing():
    ledger = InputLedger().with_stretch(PLAN, stretch(steps=0)).with_stretch(PLAN, stretch())
    assert [one.steps for one in ledger.stretches] == [9]
    assert len(ledger.plans) == 1


@pytest.mark.parametrize("lost", [(), (1, 2), (0,), (3, 6)])
@pytest.mark.parametrize("echoing", [1, 3])
def test_places_and_steps_are_each_others_inverse(lost, echoing):
    one = stretch(first_step=100, steps=20, start=0, lost=lost)
    left = [n for n in range(99) if n // echoing not in lost]
    assert [one.place_of(step, echoing) for step in range(100, 120)] == left[:20]
    found = {place: one.step_at(place, echoing) for place in range(99)}
    assert {place: step for place, step in found.items() if step is not None} == dict(
        zip(left, range(100, 120), strict=False)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"plans": 3},
        {"plans": [{}]},
        {"stretches": None},
        {"stretches": [{**stretch().to_json(), "steps": -1}]},
        {"stretches": [{**stretch().to_json(), "steps": "9"}]},
        {"stretches": [{**stretch().to_json(), "plan": 7}]},
        {"stretches": [{**stretch().to_json(), "skipped": {"x": [[0, 1]]}}]},
        {"stretches": [{**stretch().to_json(), "more": 1}]},
    ],
)
def test_a_damaged_ledger_is_one_error_that_names_its_file(change):
    facts = json.loads(InputLedger().with_stretch(PLAN, stretch()).to_json())
    with pytest.raises(DatasetError, match=r"^'a/b\.json': expected a ledger as .*another checkp"):
        InputLedger.from_json(json.dumps({**facts, **change}), path="a/b.json")
