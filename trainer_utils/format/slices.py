"""Resolve slices of splits to ranges of records, and record positions to files.

    resolve_slices("train[:80%]+eval", {"train": 100, "eval": 20})
    # [SplitRange('train', 0, 80), SplitRange('eval', 0, 20)]

Source: the grammar and the rounding of percentages are Datum's and TFDS's
(`datum/utils/reader_utils.py`): one `%` makes both bounds percentages, rounded to the nearest.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.format.naming import canonical_split
from trainer_utils.format.record_bits import RecordBits, SelectedBlocks

_SLICE = re.compile(
    r"(?P<split>\w+)"
    r"(?:\[(?:(?P<start>-?\d+)(?P<start_percent>%)?)?:(?:(?P<stop>-?\d+)(?P<stop_percent>%)?)?\])?"
)


@dataclasses.dataclass(frozen=True)
class SplitRange:
    """Records `start` to `stop` (not included) of a split, in the order of its shards."""

    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def resolve_slices(spec: str, records: Mapping[str, int]) -> list[SplitRange]:
    """Resolve slices joined by `+` to one range of records each, in order.

    If no split has the exact name, a usual spelling such as `val` finds the split with another
    spelling, such as `eval`.

    Args:
        spec: the slices.
        records: the number of records of each split.

    Raises:
        ConfigError: the spec does not parse, or has more than 100%.
        DatasetError: it names an unknown split, or reaches past its end.
    """
    ranges = []
    for part in map(str.strip, spec.split("+")) if isinstance(spec, str) else [spec]:
        match = _SLICE.fullmatch(part) if isinstance(part, str) else None
        if match is None:
            rule = "a name, or a slice such as 'train[:80%]' or 'train[100:200]'"
            raise ConfigError.of("split", part, allowed=rule)
        split = _find_split(match["split"], records)
        size = records[split]
        percent = bool(match["start_percent"] or match["stop_percent"])
        start = _bound(match["start"], 0, size, percent, part)
        stop = _bound(match["stop"], size, size, percent, part)
        if start > stop:
            got = f"[{start}:{stop}] of {size} records"
            raise DatasetError(f"split {part!r}: expected a start before the stop, got {got}")
        ranges.append(SplitRange(split, start, stop))
    return ranges


def _find_split(name: str, records: Mapping[str, int]) -> str:
    if name in records:
        return name
    usual = canonical_split(name)
    same = [split for split in records if usual and canonical_split(split) == usual]
    if len(same) == 1:
        return same[0]
    known = ", ".join(records) or "none, of a dataset without splits"
    like = did_you_mean(name, records)
    if same:
        like = f" Did you mean {' or '.join(map(repr, same))}?"
    raise DatasetError(f"split {name!r}: expected one of {known}.{like}")


def _bound(text: str | None, default: int, size: int, percent: bool, part: str) -> int:
    if text is None:
        return default
    if percent and abs(int(text)) > 100:  # before rounding
        raise ConfigError.of("split", part, allowed="percentages from -100 to 100")
    bound = round(int(text) * size / 100) if percent else int(text)
    if abs(bound) > size:
        raise DatasetError(f"split {part!r}: expected bounds within its {size} records, got {text}")
    return bound + size if bound < 0 else bound


class FileRange(NamedTuple):
    """The `take` records of a file after the first `skip`, or some of the records there.

    Attributes:
        path: the path of the file.
        skip: the number of its records before the range.
        take: the number of records to read.
        kept: the records to read in the range, `take` of them; None: all.
    """

    path: str
    skip: int
    take: int
    kept: RecordBits | None = None

    @property
    def stop(self) -> int:
        """The number of the record after the range."""
        return self.skip + (self.take if self.kept is None else len(self.kept))

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Numbers of the records to read, in the file, `(take,) int64`."""
        if self.kept is None:
            return np.arange(self.skip, self.stop)
        return np.flatnonzero(self.kept.mask()) + self.skip

    def filtered(self, mask: npt.NDArray[np.bool_]) -> "FileRange":
        """Return the range with only the records that a mask selects, `(take,) bool`."""
        whole = mask
        if self.kept is not None:
            whole = self.kept.mask()
            whole[whole] = mask
        return self._replace(take=int(whole.sum()), kept=RecordBits.of(whole))

    def divided(self, parts: Sequence["FileRange"]) -> list["FileRange"]:
        """Return ranges of other files with the same records, filtered as this one is.

        Args:
            parts: whole ranges that are as long together as this one.
        """
        if self.kept is None:
            return list(parts)
        kept, begin = self.kept.mask(), 0
        ranges = []
        for part in parts:
            ranges.append(part.filtered(kept[begin : begin + part.take]))
            begin += part.take
        return ranges


class RecordName(NamedTuple):
    """A record: the path of its file, and its index there."""

    path: str
    number: int


class RecordPositions:
    """Record ranges of files as one long list of records, with a position for each."""

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self._ranges = ranges
        takes = np.array([part.take for part in ranges], np.int64)
        self._starts = np.cumsum(takes) - takes
        self._skips = np.array([part.skip for part in ranges], np.int64)
        self._selected = np.array([part.kept is not None for part in ranges], np.bool_)
        kept = [part.kept for part in ranges if part.kept is not None]
        self._selection_of = np.cumsum(self._selected) - 1  # the index in `kept`
        self._blocks = SelectedBlocks(kept, self._starts[self._selected]) if kept else None

    def positions_of(self, name: RecordName) -> list[int]:
        """Return the positions of a record in ascending order: several if ranges repeat it."""
        positions = []
        for index in self._ranges_of_paths.get(name.path, ()):
            part = self._ranges[index]
            if not part.skip <= name.number < part.stop:
                continue
            within = name.number - part.skip
            position = within + int(self._starts[index])
            if self._blocks is not None and part.kept is not None:
                place = self._blocks.place(int(self._selection_of[index]), within)
                if place is None:
                    continue
                position = place
            positions.append(position)
        return positions

    @functools.cached_property
    def _ranges_of_paths(self) -> dict[str, list[int]]:
        indices_by_path: dict[str, list[int]] = {}
        for index, part in enumerate(self._ranges):
            indices_by_path.setdefault(part.path, []).append(index)
        return indices_by_path

    def places_of(
        self, positions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return each position's range index and record index in the file, both `(n,) int64`."""
        indices = np.searchsorted(self._starts, positions, side="right") - 1
        within = positions - self._starts[indices]
        if self._blocks is not None:
            rows = np.flatnonzero(self._selected[indices])
            files = self._selection_of[indices[rows]]
            within[rows] = self._blocks.select(positions[rows], files=files)
        return indices, within + self._skips[indices]

    def end_of(self, index: int) -> int:
        """Return the position after a range."""
        return int(self._starts[index]) + self._ranges[index].take

    def locate(self, positions: npt.NDArray[np.int64]) -> list[RecordName]:
        """Return the file path and record index for each position."""
        places = zip(*(array.tolist() for array in self.places_of(positions)), strict=True)
        return [RecordName(self._ranges[index].path, number) for index, number in places]
