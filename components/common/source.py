"""An Examples artifact as input: its shards, counts and features, whoever wrote it.

source = open_source(uri)
source.shards["train"][0].records       # None where only reading it can tell
for block in read_shard_blocks(source.shards["train"][0].path):
    block.records()
"""

import dataclasses
from collections.abc import Mapping, Sequence

from components.common.dataset_layout import open_layout
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.shards import framed_stream, read_shard_blocks
from trainer_utils.format import (
    DatasetError,
    Feature,
    Manifest,
    RecordIndex,
    Shard,
    scan_lengths,
)
from trainer_utils.format.layouts import FoundShard
from trainer_utils.format.naming import index_file
from trainer_utils.storage.files import (
    exists,
    file_size,
    is_folder,
    join,
    read_bytes,
    read_text,
)

__all__ = [
    "Source",
    "SourceShard",
    "index_shard",
    "open_source",
    "read_shard_blocks",
    "with_facts",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceShard:
    """One input file.

    Args:
        path: in full.
        bytes: of the file as it lies there.
        records: None where only reading it can tell.
        index_path: of its record index, in full; None where it has none.
        entry: what the dataset's manifest says of it, if it has one.
    """

    path: str
    bytes: int
    records: int | None = None
    index_path: str | None = None
    entry: Shard | None = None

    @property
    def is_gzip(self) -> bool:
        """Whether it is compressed; the name tells."""
        return self.path.endswith(".gz")


@dataclasses.dataclass(frozen=True)
class Source:
    """An opened input.

    Args:
        uri: where it is.
        shards: by split, in order.
        features: by name, or None where only reading all records can tell.
        manifest: of a dataset of ours, else None.
        vocabularies: values by feature.
    """

    uri: str
    shards: Mapping[str, Sequence[SourceShard]]
    features: Mapping[str, Feature] | None
    manifest: Manifest | None
    vocabularies: Mapping[str, Sequence[str]]

    @property
    def is_counted(self) -> bool:
        """Whether the records of every shard are known."""
        return all(shard.records is not None for group in self.shards.values() for shard in group)


def open_source(uri: str) -> Source:
    """Finds the shards of a dataset, and reads what says what they hold; reads no record.

    Raises:
        DatasetError: there is no dataset, or it is not whole.
    """
    if not is_folder(uri):
        raise DatasetError(f"{uri!r}: expected the folder of a dataset, found none")
    found, sizes = open_layout(uri)
    return Source(
        uri=uri,
        shards={
            split: [_opened(uri, shard, sizes.get(shard.path)) for shard in shards]
            for split, shards in found.shards.items()
        },
        features=found.features,
        manifest=found.manifest,
        vocabularies={
            name: read_text(join(uri, path)).split("\n")[:-1]
            for name, path in found.vocabulary_files.items()
        },
    )


def index_shard(shard: SourceShard) -> RecordIndex:
    """Where a shard's records lie: from its index, else by walking from header to header.

    Raises:
        CorruptShardError: the index is not the manifest's, or a header is damaged.
        DatasetError: it holds another number of records than the dataset says.
    """
    if shard.index_path is not None:
        data = read_bytes(shard.index_path)
        return RecordIndex.from_bytes(data, path=shard.index_path, shard=shard.entry)
    with framed_stream(shard.path) as stream:
        index = RecordIndex(scan_lengths(stream, path=shard.path))
    if shard.records is not None and len(index) != shard.records:
        raise DatasetError(
            f"shard {shard.path!r}: expected {shard.records} records as the dataset says, "
            f"got {len(index)}. The dataset was changed: write it again."
        )
    return index


def with_facts(source: Source) -> tuple[Source, DatasetFacts]:
    """Reads every record once, for the counts and what the features are.

    Returns:
        The source with all counts and features known, and the facts.

    Raises:
        CorruptShardError: a shard is damaged.
        DatasetError: a record is no `tf.train.Example`, a feature has two types, or a count is
            not what the dataset says.
    """
    facts = DatasetFacts()
    shards: dict[str, list[SourceShard]] = {}
    for split, group in source.shards.items():
        shards[split] = []
        for shard in group:
            before = facts.records
            for block in read_shard_blocks(shard.path):
                facts.add(block, path=shard.path)
            records = facts.records - before
            if shard.records not in (None, records):
                raise DatasetError(
                    f"shard {shard.path!r}: expected {shard.records} records as the dataset "
                    f"says, got {records}. The dataset was changed: write it again."
                )
            shards[split].append(dataclasses.replace(shard, records=records))
    features = source.features if source.features is not None else features_of_facts(facts)
    return dataclasses.replace(source, shards=shards, features=features), facts


def _opened(uri: str, shard: FoundShard, size: int | None) -> SourceShard:
    path = join(uri, shard.path)
    if size is None and not exists(path):
        raise DatasetError(f"shard {path!r}: is missing, though the dataset names it")
    has_index = shard.entry is not None and shard.entry.index_crc32c is not None
    return SourceShard(
        path=path,
        bytes=file_size(path) if size is None else size,
        records=shard.records,
        index_path=join(uri, index_file(shard.path)) if has_index else None,
        entry=shard.entry,
    )
