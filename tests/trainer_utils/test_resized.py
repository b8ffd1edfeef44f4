"""Going on with another number of workers: every record once an epoch, in the batches of one.

Read by the real `input_fn`, one context a worker; thousands of plans alone are tried in
`order/test_order.py`.
"""

import collections
import itertools
import json
import math
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature

FEATURES = {
    "id": Feature(type="int"),
    "tokens": Feature(type="int", dense=False),
    "image": Feature(type="string", shape=(40, 48, 3)),
}
REMAINDERS = [None, "drop", "pad", "balance"]


@pytest.fixture(scope="session")
def write_ids(write_dataset, photos):
    """Writes so many numbered records in each shard, with a list as long as the number's rest."""
    jpegs = [tf.io.encode_jpeg(photo).numpy() for photo in photos[:3]]

    def write(folder, sizes: list[int]) -> str:
        bounds = itertools.pairwise([0, *itertools.accumulate(sizes)])
        shards = [
            [
                {"id": [n], "tokens": [n] * (n % 5 + 1), "image": [jpegs[n % 3]]}
                for n in range(start, stop)
            ]
            for start, stop in bounds
        ]
        return write_dataset(folder, {"train": shards}, FEATURES)

    return write


@pytest.fixture(scope="module")
def of_53(tmp_path_factory, write_ids) -> str:
    """53 records in four shards, one of them empty."""
    return write_ids(tmp_path_factory.mktemp("small"), [30, 0, 1, 22])


def read(
    uri: Any,
    workers: int,
    token: Any = None,
    stop: int | None = None,
    *,
    replicas: int = 1,
    split: str | None = None,
    **options: Any,
) -> tuple[list[list[int]], str | None]:
    """The records of each global batch from a token on, up to a step; and the token there."""
    options = {"features": "id", **options}
    contexts = [
        tf.distribute.InputContext(workers, worker, workers * replicas) for worker in range(workers)
    ]
    datasets = [
        input_fn(uri, split, input_context=context, state=token, **options) for context in contexts
    ]
    start = datasets[0].input_start
    taken = None
    if stop is not None:
        taken = (stop - start.epoch * datasets[0].input_steps - start.step) * replicas
    per_worker = [list(itertools.islice(one.as_numpy_iterator(), taken)) for one in datasets]
    assert len({len(elements) for elements in per_worker}) == 1, "not the same number of steps"
    steps = len(per_worker[0]) // replicas
    assert len(per_worker[0]) == steps * replicas
    batches = []
    for step in range(steps):
        own = [e for elements in per_worker for e in elements[step * replicas :][:replicas]]
        sizes = [len(rows_of(element)) for element in own]
        if options.get("remainder") in ("drop", "pad"):
            assert set(sizes) == {options["batch_size"] // (workers * replicas)}
        assert max(sizes) - min(sizes) <= 1
        batches.append(sorted(itertools.chain(*map(real_rows, own))))
    return batches, None if stop is None else datasets[-1].state(stop).to_json()


def true_sizes(records: int, batch_size: int, remainder: str | None) -> list[int]:
    """How many records each batch of an epoch holds."""
    sizes = [batch_size] * (records // batch_size)
    rest = records % batch_size
    if remainder == "drop" or not rest:
        return sizes
    if remainder == "balance" and sizes:
        both = sizes.pop() + rest
        return [*sizes, math.ceil(both / 2), both // 2]
    return [*sizes, rest]


def rows_of(element: Any) -> np.ndarray:
    return element[0] if isinstance(element, tuple) else element


def real_rows(element: Any) -> list[int]:
    """What counts of an element: all of it, or where its mask is 1."""
    rows = rows_of(element)
    mask = element[1] if isinstance(element, tuple) else np.ones(len(rows))
    assert set(mask) <= {0, 1}
    return [int(n) for n in rows[mask == 1]]


# --- Random jobs ---


@pytest.mark.parametrize(
    "seed",
    [*range(6), *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(100, 200))],
)
def test_a_random_job_is_resized_twice(seed, tmp_path, write_ids):
    """A job of one number of workers, gone on with by a second, and by a third."""
    folder = tmp_path
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, rng.randint(0, 60)]) for _ in range(rng.randint(1, 12))] + [13]
    others = [rng.randint(1, 40)] if rng.random() < 0.4 else []
    uris = [write_ids(folder / "first", sizes), *(write_ids(folder / "other", [n]) for n in others)]
    records = sum(sizes)
    split = rng.choice(["train", "train", f"train[{records // 7}:]", "train[:80%]+train[80%:]"])
    batch_size = rng.choice([6, 8, 12, 24])
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "split": split if not others else None,
        "shuffle": rng.choice([True, False, rng.randint(1, 100), "global"]),
        "remainder": rng.choice(REMAINDERS),
        "seed": seed,
        "weights": [1, rng.choice([1, 2, 5])] if others else None,
        "repeat": rng.choice([1, 2]),
        "echoing": rng.choice([1, 1, 2]),
        "cache": rng.choice([None, None, str(folder / "cache")]),
        "on_corrupt": rng.choice(["raise", "raise", "skip"]),
    }
    if (
        options["remainder"] == "drop"
        and trainer_utils.plan(uris, **{**options, "remainder": None}).records < batch_size
    ):
        options["remainder"] = "pad"  # dropping would leave out all
    one, _ = read(uris, 1, **options)
    epoch = [number for batch in one[:: options["echoing"]] for number in batch]
    total = len(epoch) // options["repeat"]
    if options["remainder"] == "drop":
        total = trainer_utils.plan(uris, **options).records
    sizes_of = true_sizes(total, batch_size, options["remainder"])
    assert [len(b) for b in one] == [
        size for size in sizes_of for _ in range(options["echoing"])
    ] * options["repeat"]
    if not others and options["remainder"] != "drop":
        first = records // 7 if split.startswith("train[") and split.endswith(":]") else 0
        first = 0 if "+" in split else first
        expected = collections.Counter(range(first, records))
        assert collections.Counter(epoch) == collections.Counter(
            {n: times * options["repeat"] for n, times in expected.items()}
        )

    jobs = [rng.choice([n for n in range(1, 9) if batch_size % n == 0]) for _ in range(3)]
    stops = sorted(rng.choice([0, len(one), rng.randint(0, len(one))]) for _ in range(2))
    token, resized = None, []
    for workers, stop in zip(jobs, [*stops, None], strict=True):
        replicas = rng.choice([1, 2]) if batch_size % (2 * workers) == 0 else 1
        if options["remainder"] == "balance" and min(sizes_of) < workers * replicas:
            with pytest.raises(ConfigError, match=r"^remainder"):
                read(uris, workers, token, stop, replicas=replicas, **options)
            return
        batches, token = read(uris, workers, token, stop, replicas=replicas, **options)
        resized += batches
    assert resized == one, (jobs, stops, options)


# --- Whatever the elements are made of ---


def unchanged(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return dict(features)


KINDS: dict[str, dict[str, Any]] = {
    "text": {"features": ["id", "tokens"]},
    "ragged text": {"features": ["id", "tokens"], "ragged": True},
    "images": {"features": ["id", "image"]},
    "images and text": {"features": ["id", "image", "tokens"], "image_size": (8, 8)},
    "images and ragged text": {"features": ["id", "image", "tokens"], "ragged": True},
    "damage skipped": {"features": ["id", "image"], "on_corrupt": "skip"},
    "a hook before": {"features": ["id"], "pre_batching_callback": unchanged},
    "a hook after": {"features": ["id"], "post_batching_callback": unchanged},
}


@pytest.mark.parametrize(
    ("kind", "split", "remainder", "workers", "replicas", "sizes"),
    [
        *((kind, "train[:2]", None, 3, 1, [[0], [1], [1]]) for kind in KINDS),
        ("text", "train[:23]", None, 1, 4, [[3, 3, 3, 3, 2, 3, 3, 3]]),
        ("text", "train[:17]", "balance", 2, 2, [[2, 2, 2, 2], [2, 3, 2, 2]]),
    ],
)
def test_short_batches_of_any_kind_are_shared_out(
    of_53, kind, split, remainder, workers, replicas, sizes
):
    seen = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * replicas)
        settings = {"batch_size": 12, "remainder": remainder, **KINDS[kind]}
        dataset = input_fn(of_53, split, input_context=context, **settings)
        elements = [{k: list(v) for k, v in element.items()} for element in dataset]
        assert [len(element["id"]) for element in elements] == sizes[worker]
        for element in elements:
            ids = [int(number) for number in element["id"]]
            assert {len(values) for values in element.values()} == {len(ids)}
            lengths = [number % 5 + 1 for number in ids]
            for length, number, row in zip(lengths, ids, element.get("tokens", []), strict=False):
                filler = 0 if "ragged" in settings else len(row) - length
                assert row.numpy().tolist() == [number] * length + [0] * filler
            seen += ids
    assert sorted(seen) == list(range(int(split[7:-1])))


def test_replicas_that_get_none_of_the_last_batch_are_told_once(of_53, our_messages):
    for worker in range(2):
        for remainder in (None, "balance"):
            context = tf.distribute.InputContext(2, worker, 8)
            input_fn(of_53, batch_size=16, remainder=remainder, input_context=context)
    (message,) = our_messages()
    assert "last batch of 5 records leaves 3 of 8 replicas without any" in message


# --- Tokens ---


def token_of(uri: str, workers: int, step: int, **options: Any) -> str:
    context = tf.distribute.InputContext(workers, 0, workers)
    return input_fn(uri, input_context=context, **options).state(step).to_json()


def test_files_in_order_begin_anew_each_epoch_unless_others_are_to_be_dropped(of_53):
    options: dict[str, Any] = {"features": "id", "batch_size": 8, "shuffle": False, "repeat": 2}
    batches = list(input_fn(of_53, **options, remainder="drop").as_numpy_iterator())
    assert [batch[0] for batch in batches] == [*range(0, 48, 8), *range(5, 53, 8)]


@pytest.mark.parametrize("workers", [2, 8])
def test_a_token_comes_in_any_spelling_of_the_same_settings(of_53, workers):
    same = [
        {"weights": [1, 3], "shuffle": False},
        {"weights": (1.0, 3.0), "shuffle": False},
        {"weights": np.array([1, 3]), "shuffle": False, "label": "id"},
    ]
    token = token_of([of_53, of_53], 4, 3, batch_size=8, **same[0])
    for settings in same:
        context = tf.distribute.InputContext(workers, 0, workers)
        options = {"batch_size": 8, "state": token, "input_context": context, **settings}
        assert input_fn([of_53, of_53], **options).input_start.step == 3


def test_what_is_no_token_of_this_version_is_refused(of_53):
    token = json.loads(token_of(of_53, 4, 3, batch_size=8))
    wrong = [{"version": version} for version in (1, 4, None)]
    wrong += [{"step": step} for step in (-1, 7, 1.5)] + [{"epoch": "1"}, {"surprise": 1}]
    for changes in wrong:
        state = {k: v for k, v in {**token, **changes}.items() if v is not None}
        for use, form in ((input_fn, json.dumps), (trainer_utils.plan, dict)):
            with pytest.raises(ConfigError) as caught:
                use(of_53, batch_size=8, state=form(state))
            assert caught.value.setting == "state", changes


def test_a_plan_for_a_token_is_that_of_any_workers(of_53):
    token = token_of(of_53, 4, 3, batch_size=12)
    workers = trainer_utils.plan(of_53, workers=2, batch_size=12, state=token).workers
    assert [worker.records for worker in workers] == [26, 27]


# --- Single examples, and what is made of them ---


@pytest.mark.parametrize(("shuffle", "echoing"), [(True, 3), (False, 1), ("global", 1)])
def test_single_examples_are_gone_on_from_by_as_many_workers(of_53, shuffle, echoing):
    options: dict[str, Any] = {
        "batch_size": None, "features": "id", "shuffle": shuffle, "repeat": 2, "echoing": echoing
    }  # fmt: skip
    for worker in range(3):
        context = tf.distribute.InputContext(3, worker, 3)
        dataset = input_fn(of_53, input_context=context, **options)
        whole = [int(n) for n in dataset.as_numpy_iterator()]
        each = 53 // 3 * echoing
        assert len(whole) == int(dataset.cardinality()) == 2 * each
        assert len(set(whole[:each])) == 53 // 3
        for step in (each, each + 7):
            token = dataset.state(step).to_json()
            rest = input_fn(of_53, input_context=context, state=token, **options)
            assert [int(n) for n in rest.as_numpy_iterator()] == whole[step:]


def test_single_examples_of_other_workers_are_gone_on_from_between_epochs_only(of_53):
    options: dict[str, Any] = {"batch_size": None, "features": "id", "repeat": 2}
    within, between = (token_of(of_53, 2, step, **options) for step in (3, 53 // 2))
    with pytest.raises(
        ConfigError, match=r"^state: expected the batch_size of the token, 2, got 1"
    ):
        input_fn(of_53, state=within, **options)
    rest = input_fn(of_53, state=between, **options)
    assert sorted(int(n) for n in rest.as_numpy_iterator()) == list(range(53))


def test_what_does_not_count_its_steps_is_refused_where_steps_are_to_be_kept(of_53, tmp_path):
    mapped = input_fn(of_53, features="id").map(lambda ids: ids)
    with pytest.raises(ConfigError, match=r"^dataset: expected that of input_fn"):
        trainer_utils.InputBackup(mapped, str(tmp_path))
    with pytest.raises(ConfigError, match=r"^dataset: expected that of input_fn"):
        next(trainer_utils.InputProgress().follow(mapped))
