"""Writes one shard of files: reads them, keeps or converts each, and encodes the examples.

    write = WriteMediaShard(plan.columns, plan.blobs, "photos/", uri, settings)
    shard, summary = write(plan.tasks[0].argument)

Light: workers do it in processes that have neither TFX nor Beam.
"""

import collections
import concurrent.futures
import dataclasses
import resource
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from absl import logging

from components.common.entry import (
    Blob,
    BlobColumn,
    BlobReader,
    Column,
    Entry,
    entries_of,
    label_column,
    sum_blobs,
)
from components.common.rejects import (
    Reject,
    RejectedInputError,
    RejectLimit,
    reject_errors,
    without_bytes,
)
from components.example_gen.file_examples import ShardSummary, Stored, make_example
from components.example_gen.settings import MediaSettings
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordIndex,
    Shard,
    ShardName,
    ShardWriter,
    encode_example,
)
from trainer_utils.format.index import name_of
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.format.planning import keyed_digests
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import (
    is_fault,
    is_remote,
    join,
    modification_time,
    persist,
    read_bytes,
    write_atomically,
)
from trainer_utils.storage.file_system import encode_path
from trainer_utils.writing.publishing import copy_shard, verify_shard, working_folder, write_shard

__all__ = ["EncodedPart", "KnownShard", "ShardTask", "WriteMediaShard"]

# Files are read ahead in groups, since handing a thread one small file costs as much as reading
# it; small groups, since what is held beyond the processor's cache is written at half the pace.
# (threads, files in a group): an object store answers a request in some 30 ms, so that 48 requests
# at once give a process 1,600 files a second.
_GROUP_BYTES = 8 << 20
_LOCAL, _REMOTE, _TABLE = (4, 16), (48, 2), (1, 16)
_RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # Linux has it


@dataclasses.dataclass(frozen=True)
class KnownShard:
    """A shard of an earlier conversion."""

    uri: str  # of its dataset
    shard: Shard
    summary: ShardSummary  # what its records were made of
    # A digest of what a listing says of its inputs; empty: that does not say enough
    listing: str = ""
    is_listed: bool = False  # whether the listing still says the same, so that no file need be read


@dataclasses.dataclass(frozen=True)
class EncodedPart:
    """Neighbouring records of a shard, framed, in a file of the working folder of that CRC-32C."""

    path: str
    crc32c: int
    index: RecordIndex
    summary: ShardSummary

    def read(self) -> bytes:
        """The frames; a CorruptShardError where the file is not what was written."""
        data = persist(self.path, read_bytes, self.path)
        if (found := extend_crc32c(0, data)) != self.crc32c:
            raise CorruptShardError.at(
                self.path,
                expected=f"the bytes with checksum {self.crc32c:08x} that were written",
                got=f"others, with {found:08x}",
                advice="The disk or file system lost data: run it again elsewhere.",
            )
        return data


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """One shard to write: its place, and its inputs, labels as ids."""

    name: ShardName
    rows: pa.Table  # of the inputs, or of all of a plan
    # Of the inputs among `rows`; None: all of these. To another process goes no other
    places: npt.NDArray[np.int64] | None = None
    # The shard that these inputs were in before, if they all come from one
    known: KnownShard | None = None
    # What was made of the inputs already, in order; empty: nothing
    parts: tuple[EncodedPart, ...] = ()

    @property
    def own_rows(self) -> pa.Table:
        """The inputs, one a row."""
        if self.places is None:
            return self.rows
        # `pa.array` of numpy's imports pandas where there is one: half a second in each process.
        places = np.ascontiguousarray(self.places, np.int64)
        indices = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])
        return self.rows.take(indices)

    @property
    def entries(self) -> list[Entry]:
        """The inputs."""
        return [*entries_of(self.own_rows)]

    def __reduce__(self) -> Any:
        return ShardTask, (self.name, self.own_rows, None, self.known, self.parts)


@dataclasses.dataclass(frozen=True)
class WriteMediaShard:
    """Writes the shard of a task."""

    columns: tuple[Column, ...]  # the features that entries have values of
    blobs: tuple[BlobColumn, ...]  # the features that entries have files of
    base: str  # the folder that paths are relative to
    uri: str  # of the dataset
    settings: MediaSettings
    limit: RejectLimit | None = None  # ends the run early

    def __call__(self, task: ShardTask) -> tuple[Shard, ShardSummary]:
        """Reads a task's files, writes its shard under the shard's final name, and reads it back.

        A bad file becomes a reject in the summary; failing to write raises.
        """
        known = task.known
        if known is not None and self._is_unchanged(task, known) and _is_whole(known):
            copied = copy_shard(known.shard, task.name, source=known.uri, uri=self.uri)
            return copied, known.summary
        summary = ShardSummary()

        def fill(writer: ShardWriter) -> None:
            for part in task.parts:
                index = part.index
                lengths = index.lengths.astype(np.int64)
                assert index.payload_crcs is not None
                writer.write_framed(part.read(), lengths, index.payload_crcs, index.name_crcs)
                summary.join(part.summary)
            if not task.parts:
                summary.join(self._fill(task, writer))

        shard = write_shard(task.name, fill, uri=self.uri)
        verify_shard(shard, uri=self.uri)
        return shard, summary

    def make_part(self, task: ShardTask) -> EncodedPart:
        """Encodes a part of a shard into a file of the working folder."""
        folder, name = working_folder(self.uri), task.name
        path = join(folder, f"{name.split}-{name.shard_index:05d}-{uuid.uuid4().hex}")
        with write_atomically(path, temporary_folder=folder) as stream:
            writer = ShardWriter(stream)
            summary = self._fill(task, writer)
            digest = writer.finish()
        return EncodedPart(path, digest.crc32c, writer.index, summary)

    def _reader(self) -> BlobReader:
        settings = self.settings
        return BlobReader(self.base, settings.file_roots, follow_links=settings.follow_links)

    def _fill(self, task: ShardTask, writer: ShardWriter) -> ShardSummary:
        """Reads files, encodes the examples, and says what became of them."""
        summary, roots = ShardSummary(), self.settings.file_roots
        facts: list[tuple[Blob, int | None]] = []
        rejected: list[tuple[Blob, int | None]] = []
        label_place = label_column(self.columns)
        names: list[bytes] = []
        states: list[bytes] = []
        for entry, blobs, sums in _read_ahead(task.entries, self._reader()):
            facts.extend(zip(entry.blobs, sums, strict=True))
            try:
                with reject_errors():
                    media, example, name = persist(entry.name, self._encode, entry, blobs)
            except RejectedInputError as error:
                rejected.extend(zip(entry.blobs, sums, strict=True))
                detail = error.detail
                if any(blob.path.startswith("/") or is_remote(blob.path) for blob in entry.blobs):
                    detail = without_bytes(detail)  # below a file root, perhaps of somebody else
                reject = Reject(task.name.split, entry.name, error.code, detail)
                summary.rejects.append(reject)
                if self.limit is not None:
                    seen, where = len(names) + len(summary.rejects), f" of {task.name.path}"
                    self.limit.check(summary.rejects, seen=seen, where=where)
                continue
            writer.write(example, name=name)
            names.append(encode_path(entry.name))
            states.append(_state_of(entry, blobs, sums))
            summary.add(media, self.columns, entry.values)
            if label_place is not None:
                label = entry.values[label_place]
                for one in label if isinstance(label, tuple) else (label,):
                    if isinstance(one, int):
                        summary.labels[one] += 1
        summary.names = _sums_of(names, purpose="name")
        summary.states = _sums_of(states, purpose="state")
        summary.fingerprint = sum_blobs(facts, roots)
        summary.own_fingerprint = summary.fingerprint - sum_blobs(rejected, roots)
        return summary

    def _encode(
        self, entry: Entry, blobs: list[bytes] | RejectedInputError
    ) -> tuple[Mapping[str, Stored], list[bytes], bytes | None]:
        """What an entry's files are stored as, its example, and the name that this goes by."""
        media, features = make_example(entry, blobs, self.columns, self.blobs, self.settings)
        return media, encode_example(features), name_of(features)

    def _is_unchanged(self, task: ShardTask, known: KnownShard) -> bool:
        """Whether these inputs are still what a shard was made of; they are read to see."""
        if known.is_listed:
            return True
        entries = task.entries
        if len(entries) != len(known.summary.states):
            return False
        read = _read_ahead(entries, self._reader())
        states = _sums_of((_state_of(*one) for one in read), purpose="state")
        return states == known.summary.states

    def check(self, result: tuple[Shard, ShardSummary]) -> None:
        """Makes sure that a shard of an earlier run stands as it was; a DatasetError if not."""
        verify_shard(result[0], uri=self.uri)


def _is_whole(known: KnownShard) -> bool:
    """Return False if a shard was written to after its dataset was published, and is damaged."""
    path, manifest = join(known.uri, known.shard.path), join(known.uri, MANIFEST_FILE)
    try:
        if modification_time(path) > modification_time(manifest):
            verify_shard(known.shard, uri=known.uri)
    except DatasetError as error:
        if is_fault(error):
            raise
        logging.warning("%s", error)
        return False
    return True


def _state_of(
    entry: Entry, blobs: list[bytes] | RejectedInputError, sums: Sequence[int | None]
) -> bytes:
    """All that a record is made of: a name, values, and files by length and CRC-32C."""
    sizes = () if isinstance(blobs, RejectedInputError) else tuple(map(len, blobs))
    return encode_path(repr((entry.name, entry.values, sizes, (*sums,))))


def _sums_of(texts: Iterable[bytes], *, purpose: str) -> list[int]:
    """64-bit sums; of many at once, which takes a third of the time."""
    sums: list[int] = keyed_digests(texts, seed=0, purpose=purpose)[:, 0].tolist()
    return sums


# An entry, its files, and the CRC-32C of each: of what was read, whatever becomes of it.
_Read = tuple[Entry, list[bytes] | RejectedInputError, list[int | None]]


def _read_ahead(entries: Sequence[Entry], reader: BlobReader) -> Iterator[_Read]:
    """Yield entries in order, groups of them read by threads before they are asked for.

    Of local files only from when reading has had to wait for a disk or a network: what lies in
    memory takes less than two turns at the interpreter's lock.
    """
    # A local list may name files of a bucket, and a list in a bucket local ones.
    names_remote = any("://" in blob.path for entry in entries for blob in entry.blobs)
    kind = _REMOTE if is_remote(reader.base) or names_remote else _LOCAL
    first = entries[0].blobs[:1] if entries else ()
    if first and first[0].row is not None:  # a thread holds a group of rows
        kind = _TABLE
    threads, group_files = kind
    groups = _groups(entries, group_files)

    def read_group(group: Sequence[Entry]) -> list[_Read]:
        found: list[_Read] = []
        for entry in group:
            try:
                with reject_errors():
                    blobs = [persist(blob.path, reader.read, blob) for blob in entry.blobs]
            except RejectedInputError as error:
                found.append((entry, error, [None] * len(entry.blobs)))
            else:
                found.append((entry, blobs, [extend_crc32c(0, blob) for blob in blobs]))
        return found

    for group in groups if kind is _LOCAL else ():
        waits = _count_waits()
        found = read_group(group)
        has_waited = _count_waits() - waits > len(group) / 2
        yield from found
        if has_waited:
            break
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        pending: collections.deque[concurrent.futures.Future[list[_Read]]] = collections.deque()
        for group in groups:
            pending.append(pool.submit(read_group, group))
            if len(pending) > threads:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _count_waits() -> int:
    """How often this thread has given its core away to wait for something."""
    return resource.getrusage(_RUSAGE_THREAD).ru_nvcsw


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
