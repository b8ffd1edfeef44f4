"""Shards that differ from their dataset: from another run with the same size, or growing."""

import collections
import itertools
import shutil

import pytest
import tensorflow as tf

from tests.make import write_rows
from trainer_utils import CorruptShardError, DatasetError, input_fn, iterate

RECORDS, SHARDS = 300, 3
_BYTES = 8000  # a shard is larger than the part checked when it is opened


def _write(folder, run: int):
    """Write a dataset; return its uri and its shards."""
    texts = [b"%d %05d " % (run, number) for number in range(RECORDS)]
    rows = ({"id": text[2:7], "run": run, "text": text * (_BYTES // len(text))} for text in texts)
    write_rows(folder, rows, num_shards=SHARDS)
    return folder, sorted((folder / "Split-train").iterdir())


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> str:
    """Write a dataset of run 0 with the first shard of run 1, of the same size."""
    base = tmp_path_factory.mktemp("foreign")
    (ours, shards), (_, others) = (_write(base / str(run), run) for run in (0, 1))
    assert shards[0].stat().st_size == others[0].stat().st_size
    shutil.copyfile(others[0], shards[0])
    return str(ours)


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize("shuffle", [False, True, "global"])
@pytest.mark.parametrize("cache", [None, "folder"])
def test_no_record_of_another_run_is_served(foreign, tmp_path, on_corrupt, shuffle, cache):
    folder = None if cache is None else str(tmp_path)
    settings = {"shuffle": shuffle, "on_corrupt": on_corrupt, "cache": folder, "batch_size": 8}
    seen: list[int] = []

    def read() -> None:
        for batch in iterate(foreign, "train", features=["run"], **settings):
            seen.extend(batch["run"].tolist())

    with pytest.raises(DatasetError, match="00000-of-00003"):
        read()
    assert set(seen) <= {0}


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
@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_growing_shard_raises_by_the_next_epoch(tmp_path, has_manifest, read, shuffle, more):
    uri, (_, shard, _) = _write(tmp_path / "d", 0)
    if not has_manifest:
        uri = shard.parent.rename(tmp_path / "bare")
        for path in uri.iterdir():
            path.rename(path.with_name(path.name.replace("data_tfrecord", "train.tfrecord")))
        shard = uri / shard.name.replace("data_tfrecord", "train.tfrecord")
    batches = iter(read(uri, "train", batch_size=50, shuffle=shuffle, repeat=True))
    next(batches)
    data = shard.read_bytes()
    record = data[: 16 + int.from_bytes(data[:8], "little")]
    with open(shard, "ab") as stream:
        stream.write(record if more == "a record" else b"garbage")
    with pytest.raises((CorruptShardError, tf.errors.InvalidArgumentError), match=shard.name):
        collections.deque(itertools.islice(batches, RECORDS // 10), maxlen=0)
