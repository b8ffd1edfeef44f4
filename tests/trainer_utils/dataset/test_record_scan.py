"""Files of TFRecords without an index: they are scanned once, and features come from a sample."""

import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import trainer_utils
from tests.make import frame_records, run_python, write_records
from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.dataset import open_dataset, opening, record_scan
from trainer_utils.format import Feature, encode_example
from trainer_utils.format.tfrecord import scan_lengths_at, scan_until_damage

LONG = 100_000  # bytes of a payload
COUNT = 3000


def bytes_read() -> int:
    """Return the bytes that this process has read, as the kernel counts them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def serialized(features: dict[str, object]) -> bytes:
    return b"".join(encode_example(features))


def examples(count: int) -> list[bytes]:
    return [serialized({"id": [n], "text": [b"x" * 400]}) for n in range(count)]


@pytest.fixture
def sampled(monkeypatch, tmp_path) -> Iterator[None]:
    """Treat every dataset as a large one, with an empty cache folder."""
    monkeypatch.setattr(opening, "WHOLE_BYTES", 0)
    monkeypatch.setattr(record_scan, "MIN_KEPT_BYTES", 0)
    monkeypatch.setattr(opening, "_inspections", {})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield
    monkeypatch.undo()


@pytest.fixture
def bare(tmp_path) -> Path:
    """Write 3,000 examples of 1.3 MB to two files."""
    folder = tmp_path / "bare"
    folder.mkdir()
    records = examples(COUNT)
    write_records(folder / "train-00000-of-00002.tfrecord", records[:1000])
    write_records(folder / "train-00001-of-00002.tfrecord", records[1000:])
    return folder


def forget() -> None:
    """Forget what this process knows of datasets, as a new process does."""
    opening._inspections.clear()


def test_all_records_are_counted_and_read(bare, sampled):
    dataset = open_dataset(str(bare))
    assert dataset.records == {"train": COUNT}
    assert dataset.features == {"id": Feature(type="int"), "text": Feature(type="string")}
    assert 2800 < dataset.sampled < COUNT
    batches = trainer_utils.iterate(str(bare), batch_size=100, shuffle="global")
    assert sorted(np.concatenate([batch["id"] for batch in batches])) == [*range(COUNT)]


def test_second_process_does_not_scan(bare, tmp_path):
    code = """
import pathlib, sys
import trainer_utils
from trainer_utils.dataset import opening
opening.WHOLE_BYTES = 0
def first_batch(path):
    next(iter(trainer_utils.iterate(path, batch_size=10, shuffle=False)))
    return int(pathlib.Path("/proc/self/io").read_text().split()[1])
before = first_batch(sys.argv[1])  # this has imported all modules
print(first_batch(sys.argv[2]) - before)
"""
    large = tmp_path / "large"
    write_records(large / "train.tfrecord", examples(40_000))
    size = (large / "train.tfrecord").stat().st_size
    arguments, environment = (str(bare), str(large)), {"TMPDIR": str(tmp_path)}
    counts = [int(run_python(code, *arguments, **environment).stdout) for _ in range(2)]
    assert counts[0] >= size > 16 << 20
    assert counts[1] < 5 << 20  # the records of the first batches, in blocks


def test_changed_file_is_scanned_again(bare, sampled):
    open_dataset(str(bare))
    write_records(bare / "train-00000-of-00002.tfrecord", examples(7))
    assert open_dataset(str(bare)).records == {"train": 2007}


def test_damaged_offsets_are_found_again(bare, sampled, tmp_path):
    open_dataset(str(bare))
    kept = [*tmp_path.glob("tfx-shards-*/offsets/*.kept")]
    kept = [file for file in kept if file.read_bytes().startswith(b"\x93NUMPY")]
    assert len(kept) == 2
    for file in kept:
        data = bytearray(file.read_bytes())
        data[200:1000] = bytes(800)
        file.write_bytes(data)
    forget()
    batches = trainer_utils.iterate(str(bare), batch_size=100, shuffle=False)
    assert np.concatenate([batch["id"] for batch in batches]).tolist() == [*range(COUNT)]


def test_only_headers_of_long_records_are_read(tmp_path, sampled):
    path = tmp_path / "long.tfrecord"
    record = serialized({"text": [b"x" * LONG]})
    write_records(path, [record] * 400)
    (shard,) = open_dataset(str(path)).shard_files
    before = bytes_read()
    assert len(record_scan.scan_shard(shard)) == 400
    assert bytes_read() - before < 10 << 20 < shard.bytes // 3


@pytest.mark.parametrize("seed", range(20))
def test_scan_at_offsets_finds_the_same_as_a_stream(seed):
    random = np.random.default_rng(seed)
    sizes = random.choice([0, 10, 500, 70_000, 300_000], size=200, p=random.dirichlet([1] * 5))
    data = frame_records([bytes(int(size)) for size in sizes])
    scanned = scan_lengths_at(lambda a, b: data[a:b], len(data), path="x")
    assert scanned.tolist() == sizes.tolist()


@pytest.mark.parametrize("size", [0, 10, 100_000, 9 << 20])
@pytest.mark.parametrize("change", ["cut", "flip"])
def test_scan_at_offsets_raises_the_errors_of_a_stream(size, change):
    data = bytearray(frame_records([bytes(size)] * 3))
    last = len(data) // 3 * 2
    if change == "cut":
        del data[last + 14 :]
    else:
        data[last + 1] ^= 1
    _, expected = scan_until_damage(io.BytesIO(data), path="x")
    with pytest.raises(CorruptShardError) as caught:
        scan_lengths_at(lambda a, b: bytes(data[a:b]), len(data), path="x")
    assert str(caught.value) == str(expected)


def write_with_one_other(tmp_path: Path, other: dict[str, object]) -> str:
    """Write 20,000 examples. One that the sample lacks is different."""
    records = [serialized({"id": [n], "score": [0.5]}) for n in range(20_000)]
    records[77] = serialized({"id": [77], "score": [0.5], **other})
    write_records(tmp_path / "train.tfrecord", records)
    return str(tmp_path / "train.tfrecord")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"extra": [b"x"]}, "feature 'extra': expected one of id, score as the dataset says"),
        ({"score": [0.5, 1.5]}, "expected feature 'score' of 1 values as the dataset says, got 2"),
        ({"score": [3]}, "feature 'score': expected float in all examples, got int"),
    ],
)
def test_record_unlike_the_sample_raises_with_its_place(tmp_path, sampled, other, said):
    uri = write_with_one_other(tmp_path, other)
    assert open_dataset(uri).sampled == 4096
    batches = iter(trainer_utils.iterate(uri, batch_size=100, shuffle=False))
    with pytest.raises(DatasetError) as caught:
        next(batches)
    assert said in str(caught.value)
    assert (caught.value.path, caught.value.record) == (uri, 77)
    if "got int" not in said:
        assert "inferred from 4,096 of its records" in str(caught.value)
        assert f"tfx-shards balance {tmp_path} OUT" in str(caught.value)


def test_named_features_are_read_past_unknown_ones(tmp_path, sampled):
    uri = write_with_one_other(tmp_path, {"extra": [b"x"]})
    batches = iter(trainer_utils.iterate(uri, features=["id"], batch_size=100, shuffle=False))
    assert next(batches)["id"].tolist() == [*range(100)]


def test_empty_unknown_features_are_no_error(tmp_path, sampled):
    uri = write_with_one_other(tmp_path, {"extra": []})
    batches = iter(trainer_utils.iterate(uri, batch_size=100, shuffle=False))
    assert next(batches)["id"].tolist() == [*range(100)]


def test_colour_image_among_grey_ones_raises(tmp_path, sampled):
    def png(mode: str) -> bytes:
        stream = io.BytesIO()
        Image.new(mode, (4, 4)).save(stream, "PNG")
        return stream.getvalue()

    records = [serialized({"image": [png("L")]})] * 20_000
    records[77] = serialized({"image": [png("RGB")]})
    write_records(tmp_path / "train.tfrecord", records)
    batches = iter(
        trainer_utils.iterate(str(tmp_path / "train.tfrecord"), batch_size=100, shuffle=False)
    )
    with pytest.raises(DatasetError, match=r"grey images as the dataset says, got 3 channels"):
        next(batches)


def test_feature_lists_outside_of_the_sample_raise(tmp_path, sampled):
    records = [serialized({"id": [n]}) for n in range(20_000)]
    steps = tf.train.FeatureList(feature=[tf.train.Feature()])
    steps.feature[0].int64_list.value.append(1)
    sequence = tf.train.SequenceExample(
        context=tf.train.Example.FromString(records[77]).features,
        feature_lists=tf.train.FeatureLists(feature_list={"steps": steps}),
    )
    records[77] = sequence.SerializeToString()
    write_records(tmp_path / "train.tfrecord", records)
    batches = iter(
        trainer_utils.iterate(str(tmp_path / "train.tfrecord"), batch_size=100, shuffle=False)
    )
    with pytest.raises(DatasetError, match="no feature lists, such as 'steps'"):
        next(batches)


def test_gzip_shards_are_sampled_at_their_begin(tmp_path, sampled):
    path = tmp_path / "train.tfrecord.gz"
    write_records(path, examples(COUNT), "GZIP")
    dataset = open_dataset(str(path))
    assert dataset.records == {"train": COUNT}
    assert dataset.sampled == 256
    batches = trainer_utils.iterate(str(path), batch_size=100, shuffle=False)
    assert np.concatenate([batch["id"] for batch in batches]).tolist() == [*range(COUNT)]


def test_long_scans_are_logged_with_the_cure(bare, sampled, monkeypatch, caplog):
    monkeypatch.setattr(record_scan, "_MIN_REPORTED_BYTES", 1)
    monkeypatch.setattr(record_scan, "_REPORT_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        open_dataset(str(bare))
    first, *others = caplog.messages
    assert f"tfx-shards balance {bare} OUT" in first
    assert "scanned for their offsets" in first
    assert all("GB scanned in" in message for message in others)
    assert len(others) == 2
    caplog.clear()
    forget()
    open_dataset(str(bare))
    assert not caplog.messages


def test_folder_that_cannot_be_used_is_logged(bare, sampled, tmp_path, caplog):
    folder = tmp_path / f"tfx-shards-{os.getuid()}"
    folder.write_text("no folder")
    assert open_dataset(str(bare)).records == {"train": COUNT}
    assert any("cannot be kept for the next time" in message for message in caplog.messages)
