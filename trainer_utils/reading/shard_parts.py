"""Parts of shards that are fetched, kept and verified by themselves: some records, about a MiB.

    parts = ShardParts(shards)
    parts.of(path)                            # where the parts of a shard lie
    block = parts.fetch(part)                 # from where the dataset lies, verified

A range of whole records of a shard is a TFRecord file of its own. Where records begin is said by
the shard's index, which the manifest's sum vouches for; so every part is checked as it arrives: its
size, the length of each record, and each record's checksum. The sums of a shard's parts make the
sum of the whole file, which is compared once all of them have been seen.
"""

import hashlib
import io
import itertools
import logging
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from trainer_utils.dataset.opening import ShardFile
from trainer_utils.dataset.record_index import read_index
from trainer_utils.format import CorruptShardError, RecordBlock, RecordIndex, read_blocks
from trainer_utils.format.crc32c import combine_crc32c, extend_crc32c
from trainer_utils.storage import read_range

__all__ = ["PART_BYTES", "Part", "ShardParts"]

PART_BYTES = 1 << 20
"""Of a part, unless a record is larger: little enough for the first batch to come soon, enough that
16 requests at once fill a network of 10 Gb/s at 10 ms."""

_ATTEMPTS = 3  # of a part that arrives damaged; what fails on the way is tried again by the store

_logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """Records `[first, stop)` of a shard, which are its bytes `[begin, end)`."""

    path: str
    number: int
    first: int
    stop: int
    begin: int
    end: int


class _Layout(NamedTuple):
    records: RecordIndex
    parts: list[Part]
    firsts: list[int]


class ShardParts:
    """The parts of the shards of datasets; from several threads at once.

    Args:
        shards: uncompressed, each with an index.
    """

    def __init__(self, shards: Iterable[ShardFile]) -> None:
        self._shards = {shard.path: shard for shard in shards}
        self._keys = {path: _key(shard) for path, shard in self._shards.items()}
        self._paths = {key: path for path, key in self._keys.items()}
        self._layouts: dict[str, _Layout] = {}
        self._sums: dict[str, dict[int, int]] = {}
        self._lock = threading.Lock()
        self._index_locks: dict[str, threading.Lock] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._shards

    @property
    def total_bytes(self) -> int:
        """Of all shards."""
        return sum(shard.bytes for shard in self._shards.values())

    def of(self, path: str) -> list[Part]:
        """A shard's parts, in order.

        Raises:
            CorruptShardError: its index is not the one that the manifest names.
            OSError: the index cannot be read.
        """
        return self._layout(path).parts

    def within(self, path: str, first: int, stop: int) -> list[Part]:
        """The parts that hold some of the records `[first, stop)` of a shard."""
        layout = self._layout(path)
        begin, end = np.searchsorted(layout.firsts, [first, stop - 1], side="right").tolist()
        return layout.parts[begin - 1 : end] if first < stop else []

    def offsets(self, path: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Where each record of a shard begins, and where the last one ends."""
        return self._layout(path).records.offsets

    def name(self, part: Part) -> str:
        """What a copy of it is called: no other content of that path has the same."""
        return f"{self._keys[part.path]}-{part.first}-{part.stop}.part"

    def records_of(self, name: str) -> tuple[str, int, int] | None:
        """The path and the records of the copy of such a name; None of another dataset's."""
        key, _, rest = name.partition("-")
        path = self._paths.get(key)
        if path is None or not name.endswith(".part"):
            return None
        first, _, stop = rest.removesuffix(".part").partition("-")
        return path, int(first), int(stop)

    def fetch(self, part: Part) -> RecordBlock:
        """Reads a part from where its dataset lies; one that arrives damaged again and again fails.

        Raises:
            CorruptShardError: it is damaged there; the message names file, record and byte.
            OSError: it cannot be read.
        """
        for attempt in range(_ATTEMPTS):
            data = read_range(part.path, start=part.begin, stop=part.end)
            try:
                return self.verify(part, data)
            except CorruptShardError as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                _logger.warning("fetched again, since it arrived damaged: %s", error)
        raise AssertionError

    def verify(self, part: Part, data: bytes) -> RecordBlock:
        """The records of a part's bytes.

        Raises:
            CorruptShardError: they are not the manifest's.
        """
        lengths = self._layout(part.path).records.lengths[part.first : part.stop]
        if len(data) != part.end - part.begin:
            raise CorruptShardError.at(
                part.path,
                expected=f"{part.end - part.begin} bytes",
                got=f"{len(data)} of them",
                record=part.first,
                offset=part.begin,
                advice="It was cut or replaced after it was written: write the dataset again.",
            )
        blocks = iter(_blocks(part, data, lengths))
        block = next(blocks)
        if len(block) != part.stop - part.first or (block.lengths != lengths).any():
            raise CorruptShardError.at(
                part.path,
                expected=f"{part.stop - part.first} records of the lengths that the index says",
                got="others",
                record=part.first,
                offset=part.begin,
            )
        self._check_whole(part, data)
        return block

    def _check_whole(self, part: Part, data: bytes) -> None:
        """Compares the file's sum, once each of its parts was seen."""
        entry = self._shards[part.path].entry
        if entry is None:
            return
        layout = self._layout(part.path)
        crc = extend_crc32c(0, data)
        with self._lock:
            sums = self._sums.setdefault(part.path, {})
            if sums.get(part.number) == crc:
                return
            sums[part.number] = crc
            if len(sums) < len(layout.parts):
                return
            found = 0
            for other in layout.parts:
                found = combine_crc32c(found, sums[other.number], other.end - other.begin)
            if found == entry.crc32c:
                return
            sums.clear()
        raise CorruptShardError.at(
            part.path,
            expected=f"the file that the manifest names, with CRC-32C {entry.crc32c:08x}",
            got=f"one with {found:08x}, of other records",
            advice="It is of another dataset or run: put the right one back, or write the "
            "dataset again.",
        )

    def _layout(self, path: str) -> _Layout:
        layout = self._layouts.get(path)
        if layout is None:
            with self._lock:
                lock = self._index_locks.setdefault(path, threading.Lock())
            with lock:  # one request for it, whoever asks
                layout = self._layouts.get(path)
                if layout is None:
                    layout = _cut(self._shards[path])
                    self._layouts[path] = layout
        return layout


def _blocks(part: Part, data: bytes, lengths: object) -> Iterable[RecordBlock]:
    """The part's one block; errors name record and byte as they are in the shard."""
    try:
        yield from read_blocks(
            io.BytesIO(data),
            path=part.path,
            block_bytes=max(len(data), 1),
            lengths=lengths,  # type: ignore[arg-type]
        )
    except CorruptShardError as error:
        raise CorruptShardError.at(
            part.path,
            expected="whole records with good checksums",
            got=f"a part in which {error}",
            record=part.first + (error.record or 0),
            offset=part.begin + (error.offset or 0),
            advice="It is damaged where it lies: put a good copy there, or write it again.",
        ) from error


def _cut(shard: ShardFile) -> _Layout:
    index = read_index(shard)
    offsets = index.offsets
    bounds = [0]
    while bounds[-1] < len(index):
        at = bounds[-1]
        stop = int(np.searchsorted(offsets, offsets[at] + PART_BYTES, side="right")) - 1
        bounds.append(max(stop, at + 1))
    parts = [
        Part(shard.path, number, first, stop, int(offsets[first]), int(offsets[stop]))
        for number, (first, stop) in enumerate(itertools.pairwise(bounds))
    ]
    return _Layout(index, parts, bounds[:-1])


def _key(shard: ShardFile) -> str:
    entry = shard.entry
    identity = (
        shard.path,
        shard.bytes,
        entry and entry.crc32c,
        entry and entry.content,
        PART_BYTES,
    )
    return hashlib.blake2b(repr(identity).encode(), digest_size=8).hexdigest()
