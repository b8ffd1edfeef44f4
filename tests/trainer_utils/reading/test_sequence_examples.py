"""`tf.train.SequenceExample` records, against TensorFlow's parser and the written values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import DatasetError, input_fn
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature
from trainer_utils.format.example import decode_example

KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
ROWS: list[dict[str, Any]] = [
    {
        "context": {"id": [n], "name": [b"clip %d" % n], "tags": [7] * (n % 3)},
        "lists": {
            "tokens": [[100 * n + step] for step in range(n % 5)],
            "frames": [[float(n), float(step), 0.5] for step in range(1 + n % 4)],
            "words": [[b"w%d" % step] for step in range(n % 4)],
            "spans": [[step] * (step + 1) for step in range(n % 3)],
        },
    }
    for n in range(23)
]


def feature(values: list[Any]) -> tf.train.Feature:
    made = tf.train.Feature()
    if values:
        getattr(made, KINDS[type(values[0])]).value.extend(values)
    return made


def serialized(row: dict[str, Any]) -> bytes:
    example = tf.train.SequenceExample()
    for name, values in row["context"].items():
        example.context.feature[name].CopyFrom(feature(values))
    for name, steps in row["lists"].items():
        example.feature_lists.feature_list[name].feature.extend(map(feature, steps))
    return example.SerializeToString()


def write(folder: Path, rows: list[dict[str, Any]], shards: int = 2, suffix: str = "") -> str:
    folder.mkdir(exist_ok=True)
    options = tf.io.TFRecordOptions("GZIP" if suffix else "")
    for shard in range(shards):
        path = folder / f"train-{shard:05d}-of-{shards:05d}.tfrecord{suffix}"
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for row in rows[shard::shards]:
                writer.write(serialized(row))
    return str(folder)


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    return write(tmp_path_factory.mktemp("clips"), ROWS)


def padded(steps: list[list[Any]], like: np.ndarray) -> np.ndarray:
    """Return steps as a tensor of that shape and type, padded with zeros or empty strings."""
    out = np.full(like.shape, b"" if like.dtype == object else 0, like.dtype)
    for index, step in enumerate(steps):
        if out.ndim == 1:
            (out[index],) = step
        else:
            out[index, : len(step)] = step
    return out


def check_rows(batch: dict[str, np.ndarray]) -> list[int]:
    for place, n in enumerate(batch["id"].tolist()):
        row = ROWS[n]
        assert batch["name"][place] == row["context"]["name"][0]
        for name, steps in row["lists"].items():
            got = batch[name][place]
            np.testing.assert_array_equal(got, padded(steps, got))
    return batch["id"].tolist()


def test_features_are_found_by_inspection(uri):
    assert open_dataset(uri).features == {
        "frames": Feature(type="float", shape=(3,), dense=False, extra={"sequence": [3]}),
        "id": Feature(type="int"),
        "name": Feature(type="string"),
        "spans": Feature(type="int", shape=(2,), dense=False, extra={"sequence": "ragged"}),
        "tags": Feature(type="int", shape=(2,), dense=False),
        "tokens": Feature(type="int", dense=False, extra={"sequence": []}),
        "words": Feature(type="string", dense=False, extra={"sequence": []}),
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"shuffle": False},
        {"shuffle": "global"},
        {"on_corrupt": "skip"},
        {"pre_batching_callback": lambda tensors: tensors},
    ],
)
def test_contexts_and_lists_equal_the_written_ones(uri, settings):
    dataset = input_fn(uri, **{"batch_size": 4, **settings})
    seen = [n for batch in dataset.as_numpy_iterator() for n in check_rows(batch)]
    assert sorted(seen) == list(range(23))


def test_the_batch_equals_tensorflows(uri):
    (batch,) = input_fn(uri, batch_size=23, features=["id", "frames"], shuffle=False)
    assert batch["frames"].shape == (23, 4, 3)
    spec = {"frames": tf.io.FixedLenSequenceFeature((3,), tf.float32, allow_missing=True)}
    records = [serialized(ROWS[n]) for n in batch["id"].numpy()]
    _, theirs, _ = tf.io.parse_sequence_example(records, {}, spec)
    np.testing.assert_array_equal(batch["frames"], theirs["frames"])
    element = input_fn(uri, batch_size=4).element_spec
    assert element["frames"].shape.as_list() == [None, None, 3]
    assert element["tokens"].shape.as_list() == [None, None]


def test_single_examples_have_their_own_length(uri):
    examples = input_fn(uri, batch_size=None, shuffle=False)
    for example in examples.as_numpy_iterator():
        steps = ROWS[int(example["id"])]["lists"]
        assert example["tokens"].tolist() == [value for (value,) in steps["tokens"]]
        assert example["frames"].tolist() == steps["frames"]


def test_ragged_lists_are_ragged_tensors(uri):
    wanted = ["id", "tokens", "frames", "spans"]
    for batch in input_fn(uri, batch_size=4, ragged=True, features=wanted):
        for place, n in enumerate(batch["id"].numpy()):
            steps = ROWS[n]["lists"]
            assert batch["tokens"][place].numpy().tolist() == [v for (v,) in steps["tokens"]]
            assert batch["frames"][place].numpy().tolist() == steps["frames"]
            spans = batch["spans"][place].numpy()  # each step is padded
            np.testing.assert_array_equal(spans, padded(steps["spans"], spans))


def test_one_name_for_two_features_is_refused(tmp_path):
    row = {"context": {"id": [1]}, "lists": {"id": [[1]]}}
    uri = write(tmp_path / "clips", [row, row])
    with pytest.raises(DatasetError, match=r"feature 'id': .*both.*clips"):
        input_fn(uri)


def test_decoding_whole_examples_refuses_lists():
    with pytest.raises(DatasetError, match=r"got a tf\.train\.SequenceExample.*input_fn"):
        decode_example(serialized(ROWS[9]))
    assert decode_example(serialized(ROWS[9]), {"id"}) == {"id": [9]}
    assert decode_example(serialized({"context": {"id": [9]}, "lists": {}}))["id"] == [9]
