"""Write a shard from files: read them, keep or convert each, and encode the examples.

    write = WriteMediaShard(plan.columns, plan.blobs, "photos/", uri, settings)
    shard, summary = write(plan.tasks[0].argument)

The module is lightweight: worker processes import neither TFX nor Beam.
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
import pyarrow.compute as pc
from absl import logging

from components.example_gen.file_examples import ShardSummary, Stored, make_example
from components.example_gen.settings import MediaSettings
from components.inputs.arrow_columns import int_array
from components.inputs.blob_reader import BlobReader
from components.inputs.fingerprint import sum_blobs
from components.inputs.input_table import (
    Blob,
    BlobColumn,
    Column,
    Entry,
    entries_of,
    label_column,
)
from components.inputs.rejects import (
    Reject,
    RejectedInputError,
    RejectLimit,
    reject_errors,
    without_bytes,
)
from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.format import RecordIndex, Shard, ShardName, ShardWriter, encode_example
from trainer_utils.format.hashing import keyed_digests
from trainer_utils.format.index import name_of
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import (
    is_host_error,
    is_remote,
    join,
    modification_time,
    read_bytes,
    retry_transient,
    write_atomically,
)
from trainer_utils.storage.paths import encode_path
from trainer_utils.writing.shards import copy_shard, verify_shard, write_shard
from trainer_utils.writing.working_folder import working_folder

__all__ = ["EncodedPart", "KnownShard", "ShardTask", "WriteMediaShard", "encode_entry"]

# Files are read ahead in groups, since handing a thread one small file costs as much as reading it.
# Groups are small, since data beyond the processor's cache is written at half the speed. The pairs
# are (threads, files in a group). An object store answers a request in about 30 ms, so 48
# concurrent requests give a process 1,600 files a second.
_GROUP_BYTES = 8 << 20
_LOCAL, _REMOTE, _TABLE = (4, 16), (48, 2), (1, 16)
_RUSAGE_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # only on Linux


@dataclasses.dataclass(frozen=True)
class KnownShard:
    """A shard of an earlier conversion."""

    uri: str  # folder of the earlier dataset
    shard: Shard
    summary: ShardSummary  # summary of the inputs of its records
    # Digest of the listing of its inputs. Empty: the listing has too few details
    listing: str = ""
    is_listed: bool = False  # the listing is unchanged, so no file needs to be read


@dataclasses.dataclass(frozen=True)
class EncodedPart:
    """Consecutive framed records of a shard, in a file of the working folder with its CRC-32C."""

    path: str
    crc32c: int
    index: RecordIndex
    summary: ShardSummary

    def read(self) -> bytes:
        """Return the frames; raise CorruptShardError if the file has changed."""
        data = retry_transient(self.path, read_bytes, self.path)
        if (crc := extend_crc32c(0, data)) != self.crc32c:
            raise CorruptShardError.at(
                self.path,
                expected=f"the bytes that were written, with checksum {self.crc32c:08x}",
                got=f"other bytes, with {crc:08x}",
                advice="The disk or file system lost data: run it again elsewhere.",
            )
        return data


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """A shard to write: its name, and its inputs with labels as ids."""

    name: ShardName
    rows: pa.Table  # the inputs, or all inputs of a plan
    # Indices of the inputs in `rows`. None: all rows. Only these rows are pickled
    places: npt.NDArray[np.int64] | None = None
    # The earlier shard with these inputs, if they all come from one
    known: KnownShard | None = None
    # Parts of the shard that are already encoded, in order
    parts: tuple[EncodedPart, ...] = ()

    @property
    def own_rows(self) -> pa.Table:
        """The inputs, one per row."""
        if self.places is None:
            return self.rows
        return pc.take(self.rows, int_array(self.places))

    @property
    def entries(self) -> list[Entry]:
        """The inputs as Python objects."""
        return [*entries_of(self.own_rows)]

    def __reduce__(self) -> Any:
        return ShardTask, (self.name, self.own_rows, None, self.known, self.parts)


@dataclasses.dataclass(frozen=True)
class WriteMediaShard:
    """A call that writes the shard of a task."""

    columns: tuple[Column, ...]  # features with values from entries
    blobs: tuple[BlobColumn, ...]  # features with files from entries
    base: str  # folder that paths are relative to
    uri: str  # folder of the dataset
    settings: MediaSettings
    limit: RejectLimit | None = None  # may end the run early

    def __call__(self, task: ShardTask) -> tuple[Shard, ShardSummary]:
        """Read a task's files, write its shard under its final name, and verify the shard.

        A bad file becomes a reject in the summary. A failure to write raises.
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
        """Encode a part of a shard into a file of the working folder."""
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
        """Read files, write their examples, and return the summary."""
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
                    media, example, name = encode_entry(
                        entry, blobs, self.columns, self.blobs, self.settings
                    )
            except RejectedInputError as error:
                rejected.extend(zip(entry.blobs, sums, strict=True))
                detail = error.detail
                if any(blob.path.startswith("/") or is_remote(blob.path) for blob in entry.blobs):
                    detail = without_bytes(detail)  # a file root may have other owners
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
                for label_id in label if isinstance(label, tuple) else (label,):
                    if isinstance(label_id, int):
                        summary.labels[label_id] += 1
        summary.names = _sums_of(names, purpose="name")
        summary.states = _sums_of(states, purpose="state")
        summary.fingerprint = sum_blobs(facts, roots)
        summary.own_fingerprint = summary.fingerprint - sum_blobs(rejected, roots)
        return summary

    def _is_unchanged(self, task: ShardTask, known: KnownShard) -> bool:
        """Return whether a known shard's inputs are unchanged. Reads them if necessary."""
        if known.is_listed:
            return True
        entries = task.entries
        if len(entries) != len(known.summary.states):
            return False
        read = _read_ahead(entries, self._reader())
        states = _sums_of((_state_of(*item) for item in read), purpose="state")
        return states == known.summary.states

    def check(self, result: tuple[Shard, ShardSummary]) -> None:
        """Raise DatasetError if a shard of an earlier run has changed."""
        verify_shard(result[0], uri=self.uri)


def encode_entry(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    columns: Sequence[Column],
    blob_columns: Sequence[BlobColumn],
    settings: MediaSettings,
) -> tuple[Mapping[str, Stored], list[bytes], bytes | None]:
    """Return the stored form of an entry's files, its encoded example in parts, and its name.

    Args:
        entry: the input.
        blobs: the bytes of its files, or the error of reading them.
        columns: the features with values from entries.
        blob_columns: the features with files from entries.
        settings: the settings of the ExampleGen.

    Raises:
        RejectedInputError: the input cannot become an example.
    """

    def encode() -> tuple[Mapping[str, Stored], list[bytes], bytes | None]:
        media, features = make_example(entry, blobs, columns, blob_columns, settings)
        return media, encode_example(features), name_of(features)

    return retry_transient(entry.name, encode)


def _is_whole(known: KnownShard) -> bool:
    """Return False if a shard was modified after its dataset was published, and is damaged."""
    path, manifest = join(known.uri, known.shard.path), join(known.uri, MANIFEST_FILE)
    try:
        if modification_time(path) > modification_time(manifest):
            verify_shard(known.shard, uri=known.uri)
    except DatasetError as error:
        if is_host_error(error):
            raise
        logging.warning("%s", error)
        return False
    return True


def _state_of(
    entry: Entry, blobs: list[bytes] | RejectedInputError, sums: Sequence[int | None]
) -> bytes:
    """Return a representation of a record's inputs: name, values, and files by size and CRC-32C."""
    sizes = () if isinstance(blobs, RejectedInputError) else tuple(map(len, blobs))
    return encode_path(repr((entry.name, entry.values, sizes, (*sums,))))


def _sums_of(texts: Iterable[bytes], *, purpose: str) -> list[int]:
    """Return 64-bit digests. A single call for many takes a third of the time."""
    sums: list[int] = keyed_digests(texts, seed=0, purpose=purpose)[:, 0].tolist()
    return sums


# An entry, its files or an error, and the CRC-32C of each file that was read.
_Read = tuple[Entry, list[bytes] | RejectedInputError, list[int | None]]


def _read_ahead(entries: Sequence[Entry], reader: BlobReader) -> Iterator[_Read]:
    """Yield entries in order, with their files read ahead by threads in groups.

    Local files are read by this thread until reading has had to wait for a disk or a network. A
    cached file is read in less time than two switches of the interpreter lock.
    """
    # A local list may name files in a bucket, and a list in a bucket may name local files.
    names_remote = any("://" in blob.path for entry in entries for blob in entry.blobs)
    kind = _REMOTE if is_remote(reader.base) or names_remote else _LOCAL
    first = entries[0].blobs[:1] if entries else ()
    if first and first[0].row is not None:  # each thread holds a row group
        kind = _TABLE
    threads, group_files = kind
    groups = _groups(entries, group_files)

    def read_group(group: Sequence[Entry]) -> list[_Read]:
        contents: list[_Read] = []
        for entry in group:
            try:
                with reject_errors():
                    blobs = [retry_transient(blob.path, reader.read, blob) for blob in entry.blobs]
            except RejectedInputError as error:
                contents.append((entry, error, [None] * len(entry.blobs)))
            else:
                contents.append((entry, blobs, [extend_crc32c(0, blob) for blob in blobs]))
        return contents

    for group in groups if kind is _LOCAL else ():
        waits = _count_waits()
        contents = read_group(group)
        has_waited = _count_waits() - waits > len(group) / 2
        yield from contents
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
    """Return how often this thread has waited (its voluntary context switches)."""
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
