"""An Examples artifact as input: its shards, counts and features, whoever wrote it.

source = open_source(uri)
source.shards["train"][0].records       # None where only reading it can tell
for block in read_shard_blocks(source.shards["train"][0].path):
    block.records()
"""

import collections
import contextlib
import dataclasses
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, cast

from components.common.feature_facts import DatasetFacts, features_of_facts
from components.common.files import (
    InputFile,
    exists,
    file_size,
    is_folder,
    join,
    list_files,
    open_for_reading,
    read_bytes,
    read_text,
)
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    Feature,
    Manifest,
    RecordBlock,
    RecordIndex,
    Shard,
    parse_features,
    parse_shard_info,
    read_blocks,
    scan_lengths,
)
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    MANIFEST_FILE,
    SPLIT_PREFIX,
    WORKING_FOLDER,
    index_file,
    vocabulary_of,
)
from trainer_utils.format.tfrecord import BLOCK_BYTES

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
    files = list_files(uri)
    in_splits = {f.path: f.size for f in files if f.path.startswith(SPLIT_PREFIX)}
    manifest = None
    if exists(join(uri, MANIFEST_FILE)):
        manifest = Manifest.from_json(
            read_text(join(uri, MANIFEST_FILE)), path=join(uri, MANIFEST_FILE)
        )
        manifest.check_files(in_splits)
        shards = {
            split: [_of_manifest(uri, shard) for shard in manifest.shards_of(split)]
            for split in manifest.splits
        }
    elif exists(join(uri, WORKING_FOLDER)):
        raise DatasetError(f"{uri!r}: expected a whole dataset, got one that was never finished")
    elif exists(join(uri, DATUM_SHARDS_FILE)):
        path = join(uri, DATUM_SHARDS_FILE)
        shards = {
            split: [_known(uri, shard, records) for shard, records in group.items()]
            for split, group in parse_shard_info(read_text(path), path=path).items()
        }
    elif in_splits:
        shards = _in_folders(uri, in_splits)
    else:
        raise DatasetError(f"{uri!r}: expected a dataset of TFRecord shards, found none")
    types_path = join(uri, DATUM_TYPES_FILE)
    features = (
        parse_features(read_text(types_path), path=types_path) if exists(types_path) else None
    )
    return Source(uri, shards, features, manifest, _vocabularies(uri, files))


def read_shard_blocks(path: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """A shard's verified blocks of about `block_bytes`; gzip is told by the `.gz` suffix.

    Raises:
        CorruptShardError: as `read_blocks`.
    """
    with _framed_stream(path) as stream:
        yield from read_blocks(stream, path=path, block_bytes=block_bytes)


def index_shard(shard: SourceShard) -> RecordIndex:
    """Where a shard's records lie: from its index, else by walking from header to header.

    Raises:
        CorruptShardError: the index is not the manifest's, or a header is damaged.
        DatasetError: it holds another number of records than the dataset says.
    """
    if shard.index_path is not None:
        data = read_bytes(shard.index_path)
        return RecordIndex.from_bytes(data, path=shard.index_path, shard=shard.entry)
    with _framed_stream(shard.path) as stream:
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


@contextlib.contextmanager
def _framed_stream(path: str) -> Iterator[BinaryIO]:
    with open_for_reading(path) as stream:
        if not path.endswith(".gz"):
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream, mode="rb") as unzipped:
                yield cast(BinaryIO, unzipped)
        except (EOFError, zlib.error, OSError) as error:
            raise CorruptShardError(
                f"{path!r}: expected a whole gzip stream: {error} "
                f"(near byte {stream.tell()}). The file is damaged: write it again."
            ) from error


def _of_manifest(uri: str, shard: Shard) -> SourceShard:
    index = None if shard.index_crc32c is None else join(uri, index_file(shard.path))
    return SourceShard(
        path=join(uri, shard.path),
        bytes=shard.bytes,
        records=shard.records,
        index_path=index,
        entry=shard,
    )


def _known(uri: str, path: str, records: int) -> SourceShard:
    full_path = join(uri, path)
    if not exists(full_path):
        raise DatasetError(f"shard {full_path!r}: is missing, though the dataset names it")
    return SourceShard(path=full_path, bytes=file_size(full_path), records=records)


def _in_folders(uri: str, paths: Mapping[str, int]) -> dict[str, list[SourceShard]]:
    shards: dict[str, list[SourceShard]] = collections.defaultdict(list)
    for path, size in sorted(paths.items()):
        split = path.split("/")[0].removeprefix(SPLIT_PREFIX)
        shards[split].append(SourceShard(path=join(uri, path), bytes=size))
    return dict(shards)


def _vocabularies(uri: str, files: Sequence[InputFile]) -> dict[str, list[str]]:
    return {
        name: read_text(join(uri, file.path)).split("\n")[:-1]
        for file in files
        if (name := vocabulary_of(file.path)) is not None
    }
