"""Short batches of `input_fn` on several replicas, and from a token on.

`frameworks/test_same_batches.py` and `tests/faults` try any number of workers.
"""

import itertools
import json
from typing import Any

import pytest
import tensorflow as tf

import trainer_utils
from tests.make import refusing
from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature

FEATURES = {
    "id": Feature(type="int"),
    "tokens": Feature(type="int", dense=False),
    "image": Feature(type="string", shape=(40, 48, 3)),
}


@pytest.fixture(scope="session")
def write_ids(write_dataset, photos):
    """Return a function that writes numbered records, with lists of varying lengths, in shards."""
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
    """Write 53 records in four shards, one of them empty."""
    return write_ids(tmp_path_factory.mktemp("small"), [30, 0, 1, 22])


# --- Elements of all kinds ---


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
def test_short_batches_of_any_kind_are_divided(
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


def test_records_before_the_token_are_not_read(tmp_path, write_ids):
    uri = write_ids(tmp_path, [10] * 4)
    for path in sorted((tmp_path / "Split-train").iterdir())[:2]:
        path.write_bytes(bytes(path.stat().st_size))
    options: dict[str, Any] = {"features": "id", "batch_size": 10, "shuffle": False}
    with pytest.raises(tf.errors.OpError, match="00001-of-00004"):
        list(input_fn(uri, state=1, **options))
    got = [batch.tolist() for batch in input_fn(uri, state=2, **options).as_numpy_iterator()]
    assert got == [list(range(20, 30)), list(range(30, 40))]


# --- Tokens ---


def token_of(uri: str, workers: int, step: int, **options: Any) -> str:
    context = tf.distribute.InputContext(workers, 0, workers)
    return input_fn(uri, input_context=context, **options).state(step).to_json()


def test_invalid_tokens_are_refused(of_53):
    token = json.loads(token_of(of_53, 4, 3, batch_size=8))
    wrong = [{"version": version} for version in (1, 4, None)]
    wrong += [{"step": step} for step in (-1, 7, 1.5)] + [{"epoch": "1"}, {"surprise": 1}]
    for changes in wrong:
        state = {k: v for k, v in {**token, **changes}.items() if v is not None}
        for use, form in ((input_fn, json.dumps), (trainer_utils.plan, dict)):
            with refusing("state"):
                use(of_53, batch_size=8, state=form(state))


# --- Single examples, and derived datasets ---


def test_datasets_without_step_counts_are_refused(of_53, tmp_path):
    mapped = input_fn(of_53, features="id").map(lambda ids: ids)
    with pytest.raises(ConfigError, match=r"^dataset: expected that of input_fn"):
        trainer_utils.InputBackup(mapped, str(tmp_path))
    with pytest.raises(ConfigError, match=r"^dataset: expected that of input_fn"):
        next(trainer_utils.InputProgress().follow(mapped))
