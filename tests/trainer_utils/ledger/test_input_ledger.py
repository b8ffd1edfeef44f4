"""The ledger of a run: JSON round trip, and merging over workers."""

import json

import pytest

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.ledger.input_ledger import InputHistory, InputLedger, Segment, settings_of_order
from trainer_utils.order import FileRange, InputOrder, OrderOptions

RANGES = [FileRange(f"gs://b/{n}", 0, 50) for n in range(3)]


def segment(**fields) -> Segment:
    options = OrderOptions(batch_size=12, shuffle=40)
    order = InputOrder(RANGES, options, digest="d")
    given = {"first_step": 0, "steps": 9, "start": 0, "num_workers": 2, "num_replicas": 2}
    return Segment(
        **{
            **given,
            "datasets": [("gs://b", "train[:80%]"), (("a", "b"), "eval")],
            "settings": settings_of_order(options),
            "digest": order.digest,
            **fields,
        }
    )


def test_json_round_trip():
    mixed = settings_of_order(OrderOptions(weights=[3, 1], pack={"length": 9}))
    more = segment(first_step=9, settings=mixed, unreadable={"gs://b/1": [3, 4]})
    ledger = InputLedger((segment(), more))
    assert InputLedger.from_json(ledger.to_json()) == ledger
    assert len(ledger.to_json().splitlines()) == 2


def test_unreadable_records_of_all_workers_are_merged(subtests):
    own = InputLedger((segment(unreadable={"a": [1]}),))
    other = InputLedger((segment(steps=8, unreadable={"a": [0, 1], "b": [7]}),))
    (merged,) = own.merged([other]).segments
    assert merged.unreadable == {"a": [0, 1], "b": [7]}
    for fields in ({"start": 1}, {"first_step": 1}, {"num_workers": 1}, {"num_replicas": 4}):
        with subtests.test(fields=fields):
            foreign = InputLedger((segment(unreadable={"a": [5]}, **fields),))
            assert own.merged([foreign]) == own


def test_a_step_outside_the_run_is_refused(subtests):
    history = InputHistory(InputLedger((segment(),)), lambda one: one.order(RANGES, digest="d"))
    assert len(history.batch(8).rows) == 12
    for step in (-1, 9):
        with subtests.test(step=step), pytest.raises(ConfigError, match=f"{step}"):
            history.batch(step)


def test_a_damaged_ledger_names_its_file(subtests):
    facts = json.loads(InputLedger((segment(),)).to_json())
    wrong = [{"version": 1}, {"steps": -1}, {"steps": "9"}, {"datasets": 3}, {"more": 1}]
    for change in (*wrong, {"unreadable": {"a": ["x"]}}):
        with subtests.test(change=change), pytest.raises(DatasetError, match=r"a/b\.json"):
            InputLedger.from_json(json.dumps({**facts, **change}), path="a/b.json")
