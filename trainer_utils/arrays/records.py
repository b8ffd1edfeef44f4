"""The records of a step, wherever they lie: read, and every checksum checked.

    records = RecordReader(sources, options)
    rows = records.read(order.records(epoch=0, step=5, worker=0))
    rows.data, rows.begins, rows.ends        # payloads, row by row

Shards are mapped into memory, which costs nothing but the pages that are looked at. Those of
object stores are copied to the disk first, as `cache=` says; gzip files, in which nothing can be
found, are unpacked to a temporary file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.open_shard import OpenShard
from trainer_utils.dataset.selection import Source
from trainer_utils.dataset.shards import is_gzip
from trainer_utils.format import ConfigError, CorruptShardError
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    bad_headers,
    footers_of,
    headers_of,
    lengths_in,
    payload_crcs,
    unframe,
)
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.storage.cache import WholeCopies, cache_folder
from trainer_utils.storage.paths import is_remote

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["RecordReader", "Rows"]

_PADDING = bytes(16)  # after the last record, so that who parses reads nothing past the end
_MOST_OPEN = 512  # files; a mapping of Python holds a descriptor too

Positions = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Records, one after the other.

    Attributes:
        data: framed records, end to end, and some zeros.
        begins, ends: `(rows,) int64`, of the payloads in it, in bytes.
        names: which records they are.
    """

    data: bytes
    begins: Positions
    ends: Positions
    names: Sequence[RecordName]


class RecordReader:
    """Reads records by file and number.

    Args:
        sources: what is read.
        options: of the input: `cache` and `on_corrupt` count here.

    Attributes:
        sums: what compares whole shards with the manifest, beside the reading.
        unreadable: why each record that was skipped could not be read, by path and number.
    """

    def __init__(self, sources: Sequence[Source], options: "InputOptions") -> None:
        self._skips = options.on_corrupt == "skip"
        files = [shard for source in sources for shard in source.dataset.shard_files]
        self._entries = {shard.path: shard.entry for shard in files if shard.entry is not None}
        self._counts = {shard.path: shard.records for shard in files}
        self.sums = ShardChecksums(self._entries, skips=self._skips)
        self.unreadable: dict[tuple[str, int], str] = {}
        cache = options.cache
        if cache == "memory":
            raise ConfigError.of(
                "cache", cache, allowed="'disk', a folder or None, where TensorFlow's memory is not"
            )
        is_copied = cache is not None or options.cache_dir is not None
        self._copy = None
        if is_copied or any(is_remote(shard.path) for shard in files):
            folder = cache_folder(cache, options.cache_dir, options.cache_bytes)
            self._copy = WholeCopies(folder, self.sums.check, self._entries).locate
        self._shards: dict[str, OpenShard] = {}

    def read(self, names: Sequence[RecordName]) -> Rows:
        """Records in the order of `names`; those that cannot be read are left out where they may.

        Raises:
            CorruptShardError: a record is damaged, or a shard is not the manifest's.
        """
        frames, found = [], []
        for path in {name.path for name in names} & self._shards.keys():
            self._look_again(path)
        for name in names:
            try:
                frames.append(self._shard(name.path).frame(name.number))
                found.append(name)
            except CorruptShardError as error:
                self._skip(name, error)
        data = b"".join([*frames, _PADDING])
        ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        good = self._checked(data, starts, ends, found)
        if not good.all():
            starts, ends = starts[good], ends[good]
            found = [name for name, is_good in zip(found, good.tolist(), strict=True) if is_good]
        return Rows(data, starts + HEADER_BYTES, ends - FOOTER_BYTES, found)

    def _checked(
        self, data: bytes, starts: Positions, ends: Positions, names: Sequence[RecordName]
    ) -> npt.NDArray[np.bool_]:
        """Which frames are whole and have the sums that they say."""
        if not names:
            return np.zeros(0, bool)
        headers = headers_of(data, starts)
        crcs = payload_crcs(data, starts + HEADER_BYTES, ends - FOOTER_BYTES)
        good: npt.NDArray[np.bool_] = (crcs == footers_of(data, ends)) & ~bad_headers(headers)
        good &= lengths_in(headers) == ends - starts - HEADER_BYTES - FOOTER_BYTES
        for index in np.flatnonzero(~good).tolist():
            path, number = names[index]
            offset = self._shard(path).offset(number)
            try:
                unframe(data[starts[index] : ends[index]], path=path, record=number, offset=offset)
            except CorruptShardError as error:
                self._skip(names[index], error)
        return good

    def _skip(self, name: RecordName, error: CorruptShardError) -> None:
        if not self._skips:
            raise error
        self.unreadable[name] = str(error)

    def _shard(self, path: str) -> OpenShard:
        shard = self._shards.get(path)
        if shard is None:
            location = path if self._copy is None else self._copy(path)
            self.sums.begin(path, location)
            while len(self._shards) >= _MOST_OPEN:
                self._shards.pop(next(iter(self._shards)))
            shard = OpenShard(path, location, self._entries.get(path), is_mapped=True)
            if shard.damage is not None and is_gzip(path) and not self._skips:
                raise shard.damage
            if not self._skips:
                shard.refuse_more_than(self._counts[path])
            self._shards[path] = shard
        return shard

    def _look_again(self, path: str) -> None:
        try:
            self._shards[path].look_again()
        except CorruptShardError:
            if not self._skips:
                del self._shards[path]  # whoever reads on sees what it is by then
                raise
