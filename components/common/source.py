"""An Examples artifact as input: its shards, counts and features, whoever wrote it.

source = open_source(uri)
source.shards["train"][0].records
"""

import collections
import contextlib
import dataclasses
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
from tfx_bsl.coders import example_coder

from components.common.files import (
    InputFile,
    exists,
    file_size,
    is_folder,
    join,
    list_files,
    open_for_reading,
    read_text,
)
from trainer_utils.format import (
    DatasetError,
    Feature,
    Manifest,
    RecordBlock,
    count_records,
    parse_features,
    parse_shard_info,
    read_blocks,
)
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    MANIFEST_FILE,
    SPLIT_PREFIX,
    WORKING_FOLDER,
    vocabulary_of,
)

__all__ = ["Source", "SourceShard", "infer_features", "open_source", "read_shard_blocks"]


@dataclasses.dataclass(frozen=True)
class SourceShard:
    """One input file: its full path, its records, and their framed bytes, uncompressed."""

    path: str
    records: int
    bytes: int


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


def open_source(uri: str) -> Source:
    """Finds the shards of a dataset, and counts those that nothing says the records of.

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
            split: [_known(uri, shard.path, shard.records) for shard in manifest.shards_of(split)]
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
        shards = _count_folders(uri, in_splits)
    else:
        raise DatasetError(f"{uri!r}: expected a dataset of TFRecord shards, found none")
    types_path = join(uri, DATUM_TYPES_FILE)
    features = (
        parse_features(read_text(types_path), path=types_path) if exists(types_path) else None
    )
    return Source(uri, shards, features, manifest, _vocabularies(uri, files))


def read_shard_blocks(path: str) -> Iterator[RecordBlock]:
    """A shard's verified blocks; gzip is told by the `.gz` suffix.

    Raises:
        CorruptShardError: as `read_blocks`.
        DatasetError: the gzip stream itself is bad.
    """
    with _framed_stream(path) as stream:
        yield from read_blocks(stream, path=path)


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
            raise DatasetError(f"{path!r}: expected a whole gzip stream: {error}") from error


def infer_features(source: Source) -> dict[str, Feature]:
    """Works out every feature by decoding all records, a block at a time.

    A feature is dense when every example has the same number of its values.

    Raises:
        DatasetError: a record is no `tf.train.Example`, or a feature has two types.
    """
    decoder = example_coder.ExamplesToRecordBatchDecoder()
    kinds: dict[str, str] = {}
    sizes: dict[str, set[int]] = collections.defaultdict(set)
    present: collections.Counter[str] = collections.Counter()
    records = 0
    for shard in (shard for group in source.shards.values() for shard in group):
        for block in read_shard_blocks(shard.path):
            records += len(block)
            try:
                batch = decoder.DecodeBatch(block.records())
            except Exception as error:
                raise DatasetError(
                    f"{shard.path!r}: expected tf.train.Example alike in all records "
                    f"(near byte {block.file_offset}): {error}"
                ) from error
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if pa.types.is_null(column.type):
                    continue
                kind = _kind(column.type.value_type)
                if kinds.setdefault(name, kind) != kind:
                    raise DatasetError(
                        f"feature {name!r}: expected {kinds[name]} in all examples, "
                        f"got {kind} ({shard.path}, near byte {block.file_offset})"
                    )
                present[name] += len(column) - column.null_count
                lengths = np.diff(np.asarray(column.offsets))[np.asarray(column.is_valid())]
                sizes[name].update(np.unique(lengths).tolist())
    return {
        name: _feature(kinds[name], sizes[name], always=present[name] == records)
        for name in sorted(kinds)
    }


def _feature(kind: str, sizes: set[int], *, always: bool) -> Feature:
    longest = max(sizes, default=0)
    # Datum reads a dense string as one scalar, so several strings must be sparse.
    dense = always and len(sizes) == 1 and longest > 0 and (kind != "string" or longest == 1)
    return Feature(type=kind, shape=() if dense and longest == 1 else (longest,), dense=dense)


def _kind(value_type: pa.DataType) -> str:
    if pa.types.is_integer(value_type):
        return "int"
    return "float" if pa.types.is_floating(value_type) else "string"


def _known(uri: str, path: str, records: int) -> SourceShard:
    full_path = join(uri, path)
    if not exists(full_path):
        raise DatasetError(f"shard {full_path!r}: is missing, though the dataset names it")
    if path.endswith(".gz"):
        return _counted(full_path)
    return SourceShard(full_path, records, file_size(full_path))


def _counted(path: str) -> SourceShard:
    with _framed_stream(path) as stream:
        return SourceShard(path, *count_records(stream, path=path))


def _count_folders(uri: str, paths: Mapping[str, int]) -> dict[str, list[SourceShard]]:
    shards: dict[str, list[SourceShard]] = collections.defaultdict(list)
    for path in sorted(paths):
        split = path.split("/")[0].removeprefix(SPLIT_PREFIX)
        shards[split].append(_counted(join(uri, path)))
    return dict(shards)


def _vocabularies(uri: str, files: Sequence[InputFile]) -> dict[str, list[str]]:
    return {
        name: read_text(join(uri, file.path)).split("\n")[:-1]
        for file in files
        if (name := vocabulary_of(file.path)) is not None
    }
