"""Small digests of all records of a dataset, spread over files by name, so that memory is bounded.

    spill_digests(reader, ["train", "eval"], folder, buckets=64, advance=bar.update)
    read_digests(folder, 17)         # of the records whose names fall into that bucket

A record's digest is the hash of its name, its length and CRC-32C as its frame has them, and its
place: 34 bytes. Where records have no names, the sum of their values stands for both. Records of
one name are in one bucket, whatever dataset they are of.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tools.diff.names import checksums_of, find_names
from pipelines.tools.records import NAME_FEATURES, ExampleReader, Glance
from trainer_utils.dataset import ShardFile
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES

__all__ = ["Digests", "content_at", "read_digests", "spill_digests"]

_DIGEST = np.dtype([("name", "V16"), ("content", "<u8"), ("split", "<u2"), ("number", "<i8")])
_AT_ONCE, _WRITTEN_AT_ONCE = 1 << 15, 1 << 18  # records

Digests = npt.NDArray[np.void]


def spill_digests(
    reader: ExampleReader,
    splits: Sequence[str],
    folder: str,
    buckets: int,
    *,
    is_left_out: Callable[[ShardFile, str], bool] = lambda shard, split: False,
    advance: Callable[[int], None],
) -> None:
    """Writes the digests of all records to `buckets` files in a folder, which is made.

    Args:
        reader: of the dataset.
        splits: all that any of the datasets has; a digest holds the place in it.
        folder: for the files; file `n` holds the names whose hash says so.
        buckets: how many files.
        is_left_out: of a shard and its split: whether its records need no digests.
        advance: called now and then with the records that were read since.

    Raises:
        DatasetError: a record is no `tf.train.Example`.
    """
    os.makedirs(folder)
    waiting: list[Digests] = []
    for split in reader.splits:
        names = NAME_FEATURES if _has_names(reader, split) else None
        for first, shard in reader.shards(split):
            if is_left_out(shard, split):
                continue
            for digests in _digests_of(reader, shard, names, first=first):
                digests["split"] = splits.index(split)
                waiting.append(digests)
                advance(len(digests))
                if sum(map(len, waiting)) >= _WRITTEN_AT_ONCE:
                    _write(waiting, folder, buckets)
                    waiting = []
    _write(waiting, folder, buckets)


def _digests_of(
    reader: ExampleReader, shard: ShardFile, names: Sequence[str] | None, *, first: int
) -> Iterator[Digests]:
    """The digests of a shard's records, some at a time, the split left open.

    Args:
        reader: of the dataset.
        shard: one of its files.
        names: of the features that name records; None: none does.
        first: the number of its first record.
    """
    with reader.view(shard) as (view, offsets):
        for begin in range(0, len(offsets) - 1, _AT_ONCE):
            part = offsets[begin : begin + _AT_ONCE + 1]
            digests = np.zeros(len(part) - 1, _DIGEST)
            digests["number"] = np.arange(first + begin, first + begin + len(digests))
            left: Sequence[int] = range(len(digests))
            if names is not None:
                left = _set_named(digests, view, part, names)
            for number in left:
                payload = view[part[number] + HEADER_BYTES : part[number + 1] - FOOTER_BYTES]
                crc = view[part[number + 1] - FOOTER_BYTES : part[number + 1]]
                checksum = len(payload) << 32 | int.from_bytes(crc, "little")
                glance = Glance(first + begin + number, checksum, decode_example(payload, names))
                name = _name_of(glance)
                content = checksum if name is not None else _content_of(glance)
                key = name if name is not None else content.to_bytes(8, "little")
                digests[number]["name"] = _hash(key, b"content" if name is None else b"name")
                digests[number]["content"] = content
            yield digests


def _set_named(
    digests: Digests, view: memoryview, offsets: npt.NDArray[np.int64], names: Sequence[str]
) -> list[int]:
    """Sets the digests of records whose names are found at once; returns the others' numbers."""
    data = np.frombuffer(view, np.uint8)
    places = find_names(data, offsets, names)
    hashes = [
        _hash(view[begin:end], b"name")
        for begin, end in zip(places.begins.tolist(), places.ends.tolist(), strict=True)
    ]
    digests["name"] = np.frombuffer(b"".join(hashes), "V16")
    digests["content"] = checksums_of(data, offsets)
    left: list[int] = np.flatnonzero(~places.is_found).tolist()
    return left


def _hash(key: bytes | memoryview, purpose: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16, person=purpose).digest()


def _has_names(reader: ExampleReader, split: str) -> bool:
    """Whether the first record of a split says where it is from."""
    first = next(iter(reader.scan(split, NAME_FEATURES)), None)
    return first is None or _name_of(first) is not None


def _name_of(glance: Glance) -> bytes | None:
    for feature in NAME_FEATURES:
        values = glance.values.get(feature)
        if values and isinstance(values[0], memoryview):
            return bytes(values[0])
    return None


def content_at(reader: ExampleReader, split: str, number: int) -> int:
    """A sum of all values of one record, in whatever order it has its features."""
    return _content_of(next(iter(reader.scan(split, None, start=number))))


def _content_of(glance: Glance) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for feature, values in sorted(glance.values.items()):
        for part in (feature.encode(), *map(_as_bytes, values)):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return int.from_bytes(digest.digest(), "little")


def _as_bytes(value: Any) -> bytes | memoryview:
    return value if isinstance(value, memoryview) else repr(value).encode()


def _write(digests: Sequence[Digests], folder: str, buckets: int) -> None:
    records = np.concatenate([np.zeros(0, _DIGEST), *digests])
    # The first two bytes of a hash are as random as any.
    heads = np.frombuffer(records["name"].tobytes(), "<u2")[:: 16 // 2]
    for bucket in range(buckets):
        with open(_bucket_file(folder, bucket), "ab") as stream:
            stream.write(records[heads % buckets == bucket].tobytes())


def _bucket_file(folder: str, bucket: int) -> str:
    """Where the digests of a bucket are."""
    return os.path.join(folder, f"{bucket:05d}")


def read_digests(folder: str, bucket: int) -> Digests:
    """The digests of a bucket, in the order of the dataset."""
    return np.fromfile(_bucket_file(folder, bucket), _DIGEST)
