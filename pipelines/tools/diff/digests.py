"""Small digests of all records of a dataset, as columns of numpy.

    digests = read_digests(reader, ["train", "eval"])
    digests["name"], digests["fold"], digests["crc"], digests["split"], digests["number"]

A record's digest is the CRC-32C of its name, its length, its own CRC-32C, and its place. They are
taken from `index/` where the dataset has them there, and from its records elsewhere.
Where a record has no name, the sum of its values stands for both.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.tools.records import ExampleReader
from trainer_utils.dataset import ShardFile, read_shard_blocks
from trainer_utils.dataset.record_index import summed_index
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.record_names import name_crc, name_of

__all__ = ["Digests", "content_at", "feature_sums", "read_digests"]

_DIGEST = np.dtype(
    [("name", "<i8"), ("fold", "<u8"), ("crc", "<u4"), ("split", "<u2"), ("number", "<i8")]
)

Digests = npt.NDArray[np.void]


def read_digests(
    reader: ExampleReader,
    splits: Sequence[str],
    *,
    advance: Callable[[int], None] = lambda records: None,
) -> Digests:
    """The digests of all records, in the order of the dataset.

    Args:
        reader: of the dataset.
        splits: all that any of the datasets has; a digest holds the place in it.
        advance: called after each shard with its records.

    Raises:
        DatasetError: a record is no `tf.train.Example`, or damaged.
    """
    found = [np.zeros(0, _DIGEST)]
    for split in reader.splits:
        for first, shard in reader.shards(split):
            index = summed_index(shard)
            names: Any = index.name_crcs
            if names.all():
                digests = np.zeros(len(index), _DIGEST)
                digests["name"], digests["fold"] = names, index.lengths
                digests["crc"] = index.payload_crcs
            else:
                digests = _unnamed(shard)
            digests["split"] = splits.index(split)
            digests["number"] = np.arange(first, first + len(digests))
            found.append(digests)
            advance(len(digests))
    return np.concatenate(found)


def _unnamed(shard: ShardFile) -> Digests:
    """Of a shard with records that have no name: by their values, in any order of features."""
    rows = []
    for block in read_shard_blocks(shard.path):
        for record in block.records():
            values = decode_example(record)
            name, content = name_of(values), _content_of(values)
            rows.append((content >> 1 if name is None else name_crc(name), content, 0, 0, 0))
    return np.array(rows, _DIGEST)


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
