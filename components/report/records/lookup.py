"""Where the records of a name are in a dataset: the one way in which all commands look them up.

    find_places(open_dataset(uri), "cat/1.jpg")[0].shard    # 'Split-train/data_…'

A record's names are its `filename` (images, sounds), its `id` (texts) and its `record_id`. They are
looked up in the dataset's index; where it has none every shard is read, since a name may be there
twice.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainer_utils.dataset import Dataset, ShardFile, read_index, read_shard_blocks
from trainer_utils.dataset.shards import find_numbers
from trainer_utils.format.example import decode_example
from trainer_utils.format.naming import NAME_FEATURES

_FEW = 16  # names, which are looked for in the bytes of a block before its records are decoded


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """One record: the name that was looked for, its split, its number in its shard from 0."""

    name: str
    split: str
    shard: str  # relative to the dataset's uri
    record: int
    byte_offset: int  # of its frame in the shard, before compression
    bytes: int  # without its frame


def encode_name(name: str) -> bytes:
    """A name as records hold it; what is no UTF-8 in it are surrogates, as `os.fsdecode` has it."""
    return name.encode("utf-8", "surrogateescape")


def name_features(dataset: Dataset) -> list[str]:
    """The features that name a dataset's records; none of others' datasets that have no such."""
    features = dataset.features
    return [n for n in NAME_FEATURES if n in features and features[n].type != "float"]


def names_of(values: Mapping[str, Sequence[Any]]) -> list[bytes]:
    """The names of a record, of the values of its features; one that is a number as text."""
    return [
        bytes(value) if isinstance(value, memoryview) else str(value).encode()
        for feature in NAME_FEATURES
        for value in values.get(feature, ())
        if not isinstance(value, float)
    ]


def find_places(dataset: Dataset, name: str) -> list[Place]:
    """The records of a name, in the order of the shards.

    Raises:
        CorruptShardError: a record of a shard without names in an index is damaged.
    """
    found: list[Place] = []
    for split, shards in dataset.shards.items():
        for shard in shards:
            numbers = find_numbers(dataset, shard, [encode_name(name)])
            if numbers is None:
                found += read_places(shard, split, [name])
            elif numbers:
                index = read_index(shard, is_strict=False)
                found += [
                    Place(
                        name=name,
                        split=split,
                        shard=shard.name,
                        record=number,
                        byte_offset=int(index.offsets[number]),
                        bytes=int(index.lengths[number]),
                    )
                    for number in numbers
                ]
    return found


def read_places(shard: ShardFile, split: str, names: Iterable[str]) -> Iterator[Place]:
    """The records of some names in a shard, whose records are all read and checked."""
    wanted = {encode_name(name): name for name in names}
    may_be_numbers = any(name.lstrip(b"-").isdigit() for name in wanted)
    first = 0
    for block in read_shard_blocks(shard.path):
        is_looked_into = len(wanted) > _FEW or may_be_numbers
        if is_looked_into or any(name in block.data for name in wanted):
            for number, record in enumerate(block.records()):
                own = wanted.keys() & names_of(decode_example(record, NAME_FEATURES))
                if own:
                    yield Place(
                        name=wanted[min(own)],
                        split=split,
                        shard=shard.name,
                        record=first + number,
                        byte_offset=block.file_offset + int(block.starts[number]),
                        bytes=len(record),
                    )
        first += len(block)
