"""Writes one shard of media: reads its files, keeps or converts each, and encodes the examples.

    write = WriteMediaShard(plan.columns, plan.blobs, "photos/", uri, settings)
    shard, summary = write(plan.tasks[0].argument)

Light: workers do it in processes that have neither TFX nor Beam.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import resource
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from components.common.entry import Blob, BlobColumn, BlobReader, Column, Entry, Value, label_column
from components.common.fingerprint import sum_blobs
from components.common.rejects import Reject, RejectedInputError, reject_errors
from components.example_gen.boxes import SIZE_COLUMNS
from components.example_gen.file_plan import EncodedPart, ShardTask
from components.example_gen.media import (
    KnownShard,
    ShardSummary,
    Stored,
    check_annotation,
    describe_media,
    store_media,
)
from components.example_gen.settings import MediaSettings
from trainer_utils.format import Shard, ShardName, ShardWriter, encode_example
from trainer_utils.format.checksums import extend_crc32c
from trainer_utils.format.index import name_of
from trainer_utils.format.planning import keyed_digests
from trainer_utils.storage import (
    exists,
    is_remote,
    join,
    persist,
    read_bytes,
    write_atomically,
)
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import copy_shard, verify_shard, write_shard

__all__ = ["WriteMediaShard"]

# Files are read ahead in groups, since handing a thread one small file costs as much as reading
# it; small groups, since what is held beyond the processor's cache is written at half the pace.
# (threads, files in a group): an object store answers a request in some 30 ms, so that 48 requests
# at once give a process 1,600 files a second.
_GROUP_BYTES = 8 << 20
_LOCAL, _REMOTE, _TABLE = (4, 16), (48, 2), (1, 16)
_RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # Linux has it


@dataclasses.dataclass(frozen=True)
class WriteMediaShard:
    """Writes the shard of a task.

    Args:
        columns: the features that entries have values of.
        blobs: the features that entries have files of.
        base: the folder that paths are relative to.
        uri: of the dataset.
        settings: of the component.
    """

    columns: tuple[Column, ...]
    blobs: tuple[BlobColumn, ...]
    base: str
    uri: str
    settings: MediaSettings

    def __call__(self, task: ShardTask) -> tuple[Shard, ShardSummary]:
        """Reads a task's files, writes its shard under the shard's final name, and reads it back.

        A bad file becomes a reject in the summary; failing to write raises.
        """
        name = ShardName(
            split=task.split,
            shard_index=task.shard_index,
            num_shards=task.num_shards,
            gzip=self.settings.gzip,
        )
        if task.known is not None and (kept := self._kept(task, task.known, name)) is not None:
            return kept
        summary = ShardSummary()

        def fill(writer: ShardWriter) -> None:
            for part in task.parts:
                data = persist(part.path, read_bytes, part.path)
                if extend_crc32c(0, data) != part.crc32c:
                    raise part.error()
                index = part.index
                lengths = index.lengths.astype(np.int64)
                assert index.payload_crcs is not None
                writer.write_framed(data, lengths, index.payload_crcs, index.name_crcs)
                summary.join(part.summary)
            if not task.parts:
                summary.join(self._fill(task, writer))

        shard = write_shard(name, fill, uri=self.uri)
        verify_shard(shard, uri=self.uri)
        return shard, summary

    def make_part(self, task: ShardTask) -> EncodedPart:
        """Encodes a part of a shard into a file of the working folder."""
        folder = working_folder(self.uri)
        path = join(folder, f"{task.split}-{task.shard_index:05d}-{uuid.uuid4().hex}")
        with write_atomically(path, temporary_folder=folder) as stream:
            writer = ShardWriter(stream)
            summary = self._fill(task, writer)
            digest = writer.finish()
        return EncodedPart(path, digest.crc32c, writer.index, summary)

    def check_part(self, part: EncodedPart) -> None:
        """Makes sure that a part of an earlier run stands as it was.

        Raises:
            DatasetError: it does not.
        """
        if not exists(part.path) or extend_crc32c(0, read_bytes(part.path)) != part.crc32c:
            raise part.error()

    def _fill(self, task: ShardTask, writer: ShardWriter) -> ShardSummary:
        """Reads files, encodes the examples, and says what became of them."""
        summary = ShardSummary()
        facts: list[tuple[Blob, int | None]] = []
        rejected: list[tuple[Blob, int | None]] = []
        label_place = label_column(self.columns)
        names: list[bytes] = []
        states: list[bytes] = []

        for entry, blobs, sums in _read_ahead(task.entries, self.base, self.settings.image_roots):
            facts.extend(zip(entry.blobs, sums, strict=True))
            try:
                with reject_errors():
                    media, example, named = persist(entry.name, self._encode, entry, blobs)
            except RejectedInputError as error:
                rejected.extend(zip(entry.blobs, sums, strict=True))
                summary.rejects.append(Reject(task.split, entry.name, error.code, error.detail))
            else:
                writer.write(example, name=named)
                names.append(_text(entry.name))
                states.append(_state_of(entry, blobs, sums))
                summary.add(media, self.columns, entry.values)
                if label_place is not None:
                    _count(summary.labels, entry.values[label_place])

        summary.names = _sums_of(names, purpose="name")
        summary.states = _sums_of(states, purpose="state")
        summary.fingerprint = sum_blobs(facts, self.settings.image_roots)
        summary.own_fingerprint = summary.fingerprint - sum_blobs(
            rejected, self.settings.image_roots
        )
        return summary

    def _kept(
        self, task: ShardTask, known: KnownShard, name: ShardName
    ) -> tuple[Shard, ShardSummary] | None:
        """The shard that these inputs were in, under its new name; None where one has changed."""
        if not known.is_listed:
            entries = task.entries
            if len(entries) != len(known.summary.states):
                return None
            read = _read_ahead(entries, self.base, self.settings.image_roots)
            states = (_state_of(*one) for one in read)
            if _sums_of(states, purpose="state") != known.summary.states:
                return None
        return copy_shard(known.shard, name, source=known.uri, uri=self.uri), known.summary

    def check(self, result: tuple[Shard, ShardSummary]) -> None:
        """Makes sure that a shard of an earlier run stands as it was.

        Raises:
            DatasetError: it does not.
        """
        verify_shard(result[0], uri=self.uri)

    def _encode(
        self, entry: Entry, blobs: list[bytes] | RejectedInputError
    ) -> tuple[Mapping[str, Stored], list[bytes], bytes | None]:
        """What an entry's files are stored as, its example, and the name that this goes by."""
        media = store_media(entry, blobs, self.blobs, self.settings)
        size = [entry.values[place] for place in self._size_places]
        if any(size):
            media = check_annotation(media, blobs, size, self.settings)
        features = _features(entry, media, self.columns)
        return media, encode_example(features), name_of(features)

    @functools.cached_property
    def _size_places(self) -> list[int]:
        """Where values have the size that an annotation gives its image, if the layout has such."""
        names = [column.name for column in self.columns]
        is_of_images = self.blobs[0].kind == "image"  # a sound's `height` is a feature like others
        return [names.index(c.name) for c in SIZE_COLUMNS if is_of_images and c.name in names]


def _features(
    entry: Entry, media: Mapping[str, Stored], columns: Sequence[Column]
) -> dict[str, Any]:
    """Those of its `tf.train.Example`."""
    features = encode_values(columns, entry.values)
    features |= {"filename": _text(entry.name), **describe_media(media.values())}
    return features | {feature: stored.data for feature, stored in media.items()}


def _state_of(
    entry: Entry, blobs: list[bytes] | RejectedInputError, sums: Sequence[int | None]
) -> bytes:
    """All that a record is made of: a name, values, and files by length and CRC-32C."""
    sizes = () if isinstance(blobs, RejectedInputError) else tuple(map(len, blobs))
    return _text(repr((entry.name, entry.values, sizes, (*sums,))))


def _sums_of(texts: Iterable[bytes], *, purpose: str) -> list[int]:
    """64-bit sums; of many at once, which takes a third of the time."""
    sums: list[int] = keyed_digests(texts, seed=0, purpose=purpose)[:, 0].tolist()
    return sums


def _count(labels: dict[int, int], value: Value) -> None:
    for label in value if isinstance(value, tuple) else (value,):
        if isinstance(label, int):
            labels[label] = labels.get(label, 0) + 1


def encode_values(columns: Sequence[Column], values: Sequence[Value]) -> dict[str, Any]:
    """An entry's values as features: texts as UTF-8, floats as floats, missing ones left out."""
    features: dict[str, Any] = {}
    for column, value in zip(columns, values, strict=True):
        encode = _ENCODE.get(column.kind, int)
        if isinstance(value, tuple):
            features[column.name] = tuple(map(encode, value))
        elif value is not None:
            features[column.name] = encode(value)
    return features


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


_ENCODE: Mapping[str, Callable[[Any], bytes | float]] = {"string": _text, "float": float}


# An entry, its files, and the CRC-32C of each: of what was read, whatever becomes of it.
_Read = tuple[Entry, list[bytes] | RejectedInputError, list[int | None]]


def _read_ahead(entries: Sequence[Entry], base: str, image_roots: Sequence[str]) -> Iterator[_Read]:
    """Entries in order, groups of them read by threads before they are asked for.

    Of local files only from when reading has had to wait for a disk or a network: what lies in
    memory takes less than two turns at the interpreter's lock.
    """
    kind = _REMOTE if is_remote(base) else _LOCAL
    if entries and entries[0].blobs[0].row is not None:  # a thread holds a group of rows
        kind = _TABLE
    threads, group_files = kind
    groups = _groups(entries, group_files)
    if kind is _LOCAL:
        reader = BlobReader(base, image_roots)
        for group in groups:
            waits = _count_waits()
            found = [_read(reader, entry) for entry in group]
            has_waited = _count_waits() - waits > len(group) / 2
            yield from found
            if has_waited:
                break
    yield from _read_by_threads(groups, threads, base, image_roots)


def _count_waits() -> int:
    """How often this thread has given its core away to wait for something."""
    return resource.getrusage(_RUSAGE_THREAD).ru_nvcsw


def _read_by_threads(
    groups: Iterator[Sequence[Entry]], threads: int, base: str, image_roots: Sequence[str]
) -> Iterator[_Read]:
    readers = threading.local()

    def read_group(group: Sequence[Entry]) -> list[_Read]:
        if not hasattr(readers, "own"):
            readers.own = BlobReader(base, image_roots)
        return [_read(readers.own, entry) for entry in group]

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        pending: collections.deque[concurrent.futures.Future[list[_Read]]] = collections.deque()
        for group in groups:
            pending.append(pool.submit(read_group, group))
            if len(pending) > threads:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _groups(entries: Sequence[Entry], group_files: int) -> Iterator[Sequence[Entry]]:
    start = group_bytes = 0
    for stop, entry in enumerate(entries):
        size = sum(blob.size for blob in entry.blobs)
        if stop > start and (group_bytes + size > _GROUP_BYTES or stop - start >= group_files):
            yield entries[start:stop]
            start, group_bytes = stop, 0
        group_bytes += size
    if start < len(entries):
        yield entries[start:]


def _read(reader: BlobReader, entry: Entry) -> _Read:
    try:
        with reject_errors():
            blobs = [persist(blob.path, reader.read, blob) for blob in entry.blobs]
    except RejectedInputError as error:
        return entry, error, [None] * len(entry.blobs)
    return entry, blobs, [extend_crc32c(0, blob) for blob in blobs]
