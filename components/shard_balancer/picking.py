"""Writes a new shard by picking its records, one after the other, from the files where they lie.

    pick = PickShard(files=("in/Split-train/data_tfrecord-00000-of-00001",), sources=(0,), uri=uri)
    pick(Picks(name=name, files=files, offsets=offsets, lengths=lengths))

Where the input is local and the system can keep all of it in memory, a record costs one read into
memory that is used again and again: none is held, and every shard is a work of its own, for any
process. What is read and what is written are checked as everywhere.
"""

import collections
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from components.common.summaries import working_folder, write_summary
from trainer_utils.format import ShardName, ShardWriter, combine_checksums, multiset_checksum
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    footers_of,
    frame_headers,
    headers_of,
    payload_crcs,
)
from trainer_utils.storage import naming_file, open_for_reading
from trainer_utils.writing.shards import verify_shard, write_shard

__all__ = ["CHUNK_BYTES", "PickShard", "Picks", "UnlikeIndexError"]

Ints = npt.NDArray[np.int64]

CHUNK_BYTES = 1 << 20
"""What is picked before it is checked and written: a core's cache holds it. A longer record is
picked alone."""


class UnlikeIndexError(Exception):
    """A record is damaged, or not where its index says: reading in order tells which."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picks:
    """A new shard, and where its records lie, in order.

    Args:
        files: `(records,) int64`, the number of each record's file.
        offsets: `(records,) int64`, where its frame begins there, in bytes.
        lengths: `(records,) int64`, of its payload, in bytes.
    """

    name: ShardName
    files: Ints = dataclasses.field(repr=False)
    offsets: Ints = dataclasses.field(repr=False)
    lengths: Ints = dataclasses.field(repr=False)

    @property
    def part(self) -> str:
        """The name of its summary."""
        return f"gather-{self.name.split}-{self.name.shard_index:05d}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PickShard:
    """Writes a shard, reads it back, and leaves a summary of it in the working folder.

    Args:
        files: the paths of all input files, by number; local, and not compressed.
        sources: the number of the input that each is of.
    """

    files: Sequence[str]
    sources: Sequence[int]
    uri: str

    def __call__(self, picks: Picks) -> dict[str, int]:
        """Writes one shard; returns how many records it has.

        Raises:
            UnlikeIndexError: a file is damaged, or was changed.
            CorruptShardError: what was written is not what is read back.
        """
        content: dict[int, int] = collections.defaultdict(int)
        fill = functools.partial(self._fill, picks, content)
        shard = write_shard(picks.name, fill, uri=self.uri)
        verify_shard(shard, uri=self.uri)
        summary: dict[str, Any] = {"split": shard.split, "shards": [shard.to_entry()]}
        summary |= {"content": content, "kept": content}
        write_summary(working_folder(self.uri), picks.part, summary)
        return {"records_balanced": shard.records}

    def _fill(self, picks: Picks, content: dict[int, int], writer: ShardWriter) -> None:
        sources = np.array(self.sources, np.int64)
        with ExitStack() as opened:
            picker, headers = _Picker(self.files, opened), frame_headers(picks.lengths)
            for part in _chunks(picks.lengths):
                lengths, files = picks.lengths[part], picks.files[part]
                frames = picker.read(files, picks.offsets[part], lengths)
                crcs = _checked(frames, lengths, headers[part])
                writer.write_framed(frames.data, lengths, crcs)
                of = sources[files]
                for source in np.unique(of).tolist():
                    found = multiset_checksum(lengths[of == source], crcs[of == source])
                    content[source] = combine_checksums([content[source], found])


def _chunks(lengths: Ints) -> Iterator[slice]:
    """Cuts records into lots of `CHUNK_BYTES` or less, or of one record."""
    ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES)
    start = done = 0
    while start < len(ends):
        stop = max(int(np.searchsorted(ends, done + CHUNK_BYTES, side="right")), start + 1)
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])


class _Picker:
    """Reads frames from several files into the same memory each time."""

    def __init__(self, paths: Sequence[str], opened: ExitStack) -> None:
        self._paths, self._opened = paths, opened
        self._descriptors: dict[int, int] = {}
        self._memory = np.empty(CHUNK_BYTES, np.uint8)

    def read(self, files: Ints, offsets: Ints, lengths: Ints) -> npt.NDArray[np.uint8]:
        """The frames, end to end, unchecked; they stay until the next are read."""
        ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES)
        size = int(ends[-1])
        if size > len(self._memory):
            self._memory = np.empty(size, np.uint8)
        view, position = self._memory.data, 0
        for first, stop in _neighbours(files, offsets, ends):
            end = int(ends[stop - 1])
            self._fill(view[position:end], int(files[first]), int(offsets[first]))
            position = end
        return self._memory[:size]

    def _fill(self, place: memoryview, file: int, offset: int) -> None:
        with naming_file(self._paths[file]):
            descriptor = self._open(file)
            while place:
                count = os.preadv(descriptor, [place], offset)
                if not count:
                    raise UnlikeIndexError(f"{self._paths[file]} ends at byte {offset}")
                place, offset = place[count:], offset + count

    def _open(self, file: int) -> int:
        if file not in self._descriptors:
            stream = self._opened.enter_context(open_for_reading(self._paths[file]))
            self._descriptors[file] = stream.fileno()
        return self._descriptors[file]


def _neighbours(files: Ints, offsets: Ints, ends: Ints) -> list[tuple[int, int]]:
    """Records that lie end to end in one file, as one: first and stop of each run."""
    follows = (files[1:] == files[:-1]) & (np.diff(offsets) == np.diff(ends, prepend=0)[:-1])
    cuts = np.flatnonzero(~follows) + 1
    return list(zip([0, *cuts.tolist()], [*cuts.tolist(), len(files)], strict=True))


def _checked(
    frames: npt.NDArray[np.uint8], lengths: Ints, headers: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint32]:
    """The payloads' masked CRC-32C of frames that are whole.

    Raises:
        UnlikeIndexError: a header or a sum is another.
    """
    ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES)
    starts = ends - lengths - RECORD_OVERHEAD_BYTES
    footers = footers_of(frames, ends)
    crcs = payload_crcs(frames, starts + HEADER_BYTES, ends - FOOTER_BYTES)
    are_headers_good = np.array_equal(headers_of(frames, starts), headers)
    if not are_headers_good or (crcs != footers).any():
        raise UnlikeIndexError("a sum differs")
    return footers
