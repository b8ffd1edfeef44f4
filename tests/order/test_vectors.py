"""The shipped order, the reference implementation and the test vectors agree."""

import json
from pathlib import Path

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.order import reference
from trainer_utils.core.errors import ConfigError
from trainer_utils.order import FileRange, InputOrder, MixPart, OrderOptions

CASES = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


def input_order(case) -> InputOrder:
    options = dict(case["settings"])
    mean_record_bytes = options.pop("mean_record_bytes", 0)
    options = OrderOptions(**options)
    datasets = [
        [FileRange(f"{d}-{n}", 0, size) for n, size in enumerate(shards)]
        for d, shards in enumerate(case["datasets"])
    ]
    return InputOrder(
        [part for some in datasets for part in some],
        options,
        num_workers=case["workers"],
        mean_record_bytes=mean_record_bytes,
        parts=[MixPart(sum(shards), "") for shards in case["datasets"]],
    )


def name(case) -> str:
    options = {"workers": case["workers"], **case["settings"]}
    return f"{case['datasets']}-" + ",".join(f"{key}={value}" for key, value in options.items())


def test_reference_and_input_order_match_the_vectors(subtests):
    for case in CASES:
        with subtests.test(case=case):
            arguments = case["datasets"], case["settings"], case["workers"]
            order = input_order(case)
            assert reference.steps_per_epoch(*arguments) == case["steps_per_epoch"], name(case)
            assert order.steps_per_epoch == case["steps_per_epoch"], name(case)
            for rows in case["rows"]:
                at = rows["epoch"], rows["step"], rows["worker"]
                assert reference.positions(*arguments, *at) == rows["positions"], name(case)
                assert order.positions(*at).tolist() == rows["positions"], name(case)


@st.composite
def cases(draw):
    sizes = st.lists(st.integers(0, 400), min_size=1, max_size=4).filter(any)
    datasets = draw(st.lists(sizes, min_size=1, max_size=3))
    batch_size = draw(st.none() | st.integers(1, 64))
    most = batch_size or 8
    weight = st.integers(1, 9) | st.floats(0.05, 20)
    weights = st.lists(weight, min_size=len(datasets), max_size=len(datasets))
    remainders = [None, "drop"] if batch_size is None else [None, "pad", "drop", "balance"]
    return {
        "datasets": datasets,
        "workers": draw(st.sampled_from([w for w in range(1, most + 1) if most % w == 0])),
        "settings": {
            "batch_size": batch_size,
            "shuffle": draw(st.sampled_from([False, True, "global"]) | st.integers(1, 1000)),
            "seed": draw(st.integers(-3, 3) | st.integers(-(2**70), 2**70)),
            "remainder": draw(st.sampled_from(remainders)),
            "weights": draw(st.none() | weights),
            "echoing": draw(st.integers(1, 3)),
            "reshuffle_each_iteration": draw(st.booleans()),
            # For shuffle=True: blocks from a single record to all records.
            "mean_record_bytes": draw(st.floats(1, 1e9) | st.floats(5e5, 1e8)),
        },
    }


def may_be_refused(case) -> bool:
    """Return whether an epoch has no batches, or `balance` cannot give each worker a row."""
    batches = reference.batches_of(case["datasets"], case["settings"], case["workers"])
    balance = batches.remainder == "balance" and min(batches.last, default=64) < case["workers"]
    return batches.count == 0 or balance


@settings(max_examples=200, deadline=None)
@given(cases(), st.data())
def test_reference_and_input_order_agree(case, data):
    try:
        order = input_order(case)
    except ConfigError:
        assert may_be_refused(case)
        reject()
    arguments = case["datasets"], case["settings"], case["workers"]
    steps = reference.steps_per_epoch(*arguments)
    assert order.steps_per_epoch == steps
    epoch = data.draw(st.integers(0, 1000), label="epoch")
    any_step = data.draw(st.integers(0, max(0, steps - 1)), label="step")
    # The last steps differ from the others. (Fewer single examples than workers: no steps at all.)
    for step in {0, any_step, steps - 2, steps - 1} & set(range(steps)):
        for worker in range(case["workers"]):
            expected = reference.positions(*arguments, epoch, step, worker)
            assert order.positions(epoch, step, worker).tolist() == expected
