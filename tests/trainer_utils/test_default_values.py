"""Features that some records lack, of TFRecords that others wrote."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn, iterate


@pytest.fixture
def path(tmp_path, serialize) -> str:
    """Six records; `score`, `name` and `pair` are in every second one."""
    with tf.io.TFRecordWriter(str(tmp_path / "some.tfrecord")) as writer:
        for number in range(6):
            more = {"score": [number / 2], "name": [b"n%d" % number], "pair": [number, 7]}
            writer.write(serialize(id=[number], **(more if number % 2 else {})))
    return str(tmp_path / "some.tfrecord")


def _read(read_by: Any, path: str, **settings: Any) -> list[dict[str, np.ndarray]]:
    dataset = read_by(path, batch_size=4, shuffle=False, **settings)
    return list(dataset.as_numpy_iterator() if read_by is input_fn else dataset)


@pytest.mark.parametrize(
    ("read_by", "is_one_by_one"), [(input_fn, False), (iterate, False), (iterate, True)]
)
def test_a_default_stands_where_a_record_lacks_the_feature(path, read_by, is_one_by_one):
    settings = {"default_values": {"score": -1, "name": "none", "pair": 5}}
    if is_one_by_one:
        settings["pre_batching_callback"] = dict
    first, second = _read(read_by, path, **settings)
    assert first["score"].tolist() == [-1, 0.5, -1, 1.5]
    assert (first["score"].dtype, second["score"].shape) == (np.float32, (2,))
    assert second["name"].tolist() == [b"none", b"n5"]
    assert first["pair"].tolist() == [[5, 5], [1, 7], [5, 5], [3, 7]]
    expected = tf.io.parse_single_example(
        next(iter(tf.data.TFRecordDataset(path))),
        {"score": tf.io.FixedLenFeature((), tf.float32, -1.0)},
    )
    assert first["score"][0] == expected["score"].numpy()


def test_a_default_that_is_no_value_of_its_feature_is_refused(path):
    for name, value in (("score", "x"), ("name", 1), ("id", 0.5), ("scoer", 1)):
        with pytest.raises(ConfigError, match="default_values"):
            _read(iterate, path, default_values={name: value})
