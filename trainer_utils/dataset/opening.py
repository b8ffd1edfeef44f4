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
import hashlib
import itertools
import logging
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils import storage
from trainer_utils.core.errors import CorruptShardError, DatasetError, TfxShardsError
from trainer_utils.dataset.compression import compression_of, open_records, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.dataset.location import (
    Artifact,
    DatasetFiles,
    Place,
    list_dataset,
    newest_dataset,
    uri_of,
)
from trainer_utils.dataset.record_scan import count_records
from trainer_utils.dataset.sampling import WHOLE_BYTES, features_of_sample, inferred_features
from trainer_utils.format import Feature, RecordIndex, SplitRange, scan_lengths
from trainer_utils.format.example import decode_example
from trainer_utils.format.index import name_crc, name_crcs, name_in
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.layouts import DatasetLayout, ShardFile
from trainer_utils.format.naming import DATUM_SHARDS_FILE, LISTING_FILE, NAME_FEATURES
from trainer_utils.format.slices import FileRange
from trainer_utils.format.tfrecord import HEADER_BYTES

_logger = logging.getLogger(__name__)
_USUAL_RATIO = 4  # of unpacked bytes to the size of a gzip file
_MAX_LOOKED_AT, _LOOKED_AT_BYTES = 256, 1 << 20  # records of a file, and bytes per read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(DatasetLayout):
    """An opened dataset.

    Args:
        uri: the uri of the dataset.
        files: its files.
        named_files: whether only some of its files were given, one by one.
        sampled: the number of records that `features` were inferred from, or None if metadata
            describes them or all records were read.
    """

    uri: str
    files: DatasetFiles
    named_files: bool = False
    sampled: int | None = None

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

    @functools.cached_property
    def listing(self) -> InputListing | None:
        """The identity of the dataset by its inputs, or None if it is not known."""
        name = LISTING_FILE
        if self.manifest is None or self.files.sizes.get(name) is None:
            return None
        contents = self.manifest.contents
        return InputListing.from_json(
            self.files.read_text(name), path=self.files.path(name), contents=contents
        )

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
        features = self.features if self.says_features else inferred_features(facts, uri=self.uri)
        changes: dict[str, Any] = {"shards": counted, "features": features, "says_features": True}
        return dataclasses.replace(self, **changes), facts


def open_dataset(
    artifact: Place | os.PathLike[str] | Artifact,
    *,
    inspect: bool = True,
    reads_all: bool = False,
    cache_folder: str | None = None,
) -> Dataset:
    """Read the metadata of a dataset and check it against the files.

    Args:
        artifact: a uri, a TFX artifact, or a pattern in TFX's `fn_args.train_files`. For the output
            folder of `convert`, it is the newest dataset there. Or TFRecord files: a path, a
            pattern such as `data/train-*`, or a tuple of these, with the metadata of their dataset.
        inspect: whether to read records for counts and features that the metadata lacks.
        reads_all: whether to infer features from all records. Otherwise the features of a large
            dataset are inferred from a sample; see `Dataset.sampled`.
        cache_folder: the folder for what inspection found; None for the default.

    Raises:
        DatasetError: there is no dataset, or it is incomplete; the message names the problem.
    """
    place = artifact if isinstance(artifact, tuple) else newest_dataset(uri_of(artifact))
    try:
        dataset = _found(list_dataset(place, with_index=False))
        if not inspect:
            return dataset
        return _inspected(dataset, reads_all=reads_all, cache_folder=cache_folder)
    except TfxShardsError:
        raise
    except (OSError, TypeError, ValueError) as error:  # an invalid path
        uri = place if isinstance(place, str) else ", ".join(place[:3])
        raise DatasetError(f"{uri!r}: cannot be read: {type(error).__name__}: {error}") from error


_inspections: dict[tuple[object, ...], Dataset] = {}
_MAX_INSPECTIONS = 16


def _inspected(dataset: Dataset, *, reads_all: bool, cache_folder: str | None) -> Dataset:
    """Inspect a dataset, once while its files stay the same: trainers open it many times."""
    if dataset.says_features and dataset.is_counted:
        return dataset
    versions = [dataset.files.version(shard.name) for shard in dataset.shard_files]
    files = [(s.path, s.records, v) for s, v in zip(dataset.shard_files, versions, strict=True)]
    state = dataset.uri, dataset.says_features, reads_all, tuple(files)
    if (inspected := _inspections.get(state)) is None:
        if len(_inspections) >= _MAX_INSPECTIONS:
            _inspections.clear()
        is_small = sum(map(_unpacked_estimate, dataset.shard_files)) <= WHOLE_BYTES
        if not dataset.says_features and (reads_all or is_small):
            inspected = dataset.with_facts(takes_mixed=True)[0]
        else:
            inspected = _counted(dataset, versions, cache_folder)
            if not dataset.says_features:
                features, sampled = features_of_sample(
                    inspected.shard_files, versions, uri=dataset.uri, folder=cache_folder
                )
                inspected = dataclasses.replace(inspected, features=features, sampled=sampled)
        _inspections[state] = inspected
    features = dataset.features if dataset.says_features else inspected.features
    changes: dict[str, Any] = {"features": features, "sampled": inspected.sampled}
    return dataclasses.replace(dataset, shards=inspected.shards, says_features=True, **changes)


def _unpacked_estimate(shard: ShardFile) -> int:
    return shard.bytes * (_USUAL_RATIO if shard.is_gzip else 1)


def _counted(dataset: Dataset, versions: Sequence[str], cache_folder: str | None) -> Dataset:
    """Return the dataset with the number of records of every shard."""
    known = dict(zip([shard.path for shard in dataset.shard_files], versions, strict=True))
    counts = {shard.path: shard.records for shard in dataset.shard_files}
    unknown = [shard for shard in dataset.shard_files if shard.records is None]
    counted = count_records(
        unknown, [known[s.path] for s in unknown], uri=dataset.uri, folder=cache_folder
    )
    counts |= {shard.path: count for shard, count in zip(unknown, counted, strict=True)}
    shards = {
        split: [shard._replace(records=counts[shard.path]) for shard in group]
        for split, group in dataset.shards.items()
    }
    return dataclasses.replace(dataset, shards=shards)


def _found(files: DatasetFiles) -> Dataset:
    layout = files.layout()
    shards = {
        split: [_shard(files, shard, layout.named_in) for shard in group]
        for split, group in layout.shards.items()
    }
    features = layout.features
    if layout.named_in == DATUM_SHARDS_FILE and layout.manifest is None:
        features = _checked(features, [group[0].path for group in shards.values() if group])
    known = vars(layout) | {"shards": shards, "features": features}
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
                values = decode_example(record, lists)
                for name in lists:
                    counts[name].add(len(values.get(name, ())))
    return {**features} | {
        name: dataclasses.replace(features[name], dense=False, shape=(max(lengths),))
        for name, lengths in counts.items()
        if len(lengths) > 1
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
    keys_of_shards = [np.zeros(0, np.uint64)]
    for part in ranges:
        index = index_with_checksums(shards[part.path])
        sums = (index.payload_crcs, index.name_crcs, index.lengths)
        payloads, names, lengths = (np.asarray(column).astype(np.uint64) for column in sums)
        keys = payloads << np.uint64(32) | names ^ lengths
        keys_of_shards.append(keys[part.numbers])
    return np.concatenate(keys_of_shards)


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
