"""Shards that are written to while they are read: whichever reader notices, and says which file."""

import collections
import itertools
import shutil

import pytest
import tensorflow as tf

from trainer_utils import CorruptShardError, DatasetWriter, input_fn, iterate

RECORDS = 40


@pytest.fixture(params=["manifest", "bare"])
def dataset(request, tmp_path):
    """A dataset with a manifest or without one, and its second shard."""
    with DatasetWriter(tmp_path / "d", num_shards=2) as writer:
        for number in range(RECORDS):
            writer.write("train", {"n": number, "text": "x" * 5000})
    folder = tmp_path / "d/Split-train"
    if request.param == "bare":
        shutil.copytree(folder, tmp_path / "bare")
        for path in (tmp_path / "bare").iterdir():
            path.rename(path.with_name(path.name.replace("data_tfrecord", "train.tfrecord")))
        folder = tmp_path / "bare"
    uri = folder if request.param == "bare" else tmp_path / "d"
    return uri, sorted(folder.iterdir())[1]


@pytest.mark.parametrize(
    ("read", "shuffle", "more"),
    [
        (input_fn, True, "a record"),
        (iterate, False, "a record"),
        (iterate, False, "garbage"),
        (iterate, "global", "a record"),
        (iterate, "global", "garbage"),
    ],
)
def test_a_shard_that_grows_is_an_error_in_the_next_epoch_at_the_latest(
    dataset, read, shuffle, more
):
    uri, shard = dataset
    batches = iter(read(uri, "train", batch_size=5, shuffle=shuffle, repeat=True))
    next(batches)
    data = shard.read_bytes()
    record = data[: 16 + int.from_bytes(data[:8], "little")]
    with open(shard, "ab") as stream:
        stream.write(record if more == "a record" else b"garbage")
    with pytest.raises((CorruptShardError, tf.errors.InvalidArgumentError), match=shard.name):
        collections.deque(itertools.islice(batches, 2 * RECORDS), maxlen=0)
