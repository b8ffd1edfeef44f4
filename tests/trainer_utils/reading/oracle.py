"""Make batches with TensorFlow's reader and parser, from the records that the order names."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_utils.dataset import open_dataset
from trainer_utils.format.slices import RecordName

_DTYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}


def records_of(names: Sequence[RecordName]) -> list[bytes]:
    """Read records without an index."""
    return [_records(path)[number] for path, number in names]


@functools.lru_cache(maxsize=64)
def _records(path: str) -> list[bytes]:
    compression = "GZIP" if path.endswith(".gz") else ""
    return [record.numpy() for record in tf.data.TFRecordDataset(path, compression)]


def parsed(records: Sequence[bytes], uri: str, features: Sequence[str]) -> dict[str, np.ndarray]:
    """Parse a batch of values that need no decoding, padded with zeros or empty strings."""
    said = open_dataset(uri).features
    spec: dict[str, Any] = {}
    for name in features:
        dtype = _DTYPES[said[name].type]
        is_dense = said[name].dense
        spec[name] = (
            tf.io.FixedLenFeature(said[name].shape, dtype)
            if is_dense
            else tf.io.VarLenFeature(dtype)
        )
    batch = tf.io.parse_example(tf.constant(records, tf.string, [len(records)]), spec)
    dense = {
        name: tf.sparse.to_dense(value) if isinstance(value, tf.SparseTensor) else value
        for name, value in batch.items()
    }
    return {name: dense[name].numpy() for name in features}


def batches_of(
    batches: Any, uri: str, features: Sequence[str], epoch: int
) -> Iterator[dict[str, np.ndarray]]:
    """Return the expected batches of an epoch of `iterate`, without filler rows."""
    for step in range(len(batches)):
        names = batches.order.records(epoch=epoch, step=step, worker=batches.worker)
        yield parsed(records_of(names), uri, features)


def assert_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Assert equal values, shapes and types; TensorFlow's strings are objects of bytes."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert ours.tolist() == theirs.tolist()
