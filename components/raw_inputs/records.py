"""Read raw inputs as the records that a conversion makes of them.

records = FileRecords(…)
records.read("train", [0, 17])       # the parts of two serialized examples
"""

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.file_examples import MediaFacts, Stored, encode_values
from components.example_gen.file_shards import encode_entry
from components.example_gen.settings import MediaSettings
from components.inputs.arrow_columns import int_array
from components.inputs.blob_reader import BlobReader, RowGroups
from components.inputs.input_table import Blob, BlobColumn, Column, Entry, entries_of
from components.inputs.rejects import RejectedInputError, reject_errors
from components.media.options import DESCRIPTIONS
from trainer_utils.core.errors import ConfigError
from trainer_utils.dataset.raw_inputs import RejectedRecordError
from trainer_utils.format import Feature
from trainer_utils.format.example import encode_example
from trainer_utils.format.input_listing import InputListing
from trainer_utils.storage import display_path, is_remote, join, retry_transient
from trainer_utils.storage.paths import encode_path

_REMOTE_THREADS, _LOCAL_THREADS = 64, 4
_ROW_GROUP_BYTES = 512 << 20  # of Parquet, whose rows are read in random order
_AHEAD_BYTES = 256 << 20  # of files that were requested ahead and not used yet
_NAME = "filename"  # the feature that every example has
_MAX_WAITING = 1 << 14  # files to request once there is space

_Read = list[bytes] | RejectedInputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileRecords:
    """The records of files, by split and number: `RawRecords` of `trainer_utils`.

    Args:
        rows: the inputs, with labels as ids.
        order: by split, the rows of its records in order.
        columns: the features with values from inputs.
        blobs: the features with files from inputs.
        base: the folder that paths are relative to.
        settings: the settings of the ExampleGen.
        listing: the identity of the dataset by its inputs.
        assumed: by feature, the facts that the dataset's features assume of every file.
    """

    rows: pa.Table
    order: Mapping[str, npt.NDArray[np.int64]]
    columns: tuple[Column, ...]
    blobs: tuple[BlobColumn, ...]
    base: str
    settings: MediaSettings
    listing: InputListing
    assumed: Mapping[str, "AssumedFacts"] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def is_remote(self) -> bool:
        """Whether reading a record takes a request."""
        return is_remote(self.base) or any(map(is_remote, self.settings.file_roots))

    @property
    def _files(self) -> "_FileReader":
        """The reader of this process: threads and locks do not survive a fork."""
        files: _FileReader | None = vars(self).get("_own_files")
        if files is None or files.process != os.getpid():
            settings = self.settings
            reader = BlobReader(
                self.base,
                settings.file_roots,
                follow_links=settings.follow_links,
                row_groups=RowGroups(_ROW_GROUP_BYTES),
            )
            files = vars(self)["_own_files"] = _FileReader(reader, is_remote=self.is_remote)
        return files

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def release(self) -> None:
        """Free this process's threads and the files in memory; a later read gets them again."""
        files: _FileReader | None = vars(self).pop("_own_files", None)
        if files is not None and files.process == os.getpid():
            files.cancel()

    def _entries(self, split: str, numbers: Sequence[int]) -> list[Entry]:
        rows = self.order[split][np.asarray(numbers, np.int64)]
        return [*entries_of(pc.take(self.rows, int_array(rows)).combine_chunks())]

    @functools.cached_property
    def listed_features(self) -> frozenset[str]:
        """Features whose values the list of inputs has, so that no file must be read for them.

        Lists are left out, since boxes may be fitted to the image that is stored.
        """
        measured = {name for name, _ in self.blobs}
        measured |= {name for _, kind in self.blobs for name in DESCRIPTIONS.get(kind, ())}
        single = {column.name for column in self.columns if not column.is_list}
        return frozenset((single | {_NAME}) - measured)

    def listed(self, split: str, numbers: Sequence[int]) -> list[list[bytes]]:
        """Return serialized examples that only have the listed features, each in parts."""
        columns = [column.name in self.listed_features for column in self.columns]
        examples = []
        for entry in self._entries(split, numbers):
            values = itertools.compress(entry.values, columns)
            features = encode_values([*itertools.compress(self.columns, columns)], [*values])
            examples.append(encode_example({**features, _NAME: encode_path(entry.name)}))
        return examples

    def source_of(self, split: str, number: int) -> str:
        """Return the path of the input of a record."""
        return self._path(self._entries(split, [number])[0])

    def _path(self, entry: Entry) -> str:
        return display_path(join(self.base, entry.name))

    def read_ahead(self, split: str, numbers: Sequence[int]) -> None:
        """Start reading the files of records that are needed soon."""
        self._files.read_ahead(
            [blob for entry in self._entries(split, numbers) for blob in entry.blobs]
        )

    def read(
        self, split: str, numbers: Sequence[int], checks: Mapping[str, Collection[str]]
    ) -> list[list[bytes] | RejectedRecordError]:
        """Return the serialized example of each record in parts, or the reason for a missing one.

        Args:
            split: the split.
            numbers: the numbers of the records.
            checks: by feature, the facts that must be as in the features of the dataset.

        Raises:
            ConfigError: a file differs from the features of the dataset.
            MachineError: the machine failed.
        """
        results: list[list[bytes] | RejectedRecordError] = []
        for entry, encoded in self._encode(split, numbers):
            if isinstance(encoded, RejectedInputError):
                problem = RejectedRecordError(self._path(entry), encoded.code, encoded.detail)
                results.append(problem)
                continue
            media, parts = encoded
            for name in checks.keys() & self.assumed.keys() & media.keys():
                path = self._path(entry)
                self.assumed[name].check(media[name], checks[name], name=name, path=path)
            results.append(parts)
        return results

    def media_of(self, split: str, numbers: Sequence[int]) -> list[Mapping[str, Stored]]:
        """Return the stored files of records by feature, without rejected ones."""
        return [
            encoded[0]
            for _, encoded in self._encode(split, numbers)
            if not isinstance(encoded, RejectedInputError)
        ]

    def _encode(
        self, split: str, numbers: Sequence[int]
    ) -> Iterator[tuple[Entry, tuple[Mapping[str, Stored], list[bytes]] | RejectedInputError]]:
        """Yield each record's input, and its stored files and its example, or its rejection."""
        entries = self._entries(split, numbers)
        for entry, blobs in zip(entries, self._files.read(entries), strict=True):
            try:
                with reject_errors():
                    media, parts, _ = encode_entry(
                        entry, blobs, self.columns, self.blobs, self.settings
                    )
            except RejectedInputError as error:
                yield entry, error
            else:
                yield entry, (media, parts)


@dataclasses.dataclass(frozen=True)
class AssumedFacts:
    """Facts that a dataset's feature assumes of all files, judged by the first of them.

    Args:
        numbers: numbers that all have, such as `channels`.
        most_bits: the most bits per channel; None for audio.
    """

    numbers: Mapping[str, int]
    most_bits: int | None = None

    def check(self, stored: Stored, facts: Collection[str], *, name: str, path: str) -> None:
        """Raise ConfigError if some facts of a file differ."""
        for fact, value in self.numbers.items():
            got = getattr(stored, fact)
            if got != value and fact in facts:
                raise ConfigError(
                    f"{path}: expected {fact} {value} of feature {name!r} as in the first files, "
                    f"got {got}. {_CURES.get(fact, _CURE)}",
                    setting="conversion",
                    value=got,
                )
        bits = getattr(stored, "bits", 0)
        if self.most_bits is not None and bits > self.most_bits and "bits" in facts:
            raise ConfigError(
                f"{path}: expected at most {self.most_bits} bits per channel of feature {name!r} "
                f"as in the first files, got {bits}. Store 8 bits of all images: "
                "conversion={'sixteen_bit': 'scale'}; or convert the inputs.",
                setting="conversion",
                value=bits,
            )


_CURE = "Convert the inputs, which looks at every file: tfx-shards convert."
_CURES = {
    "channels": "Read all with as many channels: image={'channels': 3}.",
    "height": "Set image_size, to resize all images.",
    "width": "Set image_size, to resize all images.",
    "sample_rate": "Resample all clips: conversion={'sample_rate': 16_000}.",
}


def facts_of(samples: Sequence[Mapping[str, Stored]]) -> dict[str, MediaFacts]:
    """Return the facts of some files, by feature."""
    facts: dict[str, MediaFacts] = {}
    for media in samples:
        for name, stored in media.items():
            facts.setdefault(name, MediaFacts()).add(stored)
    return facts


def features_of(facts: Mapping[str, MediaFacts], blobs: Sequence[BlobColumn]) -> dict[str, Feature]:
    """Return the features of files, from the facts of some of them."""
    for known in facts.values():
        known.ranges.pop("num_frames", None)  # other clips may be longer
    return {name: facts[name].feature(kind) for name, kind in blobs if name in facts}


class _FileReader:
    """Reader of files by several threads, with some read ahead.

    Args:
        reader: reads one file.
        is_remote: whether each file is a request, so that many are read at the same time.
    """

    def __init__(self, reader: BlobReader, *, is_remote: bool) -> None:
        self._reader, self.process = reader, os.getpid()
        self._is_remote = is_remote
        self._lock = threading.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(
            _REMOTE_THREADS if is_remote else _LOCAL_THREADS, thread_name_prefix="tfx-shards-files"
        )
        self._waiting: collections.OrderedDict[Blob, None] = collections.OrderedDict()
        self._ahead: collections.OrderedDict[Blob, concurrent.futures.Future[bytes]] = (
            collections.OrderedDict()
        )
        self._ahead_bytes = 0

    def read_ahead(self, blobs: Sequence[Blob]) -> None:
        """Start reading files in this order, as far as there is space for them."""
        with self._lock:
            for blob in blobs:
                if blob not in self._ahead and blob.size <= _AHEAD_BYTES // 4:
                    self._waiting[blob] = None
            while len(self._waiting) > _MAX_WAITING:  # of an order that was left
                self._waiting.popitem(last=False)
            self._start()

    def read(self, entries: Sequence[Entry]) -> list[_Read]:
        """Return the files of each entry, or why they cannot be read."""
        blobs = dict.fromkeys(blob for entry in entries for blob in entry.blobs)
        with self._lock:
            is_full = bool(self._waiting) and self._ahead_bytes > _AHEAD_BYTES // 2
            read = {blob: self._take(blob) for blob in blobs if blob in self._ahead}
            for blob in blobs:
                self._waiting.pop(blob, None)
            if is_full and not read:  # the files ahead are of an order that was left
                for blob in [*self._ahead]:
                    self._take(blob).cancel()
            if self._is_remote:
                read |= {b: self._pool.submit(self._read, b) for b in blobs if b not in read}
            self._start()
        return [self._read_entry(entry, read) for entry in entries]

    def cancel(self) -> None:
        """Drop the files that are read ahead. The threads end with this object."""
        with self._lock:
            self._waiting.clear()
            for blob in [*self._ahead]:
                self._take(blob).cancel()

    def _take(self, blob: Blob) -> "concurrent.futures.Future[bytes]":
        """Remove a file from those read ahead."""
        self._ahead_bytes -= blob.size
        return self._ahead.pop(blob)

    def _start(self) -> None:
        """Start reading the files that are waiting, as far as there is space for them."""
        while self._waiting:
            blob = next(iter(self._waiting))
            if self._ahead_bytes + blob.size > _AHEAD_BYTES:
                return
            del self._waiting[blob]
            self._ahead[blob] = self._pool.submit(self._read, blob)
            self._ahead_bytes += blob.size

    def _read_entry(
        self, entry: Entry, read: Mapping[Blob, "concurrent.futures.Future[bytes]"]
    ) -> _Read:
        try:
            with reject_errors():
                return [
                    read[blob].result() if blob in read else self._read(blob)
                    for blob in entry.blobs
                ]
        except RejectedInputError as error:
            return error

    def _read(self, blob: Blob) -> bytes:
        return retry_transient(blob.path, self._reader.read, blob)
