"""Damaged shards: an error that names the place, never fewer records."""

import collections
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.trainer_utils.frameworks.test_tensorflow import IDS, batches, flat, ids
from trainer_utils import CorruptShardError, input_fn, iterate
from trainer_utils.format.checksums import seal

DAMAGED = tf.errors.OpError
HEADER_BYTES, FOOTER_BYTES = 12, 4  # of a TFRecord: length and its sum, and the payload's sum


# --- Damage ---


@pytest.fixture
def fragile(tmp_path, write_dataset) -> Callable[..., Path]:
    """A fresh dataset of three shards of 10 records."""

    def write(*, gzip: bool = False) -> Path:
        shards = [ids(start, start + 10) for start in (0, 10, 20)]
        write_dataset(tmp_path / "fragile", {"train": shards}, IDS, gzip=gzip)
        return tmp_path / "fragile"

    return write


READS = pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"shuffle": True},
        {"shuffle": True, "repeat": True},
        {"shuffle": False, "remainder": "drop", "batch_size": 7},
        {"shuffle": False, "batch_size": None},
    ],
    ids=["in order", "shuffled", "without end", "full batches", "single"],
)


def drain(uri: Path, **options: Any) -> None:
    """Reads an epoch, or of an endless dataset the records of ten."""
    dataset = input_fn(str(uri), **options).take(300)
    collections.deque(dataset.as_numpy_iterator(), maxlen=0)


def middle_shard(uri: Path) -> Path:
    return sorted((uri / "Split-train").iterdir())[1]


def frame_starts(data: bytes | bytearray) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        length = int.from_bytes(data[position : position + 8], "little")
        position += HEADER_BYTES + length + FOOTER_BYTES
    return starts


@READS
@pytest.mark.parametrize("leaves", [Path.exists, Path.mkdir, os.mkfifo, Path.touch])
def test_a_shard_that_goes_after_the_dataset_was_opened_is_named(fragile, options, leaves):
    """Of an error of the system TensorFlow makes an UnknownError, and no sentence."""
    uri = fragile()
    dataset = input_fn(str(uri), **options).take(300)
    path = middle_shard(uri)
    path.unlink()
    leaves(path)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"00001-of-00003': (expected|cannot be read)"
    ):
        collections.deque(dataset.as_numpy_iterator(), maxlen=0)


@pytest.mark.parametrize("place", [0, 7, 8, HEADER_BYTES, HEADER_BYTES + 9, -FOOTER_BYTES, -1])
@pytest.mark.parametrize("record", [0, 4, 9])
def test_a_flipped_bit_anywhere_ends_the_epoch_at_its_record(fragile, record, place):
    uri = fragile()
    data = bytearray(middle_shard(uri).read_bytes())
    starts = [*frame_starts(data), len(data)]
    data[starts[record] + place if place >= 0 else starts[record + 1] + place] ^= 16
    middle_shard(uri).write_bytes(data)
    where = rf"00001-of-00003': expected .*\(record {record}, byte {starts[record]}\)"
    with pytest.raises(tf.errors.OpError, match=where):
        drain(uri, shuffle=False)


@READS
def test_a_flipped_bit_is_an_error_however_records_are_read(fragile, options):
    uri = fragile()
    data = bytearray(middle_shard(uri).read_bytes())
    data[frame_starts(data)[4] + HEADER_BYTES + 3] ^= 1
    middle_shard(uri).write_bytes(data)
    with pytest.raises(tf.errors.OpError, match=r"00001-of-00003': .*record 4, byte"):
        drain(uri, **options)


@pytest.mark.parametrize("echoing", [1, 2])
def test_what_was_damaged_is_read_when_it_is_whole_again(fragile, echoing):
    uri = fragile()
    settings = {"features": "id", "batch_size": 5, "shuffle": False, "echoing": echoing}
    dataset, shard = iterate(str(uri), **settings), middle_shard(uri)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptShardError):
        list(dataset)
    shard.write_bytes(whole)
    assert sum(map(len, dataset)) == 30 * echoing


def test_no_flipped_byte_of_a_gzip_shard_changes_what_is_read(fragile):
    """Either an error comes, or all records do: bytes of the gzip header carry no data."""
    uri = fragile(gzip=True)
    path = middle_shard(uri)
    data = path.read_bytes()
    outcomes: list[bool | None] = []
    for place in random.Random(0).sample(range(len(data)), 25):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        try:
            outcomes.append(flat(batches(str(uri), shuffle=False)) == list(range(30)))
        except tf.errors.OpError:
            outcomes.append(None)
    assert False not in outcomes
    assert None in outcomes


@READS
@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("keep", [0.5, 0.96, 1.0], ids=["half", "most", "but one record"])
def test_a_shard_cut_short_and_filled_up_is_an_error(fragile, options, gzip, keep):
    """Its size is that of the manifest, so that opening the dataset cannot tell."""
    uri = fragile(gzip=gzip)
    path = middle_shard(uri)
    data = path.read_bytes()
    whole = frame_starts(data)[-1] if keep == 1 and not gzip else int(len(data) * min(keep, 0.98))
    path.write_bytes(data[:whole].ljust(len(data), b"\0"))
    with pytest.raises(tf.errors.OpError):
        drain(uri, **options)


@READS
@pytest.mark.parametrize(
    "records",
    [[10, 11, 10], [10, 9, 10], [11, 9, 10], [9, 11, 10]],
    ids=["one less", "one more", "one less, one more", "one more, one less"],
)
def test_a_shard_of_other_records_than_the_manifest_says_is_an_error(fragile, options, records):
    uri = fragile()
    manifest = json.loads((uri / "manifest.json").read_text())
    for shard, said in zip(manifest["shards"], records, strict=True):
        shard["records"] = said
    (uri / "manifest.json").write_text(seal(json.dumps(manifest, indent=2)))
    with pytest.raises(DAMAGED):
        drain(uri, **options)


def test_datums_shards_with_fewer_records_than_datum_says_are_an_error(photos, export_with_datum):
    rows = [{"image": photo, "id": number} for number, photo in enumerate(photos[:5])]
    uri = export_with_datum({"train": rows})
    (path,) = Path(uri).glob("*.tfrecord")
    data = path.read_bytes()
    path.write_bytes(data[: frame_starts(data)[-1]])
    for batch_size in (2, None):
        with pytest.raises(DAMAGED):
            drain(Path(uri), batch_size=batch_size)


def test_each_pipeline_finds_the_damage_in_its_share(fragile):
    uri = fragile()
    manifest = json.loads((uri / "manifest.json").read_text())
    manifest["shards"][2]["records"] = 12
    (uri / "manifest.json").write_text(seal(json.dumps(manifest, indent=2)))
    contexts = [tf.distribute.InputContext(2, index, 2) for index in range(2)]
    assert len(flat(batches(str(uri), batch_size=2, input_context=contexts[0]))) == 16
    with pytest.raises(DAMAGED):
        batches(str(uri), batch_size=2, input_context=contexts[1])
