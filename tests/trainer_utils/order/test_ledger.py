"""A run's ledger: as text and back, over workers, and against what a naive replay saw."""

import itertools
import json
import random

import pytest

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.slices import RecordName
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.order.ledger import (
    InputHistory,
    InputLedger,
    Segment,
    settings_of_order,
)

RANGES = [FileRange(f"gs://b/{n}", 0, 50) for n in range(3)]


def segment(**fields) -> Segment:
    options = OrderOptions(batch_size=12, shuffle=40, weights=fields.pop("weights", None))
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


def history(ledger: InputLedger) -> InputHistory:
    return InputHistory(ledger, lambda one: one.order(RANGES, digest="d"))


def test_text_and_back():
    ledger = InputLedger((segment(), segment(first_step=9, unreadable={"gs://b/1": [3, 4]})))
    assert InputLedger.from_json(ledger.to_json()) == ledger
    assert len(ledger.to_json().splitlines()) == 2


def test_what_other_workers_could_not_read_is_joined():
    own = InputLedger((segment(unreadable={"a": [1]}),))
    other = InputLedger((segment(steps=8, unreadable={"a": [0, 1], "b": [7]}),))
    (merged,) = own.merged([other]).segments
    assert merged.unreadable == {"a": [0, 1], "b": [7]}
    for fields in ({"start": 1}, {"first_step": 1}, {"num_workers": 1}, {"num_replicas": 4}):
        foreign = InputLedger((segment(unreadable={"a": [5]}, **fields),))
        assert own.merged([foreign]) == own


@pytest.mark.parametrize("seed", range(8))
def test_history_is_what_a_naive_replay_saw(seed):
    rng = random.Random(seed)
    bad = {RecordName(f"gs://b/{rng.randrange(3)}", rng.randrange(50)) for _ in range(seed % 4)}
    unreadable: dict[str, list[int]] = {}
    for path, number in sorted(bad):
        unreadable.setdefault(path, []).append(number)
    ledger, step = InputLedger(), 0
    seen: dict[int, list[RecordName]] = {}
    for workers in rng.sample([1, 2, 3, 4, 6], 3):
        steps, start = rng.randint(1, 30), rng.randint(0, 30)
        one = segment(
            first_step=step,
            steps=steps,
            start=start,
            num_workers=workers,
            num_replicas=workers * rng.choice([1, 12 // workers]),
            unreadable=unreadable,
        )
        order = one.order(RANGES, digest="d")
        names = [RecordName(part.path, n) for part in RANGES for n in range(50)]
        for k in range(steps):
            epoch, within = divmod(start + k, order.steps_per_epoch)
            rows = itertools.chain(
                *(order.positions(epoch, within, w).tolist() for w in range(workers))
            )
            read = []
            for row in rows:
                while names[row] in bad:
                    row = (row + 1) % 150
                read.append(names[row])
            seen[step + k] = read
        ledger, step = ledger.with_segment(one), step + steps
    found = history(ledger)
    for number, records in seen.items():
        batch = found.batch(number)
        assert [row.record for row in batch.rows] == records
        assert {row.worker for row in batch.rows} == set(
            range(max(r.worker for r in batch.rows) + 1)
        )
    for record in rng.sample([*itertools.chain(*seen.values())], 10):
        steps = [number for number, records in seen.items() if record in records]
        assert [one.step for one in found.steps_of(record)] == steps
    with pytest.raises(ConfigError, match=str(step)):
        found.batch(step)


def test_a_damaged_ledger_names_its_file():
    facts = json.loads(InputLedger((segment(),)).to_json())
    wrong = [{"version": 1}, {"steps": -1}, {"steps": "9"}, {"datasets": 3}, {"more": 1}]
    for change in (*wrong, {"unreadable": {"a": ["x"]}}):
        with pytest.raises(DatasetError, match=r"a/b\.json"):
            InputLedger.from_json(json.dumps({**facts, **change}), path="a/b.json")
