"""Small digests of all records of a dataset, spread over files by name, so that memory is bounded.

    spill_digests(reader, ["train", "eval"], folder, buckets=64, advance=bar.update)
    read_digests(folder, 17)         # of the records whose names fall into that bucket

A record's digest is the hash of its name, its length and CRC-32C as its frame has them, and its
place: 34 bytes. Where records have no names, the sum of their values stands for both. Records of
one name are in one bucket, whatever dataset they are of.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tools.records import NAME_FEATURES, ExampleReader, Glance

__all__ = ["Digests", "content_at", "read_digests", "spill_digests"]

_DIGEST = np.dtype([("name", "V16"), ("content", "<u8"), ("split", "<u2"), ("number", "<i8")])
_AT_ONCE = 1 << 18  # records, before they are written
_REPORTED_RECORDS = 1 << 10

Digests = npt.NDArray[np.void]


def spill_digests(
    reader: ExampleReader,
    splits: Sequence[str],
    folder: str,
    buckets: int,
    *,
    advance: Callable[[int], None],
) -> None:
    """Writes the digests of all records to `buckets` files in a folder, which is made.

    Args:
        reader: of the dataset.
        splits: all that any of the datasets has; a digest holds the place in it.
        folder: for the files; file `n` holds the names whose hash says so.
        buckets: how many files.
        advance: called now and then with the records that were read since.

    Raises:
        DatasetError: a record is no `tf.train.Example`.
    """
    os.makedirs(folder)
    waiting: list[tuple[object, ...]] = []
    for split in reader.splits:
        place = splits.index(split)
        names = NAME_FEATURES if _has_names(reader, split) else None
        for glance in reader.scan(split, names):
            name = _name_of(glance)
            content = glance.checksum if name is not None else _content_of(glance)
            key = name if name is not None else content.to_bytes(8, "little")
            digest = hashlib.blake2b(key, digest_size=16, person=b"name" if name else b"content")
            waiting.append((digest.digest(), content, place, glance.number))
            if len(waiting) % _REPORTED_RECORDS == 0:
                advance(_REPORTED_RECORDS)
            if len(waiting) == _AT_ONCE:
                _write(waiting, folder, buckets)
                waiting = []
    _write(waiting, folder, buckets)


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


def _write(digests: list[tuple[object, ...]], folder: str, buckets: int) -> None:
    records = np.array(digests, _DIGEST)
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
