"""Where one record is in a dataset: its split, shard, number and byte; or why it was left out.

    search = search_dataset("runs/…/examples/1", "cat/1.jpg")
    search.places[0].shard              # 'Split-train/data_tfrecord-00002-of-00008'

Records are known by `filename` (images, sounds) or by `id` (texts). Their names are looked up in
the dataset's index. Where it has none every shard is read, since a record may be there twice; only
a record whose bytes hold the name is parsed.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

from trainer_utils.dataset import Dataset, ShardFile, open_dataset, read_index, read_shard_blocks
from trainer_utils.dataset.record_index import find_numbers
from trainer_utils.format import DatasetError, RecordBlock
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import (
    display_path,
    exists,
    is_folder,
    join,
    read_text,
)

__all__ = ["Place", "Search", "find_places", "search_dataset"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """One record.

    Args:
        split: its split.
        shard: relative to the dataset's uri.
        record: its number in the shard, from 0.
        byte_offset: of its frame in the shard, before compression.
        bytes: of the record, without its frame.
        feature: which names it.
    """

    split: str
    shard: str
    record: int
    byte_offset: int
    bytes: int
    feature: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What was found in one dataset.

    Args:
        outcome: `found`, `rejected`, `not found`, or `unknown` where that cannot be known.
        places: of the record; several where it is there several times.
        rejects: lines of `rejects.jsonl` that name it.
        detail: a sentence about an outcome that needs one.
    """

    outcome: str
    places: Sequence[Place] = ()
    rejects: Sequence[Mapping[str, str]] = ()
    detail: str = ""

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "outcome": self.outcome,
            "places": [dataclasses.asdict(place) for place in self.places],
            "rejects": [dict(reject) for reject in self.rejects],
            "detail": self.detail,
        }


def search_dataset(uri: str, name: str) -> Search:
    """Looks for one record among the shards and the rejects of a dataset.

    Args:
        uri: of the dataset.
        name: what its `filename` or `id` is, or what the list of rejects calls it.
    """
    try:
        if not is_folder(uri):
            return Search(outcome="unknown", detail=f"its files are gone ({uri})")
        dataset = open_dataset(uri, inspect=False)
        rejects = _rejects(uri, name)
        features = _lineage_features(dataset)
        places = find_places(dataset, name)
    except (ValueError, OSError) as error:
        return Search(outcome="unknown", detail=f"it cannot be read: {error}")
    if places:
        return Search(outcome="found", places=places, rejects=rejects)
    if rejects:
        return Search(outcome="rejected", rejects=rejects)
    if not features:
        wanted = " nor ".join(sorted(NAME_FEATURES))
        return Search(
            outcome="unknown",
            detail=f"its records have no feature that says what they are from: neither {wanted}",
        )
    skipped = dataset.manifest.total.skipped if dataset.manifest else 0
    note = f"; {skipped} inputs were skipped by a setting, which are not listed" if skipped else ""
    return Search(outcome="not found", detail=f"no record has this {' or '.join(features)}{note}")


def find_places(dataset: Dataset, name: str) -> list[Place]:
    """The records of a name in a dataset, each once.

    Shards of which no index says the names are read.

    Raises:
        CorruptShardError: a record of such a shard is damaged.
    """
    features = _lineage_features(dataset)
    return _distinct([found for feature in features for found in _places(dataset, feature, name)])


def _rejects(uri: str, name: str) -> list[Mapping[str, str]]:
    path = join(uri, REJECTS_FILE)
    if not exists(path):
        return []
    shown = display_path(name)
    try:
        # Not splitlines: names may hold what Unicode takes for the end of a line.
        entries = [json.loads(line) for line in read_text(path).split("\n") if line]
        return [dict(sorted(entry.items())) for entry in entries if entry["source"] == shown]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path!r}: expected a list of rejects: {error!r}", path=path) from error


def _lineage_features(dataset: Dataset) -> list[str]:
    names = {name for name, feature in dataset.features.items() if feature.type == "string"}
    if not dataset.features:
        for shards in dataset.shards.values():
            for record in _first_records([shard.path for shard in shards]):
                features = decode_example(record).items()
                names |= {
                    n for n, values in features if isinstance(next(iter(values), 0), memoryview)
                }
    return [name for name in NAME_FEATURES if name in names]


def _first_records(paths: Sequence[str]) -> Iterator[bytes]:
    """The first record of a split."""
    for path in paths:
        for block in read_shard_blocks(path):
            yield block.record(0)
            return


def _places(dataset: Dataset, feature: str, name: str) -> Iterator[Place]:
    wanted = name.encode("utf-8", "surrogateescape")
    for split, shards in dataset.shards.items():
        for shard in shards:
            numbers = find_numbers(dataset, shard, [wanted])
            known = None if numbers is None else _indexed(shard, numbers)
            for record, offset, size in _read(shard, feature, wanted) if known is None else known:
                yield Place(
                    split=split,
                    shard=shard.name,
                    record=record,
                    byte_offset=offset,
                    bytes=size,
                    feature=feature,
                )


def _indexed(shard: ShardFile, numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The numbers of records, the bytes where their frames begin, and the records' sizes."""
    if numbers:
        index = read_index(shard, is_strict=False)
        for number in numbers:
            yield number, int(index.offsets[number]), int(index.lengths[number])


def _read(shard: ShardFile, feature: str, wanted: bytes) -> Iterator[tuple[int, int, int]]:
    """The same of the records of a name in a shard, which is read."""
    first = 0
    for block in read_shard_blocks(shard.path):
        for number in _holding(block, wanted):
            record = block.record(number)
            if wanted in decode_example(record, {feature}).get(feature, ()):
                yield first + number, block.file_offset + int(block.starts[number]), len(record)
        first += len(block)


def _holding(block: RecordBlock, wanted: bytes) -> Iterator[int]:
    """The numbers of the records in whose bytes the name occurs somewhere."""
    place = block.data.find(wanted)
    while place >= 0:
        number = int(block.starts.searchsorted(place, "right")) - 1
        yield number
        if number + 1 == len(block):
            return
        place = block.data.find(wanted, int(block.starts[number + 1]))


def _distinct(places: Sequence[Place]) -> list[Place]:
    """Each record once, though two of its features may say the same."""
    return list({(place.shard, place.record): place for place in places}.values())
