"""A shard made of records from anywhere, against TensorFlow's own reader."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.common.summaries import start_working, working_folder
from components.shard_balancer.picking import CHUNK_BYTES, Picks, PickShard, UnlikeIndexError
from trainer_utils.format import CorruptShardError, ShardName
from trainer_utils.format.framing import frame_records

NAME = ShardName(split="train", shard_index=2, num_shards=5)


@pytest.fixture
def files(tmp_path):
    """Two files, and the records of each: empty, short, and longer than a chunk."""
    records = [[b"", b"a" * 9, b"b" * (CHUNK_BYTES + 7)], [b"c" * 70_000] * 2 + [b"dd"]]
    paths = []
    for number, group in enumerate(records):
        paths.append(str(tmp_path / f"{number}"))
        (tmp_path / f"{number}").write_bytes(frame_records(group))
    return paths, records


def pick(uri, files, wanted):
    """Writes the records `wanted`: the number of a file, and of a record in it."""
    paths, records = files
    start_working(str(uri))
    offsets = [sum(len(r) + 16 for r in records[f][:n]) for f, n in wanted]
    picks = Picks(
        name=NAME,
        files=np.array([f for f, _ in wanted], np.int64),
        offsets=np.array(offsets, np.int64),
        lengths=np.array([len(records[f][n]) for f, n in wanted], np.int64),
    )
    return PickShard(files=paths, sources=[0, 3], uri=str(uri))(picks)


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [(1, 2)],
        [(0, 2), (1, 0), (0, 0)],
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)],
        [(1, 2), (0, 2), (1, 1), (0, 1), (0, 0), (1, 0)],
    ],
)
def test_the_shard_holds_what_was_picked_in_that_order(tmp_path, files, wanted):
    assert pick(tmp_path / "out", files, wanted) == {"records_balanced": len(wanted)}
    path = str(tmp_path / "out" / NAME.path)
    read = [*tf.compat.v1.io.tf_record_iterator(path)]
    assert read == [files[1][f][n] for f, n in wanted]
    folder = working_folder(str(tmp_path / "out"))
    (summary,) = (tmp_path / "out").glob("*/summaries/gather-train-00002.json")
    found = json.loads(summary.read_text())
    assert str(summary).startswith(folder)
    assert found["content"].keys() == {str([0, 3][f]) for f, _ in wanted}
    assert found["shards"][0]["records"] == len(wanted)


@pytest.mark.parametrize("byte", [0, 9, 13, 24])
def test_any_flipped_bit_of_a_record_is_seen(tmp_path, files, byte):
    """Of the record of nine bytes behind the empty one: length, its sum, payload and its sum."""
    data = bytearray((tmp_path / "0").read_bytes())
    data[16 + byte] ^= 1
    (tmp_path / "0").write_bytes(data)
    with pytest.raises(UnlikeIndexError):
        pick(tmp_path / "out", files, [(1, 0), (0, 1)])
    pick(tmp_path / "out", files, [(1, 0), (0, 2)])


def test_a_file_that_ends_early_is_seen(tmp_path, files):
    data = (tmp_path / "1").read_bytes()
    (tmp_path / "1").write_bytes(data[:-1])
    with pytest.raises(UnlikeIndexError, match=f"ends at byte {len(data) - 1}"):
        pick(tmp_path / "out", files, [(1, 2)])


def test_records_of_two_files_are_never_one_though_their_bytes_would_follow(tmp_path):
    """The second record of each file begins where the first of the other one ends."""
    records = [[b"a" * 9, b"b" * 9], [b"c" * 9, b"d" * 9]]
    paths = [str(tmp_path / f"{number}") for number in range(2)]
    for path, group in zip(paths, records, strict=True):
        Path(path).write_bytes(frame_records(group))
    wanted = [(0, 0), (1, 1), (1, 0), (0, 1)]
    pick(tmp_path / "out", (paths, records), wanted)
    read = [*tf.compat.v1.io.tf_record_iterator(str(tmp_path / "out" / NAME.path))]
    assert read == [records[f][n] for f, n in wanted]


def test_what_was_written_is_read_back(tmp_path, files, monkeypatch):
    """A disk that keeps another byte than it was given."""

    def change(path: str) -> None:
        data = bytearray(Path(path).read_bytes())
        data[-5] ^= 1
        Path(path).write_bytes(data)

    monkeypatch.setattr("trainer_utils.writing.shards.begin_sync", change)
    with pytest.raises(CorruptShardError, match=r"00002-of-00005.*were written, read back"):
        pick(tmp_path / "out", files, [(1, 0)])
