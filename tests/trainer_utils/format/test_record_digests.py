"""Names and sums of records against the records themselves, however they were handed over."""

import dataclasses
import io

import google_crc32c
import numpy as np
import pytest

from tests.record_names import fold, masked_crc
from trainer_utils.format import (
    CorruptShardError,
    RecordIndex,
    Shard,
    ShardWriter,
    encode_example,
    frame_records,
)
from trainer_utils.format.framing import footers_of
from trainer_utils.format.record_digests import RecordDigests, name_of_features

NAMES = [b"cat/1.jpg", b"", b"caf\xc3\xa9", b"n" * 300, b"cat/1.jpg"]
FEATURES = [
    [{"filename": name, "image": b"i" * 70_000 * (size - 1), "label": n} for n, name in group]
    for group, size in [([*enumerate(NAMES)], 1), ([*enumerate(NAMES * 20)], 1), ([(0, b"x")], 3)]
]


def records_of(features) -> list[bytes]:
    return [b"".join(encode_example(each)) for each in features]


def by_parts(writer, features):
    for each in features:
        writer.write(encode_example(each))


def by_parts_with_names(writer, features):
    for each in features:
        writer.write(encode_example(each), name=name_of_features(each))


def framed(features):
    records = records_of(features)
    data = frame_records(records)
    lengths = np.array([len(record) for record in records], np.int64)
    offsets = RecordIndex(lengths).offsets
    return data, offsets, lengths, footers_of(data, offsets[1:])


def by_frames(writer, features):
    data, _, lengths, crcs = framed(features)
    writer.write_framed(data, lengths, crcs)


def by_views(writer, features):
    data, offsets, lengths, crcs = framed(features)
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    writer.write_framed([memoryview(data)[a:b] for a, b in bounds], lengths, crcs)


def by_view(writer, features):
    data, _, lengths, crcs = framed(features)
    writer.write_framed(memoryview(data), lengths, crcs)


def written(fill, *args, gzip=False) -> RecordDigests | None:
    writer = ShardWriter(io.BytesIO(), gzip=gzip, buffer_bytes=5000)
    fill(writer, *args)
    writer.finish()
    return writer.digests


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("fill", [by_parts, by_parts_with_names, by_frames, by_view, by_views])
def test_digests_are_those_of_the_records(fill, features):
    digests = written(fill, features)
    records = records_of(features)
    assert [digests.name(n) for n in range(len(records))] == [f["filename"] for f in features]
    assert digests.folds.tolist() == [fold(record) for record in records]
    assert digests.payload_crcs.tolist() == [masked_crc(record) for record in records]
    assert written(fill, features, gzip=True).to_bytes() == digests.to_bytes()


def test_numpy_reads_the_file():
    data = written(by_parts, FEATURES[0]).to_bytes()
    stream = io.BytesIO(data)
    folds, crcs, lengths, names = (np.load(stream) for _ in range(4))
    assert not stream.read()
    assert [a.dtype.str for a in (folds, crcs, lengths, names)] == ["<u8", "<u4", "<u2", "|u1"]
    assert lengths.tolist() == [len(name) for name in NAMES]
    assert names.tobytes() == b"".join(NAMES)


@pytest.mark.parametrize(
    "nameless",
    [
        b"no example",
        b"",
        b"".join(encode_example({"label": 3, "filename": 7})),
        b"".join(encode_example({"id": b"n" * 4097})),
    ],
)
def test_one_record_without_a_name_leaves_none(nameless):
    def fill(writer):
        by_parts(writer, FEATURES[0])
        writer.write([nameless])
        by_frames(writer, FEATURES[1])

    assert written(fill) is None


def test_a_name_may_be_as_long_as_a_path():
    features = [{"id": b"n" * 4096}]
    assert written(by_parts, features).name(0) == features[0]["id"]


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"id": b"a"}, b"a"),
        ({"id": b"a", "filename": b"b"}, b"b"),
        ({"id": b"a", "filename": b"b", "record_id": (b"c", b"d")}, b"c"),
        ({"id": b"a", "filename": [], "record_id": 3}, b"a"),
        ({"id": 1.5, "image": b"a"}, None),
        ({"id": b""}, b""),
    ],
)
def test_the_first_text_that_names_a_record_counts(features, name):
    assert name_of_features(features) == name
    digests = written(by_parts, [features])
    assert (None if digests is None else digests.name(0)) == name


def test_damage_of_any_byte_is_found():
    digests = written(by_parts, FEATURES[0])
    data = digests.to_bytes()
    crc = google_crc32c.value(data)
    sums = {"names_bytes": len(data), "names_crc32c": crc}
    shard = Shard(path="x", split="train", records=5, bytes=0, crc32c=0)
    shard = dataclasses.replace(shard, path="Split-train/data_tfrecord-00000-of-00001", **sums)
    again = RecordDigests.from_bytes(data, path="x", shard=shard)
    assert again.to_bytes() == data
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 64
        with pytest.raises(CorruptShardError, match="'x': expected"):
            RecordDigests.from_bytes(bytes(damaged), path="x", shard=shard)
    for records in (4, 6):
        other = dataclasses.replace(shard, records=records)
        with pytest.raises(CorruptShardError, match=f"'x': expected.*of {records} records"):
            RecordDigests.from_bytes(data, path="x", shard=other)
    for other in (data[:-1], data + b"x", b""):
        with pytest.raises(CorruptShardError, match="'x': expected"):
            RecordDigests.from_bytes(other, path="x", shard=shard)
        with pytest.raises(CorruptShardError, match="'x': expected"):
            RecordDigests.from_bytes(other, path="x")


def test_files_of_no_such_form_are_refused():
    digests = written(by_parts, FEATURES[0])
    names = digests.names
    for other in (
        dataclasses.replace(digests, folds=digests.folds[1:]),
        dataclasses.replace(digests, payload_crcs=digests.payload_crcs[1:]),
        dataclasses.replace(digests, names=names._replace(data=names.data[1:])),
        dataclasses.replace(digests, names=names._replace(lengths=names.lengths[1:])),
    ):
        with pytest.raises(CorruptShardError, match="names and sums of records, of"):
            RecordDigests.from_bytes(other.to_bytes(), path="x")


@pytest.mark.parametrize(
    "wanted",
    [
        *([name] for name in {*NAMES, b"cat/2.jpg", b"dog/1.jpg", b"at/1.jpg", b"n"}),
        [],
        [b"cat/1.jpg", b"cat/2.jpg", b"n" * 300],
        [b"", b"n" * 299, b"caf\xc3\xa9"],
        [b"%d" % number for number in range(1000)],
    ],
)
def test_records_are_found_by_their_names(wanted):
    names = [*NAMES, b"1", b"17", b"m" + b"n" * 299, b"cat/1.jpg\0"]
    digests = written(by_parts, [{"filename": name} for name in names])
    truth = [number for number, name in enumerate(names) if name in wanted]
    assert digests.numbers_of(wanted) == truth
