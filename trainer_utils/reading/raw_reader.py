"""Read the records of raw inputs as frames in one buffer, as `ShardFiles` reads shards."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.dataset.raw_inputs import (
    RawDataset,
    RawRecords,
    RejectedRecordError,
    corrupt_record,
)
from trainer_utils.dataset.selection import Source
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import FOOTER_BYTES, frame_parts

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

Positions = npt.NDArray[np.int64]
_PADDING = bytes(16)  # after the last record, so that parsers may read past its end


class RawRows(NamedTuple):
    """Records in one buffer, each followed by its masked checksum, or the errors of reading them.

    Args:
        data: the records.
        begins: `(rows,) int64`, the begin of each payload.
        ends: `(rows,) int64`, the end of each payload.
        bad: rows that cannot be read, in order.
        errors: their errors.
    """

    data: npt.NDArray[np.uint8]
    begins: Positions
    ends: Positions
    bad: Sequence[int]
    errors: Sequence[CorruptShardError]


class RawReader:
    """Reader of the records of raw inputs among the shards of an input.

    Args:
        raw: by index of a "shard", the raw inputs and their split.
        shards: all shards.
        checks: the facts of features that batches depend on; see `RawRecords`.
    """

    def __init__(
        self,
        raw: dict[int, tuple[RawRecords, str]],
        shards: Sequence[ShardFile],
        checks: Mapping[str, Collection[str]],
    ) -> None:
        self._raw, self._checks = raw, checks
        self._is_raw = np.array([index in raw for index in range(len(shards))], bool)
        empty = ShardFile("", records=0)
        self.other_shards = [empty if i in raw else shard for i, shard in enumerate(shards)]

    @classmethod
    def of(
        cls, sources: Sequence[Source], shards: Sequence[ShardFile], options: "InputOptions"
    ) -> "RawReader | None":
        """Return the reader for these sources, or None if no source is raw."""
        # By identity, since the shards of two raw inputs may be equal.
        raw = {
            id(shard): (source.dataset.raw, split)
            for source in sources
            if isinstance(source.dataset, RawDataset)
            for split, group in source.dataset.shards.items()
            for shard in group
        }
        by_index = {n: raw[id(shard)] for n, shard in enumerate(shards) if id(shard) in raw}
        return cls(by_index, shards, checks_of(sources, options)) if by_index else None

    @property
    def is_remote(self) -> bool:
        """Whether reading some of the records takes a request."""
        return any(records.is_remote for records, _ in self._raw.values())

    def is_raw(self, index: int) -> bool:
        """Return whether a shard is a split of raw inputs."""
        return bool(self._is_raw[index])

    def mask(self, shards: Positions) -> npt.NDArray[np.bool_]:
        """Return which rows are records of raw inputs, `(rows,) bool`."""
        is_raw: npt.NDArray[np.bool_] = self._is_raw[shards]
        return is_raw

    def source_of(self, index: int, number: int) -> str:
        """Return the path of the input of a record."""
        records, split = self._raw[index]
        return records.source_of(split, number)

    def read_ahead(self, shards: Positions, numbers: Positions) -> tuple[Positions, Positions]:
        """Start reading records that are needed soon, and return the rows of other shards."""
        is_raw = self.mask(shards)
        for index in np.unique(shards[is_raw]).tolist():
            records, split = self._raw[index]
            records.read_ahead(split, numbers[shards == index].tolist())
        return shards[~is_raw], numbers[~is_raw]

    def read(self, shards: Positions, numbers: Positions) -> RawRows:
        """Return the records of raw inputs.

        Args:
            shards: `(rows,) int64`, indices of raw "shards".
            numbers: `(rows,) int64`, the records in them.
        """
        record_of_row: dict[int, Sequence[bytes] | RejectedRecordError] = {}
        for index in np.unique(shards).tolist():
            records, split = self._raw[index]
            rows = np.flatnonzero(shards == index).tolist()
            read = records.read(split, numbers[rows].tolist(), self._checks)
            record_of_row.update(zip(rows, read, strict=True))
        bad, errors, parts = [], [], list[bytes]()
        lengths = np.zeros(len(shards), np.int64)
        for row in range(len(shards)):
            record = record_of_row[row]
            if isinstance(record, RejectedRecordError):
                bad.append(row)
                errors.append(corrupt_record(int(numbers[row]), record))
                continue
            lengths[row] = sum(map(len, record))
            parts += record
            parts.append(frame_parts(record)[1])
        data = np.frombuffer(b"".join([*parts, _PADDING]), np.uint8)
        ends = np.cumsum(lengths + FOOTER_BYTES) - FOOTER_BYTES
        return RawRows(data, ends - lengths, ends, bad, errors)


def checks_of(sources: Sequence[Source], options: "InputOptions") -> dict[str, frozenset[str]]:
    """Return the facts of each feature that is read and that its batches depend on."""
    names = {name for source in sources for name in source.dataset.features}
    if options.features is not None and not options.has_callback:
        asked = [options.features] if isinstance(options.features, str) else options.features
        names &= {*asked, options.label, options.labels.sample_weight}
    facts = {"bits", "sample_rate"}
    if options.image_size is None:
        facts |= {"height", "width"}
    if options.image.channels is None:
        facts.add("channels")
    return {name: frozenset(facts) for name in names}
