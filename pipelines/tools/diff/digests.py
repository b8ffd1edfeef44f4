"""Small digests of all records of a dataset, spread over files by name, so that memory is bounded.

    spill_digests(reader, ["train", "eval"], folder, buckets=64, advance=bar.update)
    read_digests(folder, 17)         # of the records whose names fall into that bucket

A record's digest is the hash of its name, the fold of its bytes, its CRC-32C, and its place: 38
bytes. Names and sums are taken from `index/` where the dataset has them there, and from its records
elsewhere. Where records have no names, the sum of their values stands for both. Records of one name
are in one bucket, whatever dataset they are of.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tools.diff.name_hashes import hash_names
from pipelines.tools.records import ExampleReader
from trainer_utils.dataset import ShardFile
from trainer_utils.dataset.record_digests import read_record_digests
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.folding import fold_frames
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES, footers_of
from trainer_utils.format.name_places import find_names
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.record_digests import RecordDigests, name_of_features

__all__ = ["Digests", "content_at", "feature_sums", "read_digests", "spill_digests"]

_DIGEST = np.dtype(
    [("name", "V16"), ("fold", "<u8"), ("crc", "<u4"), ("split", "<u2"), ("number", "<i8")]
)
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
    known = None if names is None else read_record_digests(shard)
    if known is not None:
        yield from _known_digests(known, first)
        return
    with reader.view(shard) as (view, offsets):
        for begin in range(0, len(offsets) - 1, _AT_ONCE):
            part = offsets[begin : begin + _AT_ONCE + 1]
            digests = _numbered(first + begin, len(part) - 1)
            left: Sequence[int] = range(len(digests))
            if names is not None:
                left = _set_named(digests, view, part, names)
            for number in left:
                payload = view[part[number] + HEADER_BYTES : part[number + 1] - FOOTER_BYTES]
                found = {} if names is None else decode_example(payload, names)
                name = name_of_features(found)
                if name is not None:
                    digests[number]["name"] = _hash(name)
                else:
                    content = _content_of(decode_example(payload))
                    digests[number]["name"] = _content_key(content)
                    digests[number]["fold"], digests[number]["crc"] = content, 0
            yield digests


def _numbered(first: int, count: int) -> Digests:
    digests = np.zeros(count, _DIGEST)
    digests["number"] = np.arange(first, first + count)
    return digests


def _known_digests(known: RecordDigests, first: int) -> Iterator[Digests]:
    """As the dataset's index has them."""
    for begin in range(0, len(known), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        bounds = known.name_bounds[begin : begin + _AT_ONCE + 1]
        digests = _numbered(first + begin, len(bounds) - 1)
        digests["name"] = hash_names(known.names.data, bounds[:-1], bounds[1:])
        digests["fold"], digests["crc"] = known.folds[part], known.payload_crcs[part]
        yield digests


def _set_named(
    digests: Digests, view: memoryview, offsets: npt.NDArray[np.int64], names: Sequence[str]
) -> list[int]:
    """Sets the digests of records whose names are found at once; returns the others' numbers."""
    data = np.frombuffer(view, np.uint8)
    places = find_names(data, offsets, names)
    digests["name"] = hash_names(view, places.begins, places.ends)
    digests["fold"] = fold_frames(data, offsets[:-1] + HEADER_BYTES, offsets[1:] - FOOTER_BYTES)
    digests["crc"] = footers_of(view, offsets[1:])
    left: list[int] = np.flatnonzero(~places.is_found).tolist()
    return left


def _hash(name: bytes) -> Any:
    return hash_names(name, np.zeros(1, np.int64), np.array([len(name)]))[0]


def _content_key(content: int) -> Any:
    """What stands for the name of a record that has none."""
    digest = hashlib.blake2b(content.to_bytes(8, "little"), digest_size=16, person=b"content")
    return np.frombuffer(digest.digest(), "V16")[0]


def _has_names(reader: ExampleReader, split: str) -> bool:
    """Whether the first record of a split says where it is from."""
    for first, shard in reader.shards(split):
        known = read_record_digests(shard)
        if known is not None and len(known):
            return True
        found = next(reader.scan_shard(shard, NAME_FEATURES, first=first), None)
        if found is not None:
            return name_of_features(found.values) is not None
    return True


def content_at(reader: ExampleReader, split: str, number: int) -> int:
    """A sum of all values of one record, in whatever order it has its features."""
    ((_, _, record),) = reader.payloads(split, [number])
    return _content_of(decode_example(record))


def _content_of(values: Mapping[str, Sequence[Any]]) -> int:
    parts = (
        part
        for feature, found in sorted(values.items())
        for part in (feature.encode(), *map(_as_bytes, found))
    )
    return int.from_bytes(_sum_of(parts, 8), "little")


def feature_sums(record: bytes) -> dict[str, bytes]:
    """A sum of the values of each feature of a record."""
    values = decode_example(record)
    return {feature: _sum_of(map(_as_bytes, found), 16) for feature, found in values.items()}


def _sum_of(parts: Iterable[bytes | memoryview], size: int) -> bytes:
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


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
