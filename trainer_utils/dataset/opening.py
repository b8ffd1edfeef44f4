"""Open a dataset at any place, from any writer: tfx-shards, Datum, TFDS, TFX, or bare files.

dataset = open_dataset("gs://bucket/examples/5")
dataset.records, dataset.features           # {'train': 2000}, {'image': Feature(…), …}
for block in read_shard_blocks(dataset.shards["train"][0].path):     # with any compression
    block.records()
read_index(dataset.shards["train"][0]).offsets       # from its index, or else from the shard
"""

import contextlib
import dataclasses
import errno
import functools
import gzip
import hashlib
import itertools
import logging
import math
import os
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from trainer_utils import storage
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.location import (
    Artifact,
    DatasetFiles,
    Place,
    list_dataset,
    newest_dataset,
    uri_of,
)
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    Feature,
    RecordBlock,
    RecordIndex,
    SplitRange,
    TfxShardsError,
    read_blocks,
    scan_lengths,
)
from trainer_utils.format.example import decode_example
from trainer_utils.format.index import name_crc, name_crcs, name_in
from trainer_utils.format.layouts import DatasetLayout, ShardFile
from trainer_utils.format.naming import DATUM_SHARDS_FILE, NAME_FEATURES
from trainer_utils.format.slices import FileRange
from trainer_utils.format.tfrecord import (
    BLOCK_BYTES,
    HEADER_BYTES,
    begins_with_gzip,
    begins_with_zlib,
)

_logger = logging.getLogger(__name__)
_HEAD_BYTES = 512  # of a shard: enough to detect its compression
_PACKED_AT_ONCE = 1 << 20
_MAX_LOOKED_AT, _LOOKED_AT_BYTES = 256, 1 << 20  # records of a file, and bytes per read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(DatasetLayout):
    """An opened dataset.

    Args:
        uri: the uri of the dataset.
        files: its files.
        named_files: whether only some of its files were given, one by one.
    """

    uri: str
    files: DatasetFiles
    named_files: bool = False

    @property
    def digest(self) -> str:
        """Hash of the contents, independent of the location: the manifest, or sizes and counts."""
        if self.manifest is not None:
            return self.manifest.digest
        sizes = [
            (split, s.path.removeprefix(self.uri), s.records, s.bytes)
            for split, shards in self.shards.items()
            for s in shards
        ]
        return hashlib.blake2b(repr(sizes).encode(), digest_size=16).hexdigest()

    @functools.cached_property
    def shard_files(self) -> Sequence[ShardFile]:
        """The shards of all splits, in order."""
        return [shard for group in self.shards.values() for shard in group]

    @functools.cached_property
    def is_counted(self) -> bool:
        """Whether the number of records of every shard is known."""
        return all(shard.records is not None for shard in self.shard_files)

    @property
    def records(self) -> dict[str, int]:
        """Number of records by split, for a dataset that is counted."""
        return {split: sum(s.num_records for s in shards) for split, shards in self.shards.items()}

    @functools.cached_property
    def vocabularies(self) -> Mapping[str, Sequence[str]]:
        """Class names by feature. The id of a class is its line number, from 0."""
        return {name: self.read_lines(path) for name, path in self.vocabulary_files.items()}

    def read_text(self, name: str) -> str:
        """Return the text of a small file, checked against the manifest."""
        text = self.files.read_text(name)
        if self.manifest is not None:
            self.manifest.check_text(name, text, path=self.files.path(name))
        return text

    def read_lines(self, name: str) -> list[str]:
        """Return the lines of a small file. Only a newline ends a line."""
        lines = self.read_text(name).split("\n")
        return lines if lines[-1] else lines[:-1]

    def file_ranges(self, wanted: SplitRange) -> list[FileRange]:
        """Return the parts of files that hold a range of a split's records, in order."""
        ranges, start = [], 0
        for shard in self.shards[wanted.split]:
            begin = max(wanted.start - start, 0)
            end = min(wanted.stop - start, shard.num_records)
            if begin < end:
                ranges.append(FileRange(shard.path, begin, end - begin))
            start += shard.num_records
        return ranges

    def with_facts(
        self, *, takes_lists: bool = True, takes_mixed: bool = False
    ) -> tuple["Dataset", DatasetFacts]:
        """Read every record to count them and infer features; return the new dataset and the facts.

        Args:
            takes_lists: whether feature lists are allowed.
            takes_mixed: whether a feature may have several kinds. The most frequent one is used.

        Raises:
            DatasetError: there are feature lists or several kinds that are not allowed, or a count
                differs from the metadata.
        """
        facts, counted = DatasetFacts(takes_mixed=takes_mixed), {}
        for split, shards in self.shards.items():
            counted[split] = list[ShardFile]()
            for shard in shards:
                before = facts.records
                for block in read_shard_blocks(shard.path):
                    facts.add(block, path=shard.path, takes_lists=takes_lists)
                check_count(shard, records := facts.records - before)
                counted[split].append(shard._replace(records=records))
        for name, kinds in facts.settle_mixed().items():
            counts = ", ".join(f"{kind} in {count:,} examples" for kind, count in kinds.items())
            _logger.warning(
                "%r: feature %r is %s. The first is used; for the other records, leave the feature "
                "out, features=[…], or replace the records, on_corrupt='skip'.",
                *(self.uri, name, counts),
            )
        features = self.features if self.says_features else features_of_facts(facts)
        changes: dict[str, Any] = {"shards": counted, "features": features, "says_features": True}
        return dataclasses.replace(self, **changes), facts


def open_dataset(artifact: Place | os.PathLike[str] | Artifact, *, inspect: bool = True) -> Dataset:
    """Read the metadata of a dataset and check it against the files.

    Args:
        artifact: a uri, a TFX artifact, or a pattern in TFX's `fn_args.train_files`. For the output
            folder of `convert`, it is the newest dataset there. Or TFRecord files: a path, a
            pattern such as `data/train-*`, or a tuple of these, with the metadata of their dataset.
        inspect: whether to read records for counts and features that the metadata lacks.

    Raises:
        DatasetError: there is no dataset, or it is incomplete; the message names the problem.
    """
    place = artifact if isinstance(artifact, tuple) else newest_dataset(uri_of(artifact))
    try:
        dataset = _found(list_dataset(place, with_index=False))
        return _inspected(dataset) if inspect else dataset
    except TfxShardsError:
        raise
    except (OSError, TypeError, ValueError) as error:  # an invalid path
        uri = place if isinstance(place, str) else ", ".join(place[:3])
        raise DatasetError(f"{uri!r}: cannot be read: {type(error).__name__}: {error}") from error


_inspections: dict[tuple[object, ...], Dataset] = {}
_MAX_INSPECTIONS = 16


def _inspected(dataset: Dataset) -> Dataset:
    """Inspect a dataset, once while its files stay the same: trainers open it many times."""
    if dataset.says_features and dataset.is_counted:
        return dataset
    version = dataset.files.version
    versions = tuple((s.path, s.records, version(s.name)) for s in dataset.shard_files)
    state = dataset.uri, dataset.says_features, versions
    if (found := _inspections.get(state)) is None:
        if len(_inspections) >= _MAX_INSPECTIONS:
            _inspections.clear()
        found = (
            _counted(dataset) if dataset.says_features else dataset.with_facts(takes_mixed=True)[0]
        )
        _inspections[state] = found
    features = dataset.features if dataset.says_features else found.features
    return dataclasses.replace(dataset, features=features, shards=found.shards, says_features=True)


def _counted(dataset: Dataset) -> Dataset:
    counted = {
        split: [
            s if s.records is not None else s._replace(records=len(read_index(s))) for s in group
        ]
        for split, group in dataset.shards.items()
    }
    return dataclasses.replace(dataset, shards=counted)


def _found(files: DatasetFiles) -> Dataset:
    layout = files.layout()
    found = {
        split: [_shard(files, shard, layout.named_in) for shard in group]
        for split, group in layout.shards.items()
    }
    features = layout.features
    if layout.named_in == DATUM_SHARDS_FILE and layout.manifest is None:
        features = _checked(features, [group[0].path for group in found.values() if group])
    known = vars(layout) | {"shards": found, "features": features}
    is_named = files.named is not None
    return Dataset(uri=files.uri, files=files.around or files, named_files=is_named, **known)


def _checked(features: Mapping[str, Feature], paths: Iterable[str]) -> Mapping[str, Feature]:
    """Return Datum's features, with lists of varying length marked as not dense.

    Datum describes features by the last example that it wrote, for instance boxes by their number
    in that image. So the first records of some files are checked. An unreadable file is left for
    the reader to report.
    """
    lists = {n: f.shape[0] for n, f in features.items() if f.dense and len(f.shape) == 1}
    counts = {name: {length} for name, length in lists.items()}
    for path in paths if lists else ():
        with contextlib.suppress(DatasetError, OSError):
            blocks = read_shard_blocks(path, block_bytes=_LOOKED_AT_BYTES)
            records = itertools.chain.from_iterable(block.records() for block in blocks)
            for record in itertools.islice(records, _MAX_LOOKED_AT):
                found = decode_example(record, lists)
                for name in lists:
                    counts[name].add(len(found.get(name, ())))
    return {**features} | {
        name: dataclasses.replace(features[name], dense=False, shape=(max(found),))
        for name, found in counts.items()
        if len(found) > 1
    }


def _shard(files: DatasetFiles, shard: ShardFile, named_in: str) -> ShardFile:
    path, size = files.path(shard.name), files.size(shard.name)
    if size is None:
        said = f"the shard that {files.path(named_in)} names"
        raise DatasetError.at(path, expected=said, got="none", advice="Write the dataset again.")
    packed = path.endswith(".gz") if shard.entry is not None else compression_of(path) is not None
    return shard._replace(path=path, bytes=size, is_gzip=packed)


def check_count(shard: ShardFile, records: int) -> None:
    """Raise DatasetError if a shard's number of records differs from the metadata."""
    if shard.records not in (None, records):
        said = f"{shard.records} records as in the dataset's metadata"
        advice = "The dataset was changed: write it again."
        raise DatasetError.at(shard.path, expected=said, got=str(records), advice=advice)


def compression_of(path: str) -> str | None:
    """Return `gzip`, `zlib` or None: for a remote shard from its name, else from its head."""
    if storage.is_remote(path):
        return "gzip" if path.endswith(".gz") else "zlib" if path.endswith(".zlib") else None
    head = storage.read_range(path, start=0, stop=_HEAD_BYTES)
    return "gzip" if begins_with_gzip(head) else "zlib" if begins_with_zlib(head) else None


def read_shard_blocks(path: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """Yield a shard's verified blocks of about `block_bytes`; raise the errors of `read_blocks`."""
    with open_records(path) as stream:
        yield from read_blocks(stream, path=path, block_bytes=block_bytes)


@contextlib.contextmanager
def open_records(path: str) -> Iterator[BinaryIO]:
    """Yield a stream of a shard's framed records, decompressed; raise the errors of `unpacked`."""
    with storage.open_for_reading(path) as stream, unpacked(stream, path=path) as records:
        yield records


@contextlib.contextmanager
def unpacked(stream: BinaryIO, *, path: str) -> Iterator[BinaryIO]:
    """Yield a stream of the framed records in a shard's bytes, decompressed.

    Raises:
        CorruptShardError: the compressed stream is incomplete or damaged.
    """
    compression = compression_of(path)
    if compression is None:
        yield stream
        return
    try:
        if compression == "gzip":
            with gzip.GzipFile(fileobj=stream, mode="rb") as records:
                yield cast(BinaryIO, records)
        else:
            yield cast(BinaryIO, _ZlibStream(stream))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        advice, offset = "The file is damaged: write it again.", stream.tell()
        rule = f"expected a whole {compression} stream"
        said = f"{path!r}: {rule}: {error} (near byte {offset}). {advice}"
        raise CorruptShardError(said, path=path, offset=offset) from error


class _ZlibStream:
    """The content of a zlib stream, read in order."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._unpacker, self._given = stream, zlib.decompressobj(), b""

    def read(self, count: int = -1) -> bytes:
        """Return up to `count` bytes, or all if it is negative; no bytes at the end."""
        most = count if count >= 0 else sys.maxsize
        found = bytearray()
        while len(found) < most and not self._unpacker.eof:
            if not self._given and not (data := self._stream.read(_PACKED_AT_ONCE)):
                raise EOFError("the stream ends before its checksum")
            found += self._unpacker.decompress(self._given or data, most - len(found))
            self._given = self._unpacker.unconsumed_tail
        if self._unpacker.eof and (self._unpacker.unused_data or self._stream.read(1)):
            raise zlib.error("more bytes follow the end of the stream")
        return bytes(found)


def content_bytes(path: str) -> int:
    """Return the uncompressed size of a compressed file in bytes.

    For gzip it is modulo 2**32, from the last field of RFC 1952. A zlib stream is read completely.
    """
    if compression_of(path) == "zlib":
        with open_records(path) as stream:
            return sum(map(len, iter(lambda: stream.read(BLOCK_BYTES), b"")))
    size = storage.file_size(path)
    return int.from_bytes(storage.read_range(path, start=max(size - 4, 0), stop=size), "little")


def read_index(shard: ShardFile, *, is_strict: bool = True) -> RecordIndex:
    """Return the locations of a shard's records, from its index or else by scanning its headers.

    If `is_strict`, a damaged or missing index is an error. Else the shard is scanned.

    Raises:
        CorruptShardError: the index differs from the manifest's, or a header is damaged.
        DatasetError: the number of records differs from the metadata.
    """
    index = _stored_index(shard) if is_strict else load_index_or_none(shard)
    if index is None:
        with open_records(shard.path) as stream:
            index = RecordIndex(scan_lengths(stream, path=shard.path))
        check_count(shard, len(index))
    return index


def load_index_or_none(shard: ShardFile, *, size: int | None = None) -> RecordIndex | None:
    """Return a shard's index if it has a usable one; else None, with a warning if it is damaged.

    Args:
        shard: the shard. Its manifest entry names the index.
        size: the uncompressed size of the shard in bytes. With it, an index next to a shard without
            a manifest entry is also used.
    """
    try:
        return _stored_index(shard, size)
    except (DatasetError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # not a problem of the index
        _warn_of(shard.index_path, str(error))
        return None


def _stored_index(shard: ShardFile, size: int | None = None) -> RecordIndex | None:
    path, entry = shard.index_path, shard.entry
    is_named = entry is not None and entry.index_crc32c is not None
    if path is None or not (is_named or (size is not None and storage.exists(path))):
        return None
    index = RecordIndex.from_bytes(storage.read_bytes(path), path=path, shard=entry)
    if size not in (None, index.framed_bytes):
        raise CorruptShardError(f"expected a shard of {index.framed_bytes} bytes, got {size}.")
    return index


@functools.lru_cache(maxsize=4096)  # one warning per index
def _warn_of(index_path: str | None, why: str) -> None:
    _logger.warning(
        "record index %r is not used; the whole shard is read instead: %s", index_path, why
    )


def index_with_checksums(shard: ShardFile) -> RecordIndex:
    """Return a shard's index with checksums of payloads and names, reading the shard if needed."""
    index = read_index(shard, is_strict=False)
    if index.name_crcs is not None:
        return index
    parts = [np.zeros((2, 0), np.uint32)]
    for block in read_shard_blocks(shard.path):
        begins = block.starts + HEADER_BYTES
        names = name_crcs(block.data, begins, begins + block.lengths)
        parts.append(np.stack([block.payload_crcs, names]))
    return RecordIndex(index.lengths, *np.concatenate(parts, axis=1))


def record_keys(dataset: Dataset, ranges: Sequence[FileRange]) -> npt.NDArray[np.uint64]:
    """Return keys that identify records in another version of their dataset: `(records,) uint64`.

    They combine the checksums of payloads and names with the lengths.
    """
    shards = {shard.path: shard for shard in dataset.shard_files}
    found = [np.zeros(0, np.uint64)]
    for path, skip, take in ranges:
        index = index_with_checksums(shards[path])
        sums = (index.payload_crcs, index.name_crcs, index.lengths)
        payloads, names, lengths = (np.asarray(some).astype(np.uint64) for some in sums)
        keys = payloads << np.uint64(32) | names ^ lengths
        found.append(keys[skip : skip + take])
    return np.concatenate(found)


def find_numbers(dataset: Dataset, shard: ShardFile, names: Collection[bytes]) -> list[int] | None:
    """Return the indices of the records with these names in a shard, without reading others.

    Return None if the shard must be read instead: its index has no names, or its records may have
    several names. The index has only the first name of a record.
    """
    named = [dataset.features[name] for name in NAME_FEATURES if name in dataset.features]
    if len(named) != 1 or not named[0].dense or math.prod(named[0].shape) != 1:
        return None
    index = read_index(shard, is_strict=False)
    if index.name_crcs is None:
        return None
    crcs = [name_crc(name) for name in names]
    numbers: list[int] = np.flatnonzero(np.isin(index.name_crcs, crcs)).tolist()
    if not numbers:
        return []
    with open_records(shard.path) as stream:
        records = [(number, index.read(stream, number, path=shard.path)) for number in numbers]
    return [number for number, record in records if name_in(record) in names]
