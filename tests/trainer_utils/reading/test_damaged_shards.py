"""Damaged shards: an error that names the place, never fewer records."""

import collections
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.trainer_utils.frameworks.test_tensorflow import IDS, ids
from trainer_utils import CorruptShardError, input_fn, iterate
from trainer_utils.format.sealing import seal

HEADER_BYTES, FOOTER_BYTES = 12, 4  # of a TFRecord: length and its CRC, and the payload's CRC


@pytest.fixture
def fragile(tmp_path, write_dataset) -> Callable[..., Path]:
    """Return a function that writes a dataset of three shards of 10 records."""

    def write(*, gzip: bool = False) -> Path:
        shards = [ids(start, start + 10) for start in (0, 10, 20)]
        write_dataset(tmp_path / "fragile", {"train": shards}, IDS, gzip=gzip)
        return tmp_path / "fragile"

    return write


WAYS = [
    {"shuffle": False},
    {"shuffle": True, "repeat": True},
    {"shuffle": "global"},
    {"shuffle": False, "batch_size": None},
]
EACH_WAY = pytest.mark.parametrize("options", WAYS, ids=["in order", "endless", "picked", "single"])


def drain(uri: Path, **options: Any) -> None:
    """Read an epoch, or ten records of an endless dataset."""
    collections.deque(itertools.islice(iterate(str(uri), **options), 300), maxlen=0)


def middle_shard(uri: Path) -> Path:
    return sorted((uri / "Split-train").iterdir())[1]


def frame_starts(data: bytes | bytearray) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        length = int.from_bytes(data[position : position + 8], "little")
        position += HEADER_BYTES + length + FOOTER_BYTES
    return starts


@pytest.mark.parametrize("leaves", [Path.exists, Path.mkdir, os.mkfifo, Path.touch])
def test_a_shard_removed_after_opening_is_named(fragile, leaves):
    """Accept that TensorFlow turns a system error into an UnknownError without a message."""
    uri = fragile()
    dataset = input_fn(str(uri))
    path = middle_shard(uri)
    path.unlink()
    leaves(path)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"00001-of-00003': (expected|cannot be read)"
    ):
        collections.deque(dataset.as_numpy_iterator(), maxlen=0)


@EACH_WAY
def test_a_flipped_bit_anywhere_ends_the_epoch_at_its_record(fragile, options, subtests):
    uri = fragile()
    path = middle_shard(uri)
    good = path.read_bytes()
    starts = [*frame_starts(good), len(good)]
    places = (0, 7, 8, HEADER_BYTES, HEADER_BYTES + 9, -FOOTER_BYTES, -1)
    for record, place in itertools.product((0, 4, 9), places):
        with subtests.test(record=record):
            data = bytearray(good)
            data[starts[record] + place if place >= 0 else starts[record + 1] + place] ^= 16
            path.write_bytes(data)
            with pytest.raises(CorruptShardError) as caught:
                drain(uri, **options)
            assert caught.value.path == str(path)
            assert (caught.value.record, caught.value.offset) == (record, starts[record])


@pytest.mark.parametrize("echoing", [1, 2])
def test_a_restored_shard_is_read_again(fragile, echoing):
    uri = fragile()
    settings = {"features": "id", "batch_size": 5, "shuffle": False, "echoing": echoing}
    dataset, shard = iterate(str(uri), **settings), middle_shard(uri)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptShardError):
        list(dataset)
    shard.write_bytes(whole)
    assert sum(map(len, dataset)) == 30 * echoing


@EACH_WAY
@pytest.mark.parametrize("gzip", [False, True])
def test_a_shard_cut_short_and_filled_up_is_an_error(fragile, options, gzip, subtests):
    """Keep the manifest's size, so that opening the dataset cannot detect the damage."""
    if gzip and options["shuffle"] == "global":
        return  # an invalid combination
    uri = fragile(gzip=gzip)
    path = middle_shard(uri)
    data = path.read_bytes()
    last = int(len(data) * 0.98) if gzip else frame_starts(data)[-1]
    for whole in (len(data) // 2, int(len(data) * 0.96), last):
        with subtests.test(whole=whole):
            path.write_bytes(data[:whole].ljust(len(data), b"\0"))
            with pytest.raises(CorruptShardError):
                drain(uri, **options)


@EACH_WAY
def test_a_shard_with_other_records_than_its_manifest_raises(fragile, options, subtests):
    uri = fragile()
    manifest = json.loads((uri / "manifest.json").read_text())
    for records in ([10, 11, 10], [10, 9, 10], [11, 9, 10], [9, 11, 10]):
        with subtests.test(records=records):
            for shard, said in zip(manifest["shards"], records, strict=True):
                shard["records"] = said
            (uri / "manifest.json").write_text(seal(json.dumps(manifest, indent=2)))
            with pytest.raises(CorruptShardError):
                drain(uri, **options)


def test_datum_shards_with_missing_records_raise(photos, export_with_datum, subtests):
    rows = [{"image": photo, "id": number} for number, photo in enumerate(photos[:5])]
    uri = export_with_datum({"train": rows})
    (path,) = Path(uri).glob("*.tfrecord")
    data = path.read_bytes()
    path.write_bytes(data[: frame_starts(data)[-1]])
    for batch_size in (2, None):
        with subtests.test(batch_size=batch_size), pytest.raises(CorruptShardError):
            drain(Path(uri), batch_size=batch_size)
