"""Opens a dataset wherever it is and whoever wrote it: ours, Datum's, TFDS's, TFX's, bare files.

dataset = open_dataset("gs://bucket/examples/5")
dataset.records, dataset.features           # {'train': 2000}, {'image': Feature(…), …}
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer_utils.dataset.files import DatasetFiles, list_dataset
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.location import Artifact, Place, newest_dataset, uri_of
from trainer_utils.dataset.shards import (
    check_count,
    is_gzip,
    look_for_gzip,
    read_index,
    read_shard_blocks,
)
from trainer_utils.format import DatasetError, Feature, SplitRange
from trainer_utils.format.example import decode_example
from trainer_utils.format.layouts import DatasetLayout, ShardFile
from trainer_utils.format.naming import DATUM_SHARDS_FILE
from trainer_utils.format.slices import FileRange, RecordPositions
from trainer_utils.storage import is_remote

_MOST_LOOKED_AT, _LOOKED_AT_BYTES = 256, 1 << 20  # records of a file, and bytes at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(DatasetLayout):
    """An opened dataset: at `uri`, with `files`; whether it is just some files that were asked for
    one by one, `named_files`."""

    uri: str
    files: DatasetFiles
    named_files: bool = False

    @property
    def digest(self) -> str:
        """Of what the dataset holds, wherever it lies: its manifest, else sizes and counts."""
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
        """Whether the records of every shard are known."""
        return all(shard.records is not None for shard in self.shard_files)

    @property
    def records(self) -> dict[str, int]:
        """Records by split, of a dataset that is counted."""
        return {split: sum(s.num_records for s in shards) for split, shards in self.shards.items()}

    @functools.cached_property
    def vocabularies(self) -> Mapping[str, Sequence[str]]:
        """The names of classes by feature; an id is the number of its line."""
        return {name: self.read_lines(path) for name, path in self.vocabulary_files.items()}

    def read_text(self, name: str) -> str:
        """One of its small files, as the manifest says that it is."""
        text = self.files.read_text(name)
        if self.manifest is not None:
            self.manifest.check_text(name, text, path=self.files.path(name))
        return text

    def read_lines(self, name: str) -> list[str]:
        """The lines of one of its small files, which end with a newline and nothing else."""
        lines = self.read_text(name).split("\n")
        return lines if lines[-1] else lines[:-1]

    def file_ranges(self, wanted: SplitRange) -> list[FileRange]:
        """The parts of files that hold a range of a split's records, in order."""
        files = [FileRange(s.path, 0, s.num_records) for s in self.shards[wanted.split]]
        return RecordPositions(files).cut(wanted.start, wanted.stop)

    def with_facts(self, *, takes_lists: bool = True) -> tuple["Dataset", DatasetFacts]:
        """The same with all counts and features, for which every record is read, and their facts.

        Feature lists that are not to be taken, and a count that is not the dataset's, are errors.
        """
        facts, counted = DatasetFacts(), {}
        for split, shards in self.shards.items():
            counted[split] = list[ShardFile]()
            for shard in shards:
                before = facts.records
                for block in read_shard_blocks(shard.path):
                    facts.add(block, path=shard.path, takes_lists=takes_lists)
                check_count(shard, records := facts.records - before)
                counted[split].append(shard._replace(records=records))
        features = self.features if self.says_features else features_of_facts(facts)
        changes: dict[str, Any] = {"shards": counted, "features": features, "says_features": True}
        return dataclasses.replace(self, **changes), facts


def open_dataset(artifact: Place | os.PathLike[str] | Artifact, *, inspect: bool = True) -> Dataset:
    """Reads what says what a dataset holds, and compares it with the files that are there.

    Args:
        artifact: a uri, a TFX artifact, or a pattern in TFX's `fn_args.train_files`; of the folder
            that `convert` was given, its newest dataset. Or files of TFRecords: a path, a pattern
            such as `data/train-*`, or a tuple of these, of which goes what their dataset says.
        inspect: whether records are read to count them and to find out their features where
            nothing says so.

    Raises:
        DatasetError: there is no dataset, or it is not whole; the message names the problem.
    """
    place = artifact if isinstance(artifact, tuple) else newest_dataset(uri_of(artifact))
    try:
        dataset = _found(list_dataset(place, with_index=False))
        return _inspected(dataset) if inspect else dataset
    except DatasetError:
        raise
    except (OSError, TypeError, ValueError) as error:  # of a path
        uri = place if isinstance(place, str) else ", ".join(place[:3])
        raise DatasetError(f"{uri!r}: cannot be read: {type(error).__name__}: {error}") from error


_inspections: dict[tuple[object, ...], Dataset] = {}
_MOST_INSPECTIONS = 16


def _inspected(dataset: Dataset) -> Dataset:
    """The dataset inspected, once while its files stay as they are: trainers open it many times."""
    if dataset.says_features and dataset.is_counted:
        return dataset
    version = dataset.files.version
    versions = tuple((s.path, s.records, version(s.name)) for s in dataset.shard_files)
    state = dataset.uri, dataset.says_features, versions
    if (found := _inspections.get(state)) is None:
        if len(_inspections) >= _MOST_INSPECTIONS:
            _inspections.clear()
        found = _counted(dataset) if dataset.says_features else dataset.with_facts()[0]
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
    """Datum's features, of which lists that differ in length are no longer called dense.

    Datum describes features by the last example that it wrote: boxes by how many that image has. So
    the first records of files are looked at; one that cannot be read is whoever reads it's to say.
    """
    lists = {n: f.shape[0] for n, f in features.items() if f.dense and len(f.shape) == 1}
    counts = {name: {length} for name, length in lists.items()}
    for path in paths if lists else ():
        with contextlib.suppress(DatasetError, OSError):
            blocks = read_shard_blocks(path, block_bytes=_LOOKED_AT_BYTES)
            records = itertools.chain.from_iterable(block.records() for block in blocks)
            for record in itertools.islice(records, _MOST_LOOKED_AT):
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
    if size and shard.entry is None and not is_remote(path):
        look_for_gzip(path)
    return shard._replace(path=path, bytes=size, is_gzip=is_gzip(path))
