"""Open the record indices of shards, or find the records of a shard by reading it.

indices = ShardIndices(shards, files, options)
indices.open(0, is_whole=False)          # as `RecordOffsets` needs it
indices.damage                           # {index of a damaged shard: its error}
"""

from collections.abc import Sequence

import numpy as np

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.dataset.opening import load_index_or_none
from trainer_utils.dataset.record_scan import keep_offsets, kept_offsets
from trainer_utils.format import RecordIndex
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.options import InputOptions
from trainer_utils.reading.local_files import CHANGED, OpenShard
from trainer_utils.reading.record_offsets import IndexSource, WholeIndex, open_kept, open_sliced
from trainer_utils.reading.shard_opening import OpenShards
from trainer_utils.storage.open_files import MappedReader


class ShardIndices:
    """The record indices of shards.

    Damage behind the records of a shard is an error. With `on_corrupt="skip"` it is noted, and the
    intact records can be read.

    Args:
        shards: the shards.
        files: opens the shards.
        options: the settings of the input.
        reader: copies parts of mapped index files.

    Attributes:
        damage: the error of each damaged shard, by index. It affects the records after the last
            intact one.
    """

    def __init__(
        self,
        shards: Sequence[ShardFile],
        files: OpenShards,
        options: InputOptions,
        reader: MappedReader,
    ) -> None:
        self._shards, self._files, self._reader = shards, files, reader
        self._is_strict = options.on_corrupt != "skip"
        self._cache_folder = options.cache_folder
        self.damage: dict[int, CorruptShardError] = {}

    def open(self, index: int, is_whole: bool) -> IndexSource:
        """Open the index of a shard, or find its records by reading it.

        Args:
            index: the index of the shard.
            is_whole: whether to load the whole index, since a part of the file was damaged.

        Raises:
            CorruptShardError: the shard or its index is damaged, unless damage is skipped.
        """
        shard = self._shards[index]
        if not is_whole:
            source = self._open_sliced(index, shard)
            if source is None:
                source = self._open_kept(shard)
            if source is not None:
                return source
        return WholeIndex(self._load(index, shard))

    def _open_sliced(self, index: int, shard: ShardFile) -> IndexSource | None:
        """Open an index to read in parts; None without one, or if the shard is damaged."""
        if shard.is_gzip and shard.entry is not None:  # opening it would unpack it
            return None
        try:
            size = self._files.file(index).size
            return open_sliced(shard, size=size, reader=self._reader)
        except CorruptShardError:
            return None  # `_load` raises it again, or notes it

    def _open_kept(self, shard: ShardFile) -> IndexSource | None:
        """Open the offsets that an earlier scan of a shard without an index kept."""
        if shard.entry is not None:
            return None
        path = kept_offsets(shard.path, shard.bytes, folder=self._cache_folder)
        return None if path is None else open_kept(shard, path, self._reader)

    def _load(self, index: int, shard: ShardFile) -> RecordIndex:
        """Load the index of a shard, or find its records by reading it."""
        if shard.is_gzip and shard.entry is not None and self._is_strict:
            stored = load_index_or_none(shard)
            if stored is not None:  # the shard is unpacked when it is read
                return stored
        try:
            file = self._files.file(index)
        except CorruptShardError as error:
            if self._is_strict:
                raise
            self.damage[index] = error
            return RecordIndex(np.zeros(0, np.int64))
        records, damage = load_index_or_none(shard, size=file.size), file.damage
        if records is None:
            records, damage_behind = self._scan(shard, file)
            damage = damage or damage_behind
        self._check_count(shard, records)
        if damage is not None:
            if self._is_strict and len(records) == shard.records:
                raise damage  # behind the last record
            self.damage[index] = damage
        return records

    def _scan(
        self, shard: ShardFile, file: OpenShard
    ) -> tuple[RecordIndex, CorruptShardError | None]:
        """Find the records of a shard by reading it, and the damage behind the last intact one."""
        lengths, damage = scan_until_damage(_Stream(file), path=shard.path)  # type: ignore[arg-type]
        records = RecordIndex(lengths)
        if damage is None and file.damage is None and shard.entry is None:
            keep_offsets(shard.path, shard.bytes, records, folder=self._cache_folder)
        return records, damage

    def _check_count(self, shard: ShardFile, records: RecordIndex) -> None:
        """Raise a CorruptShardError if a shard has too many records, unless damage is skipped."""
        if self._is_strict and shard.records is not None and len(records) > shard.records:
            raise CorruptShardError.at(
                shard.path,
                expected=f"{shard.records} records, as its dataset says",
                got=str(len(records)),
                record=shard.records,
                offset=int(records.offsets[shard.records]),
                advice=CHANGED,
            )


class _Stream:
    """A readable stream of all bytes of a shard."""

    def __init__(self, file: OpenShard) -> None:
        self._file, self._place = file, 0

    def read(self, count: int) -> bytes:
        begin = self._place
        self._place = min(begin + count, self._file.size)
        return bytes(self._file.read(begin, self._place))
