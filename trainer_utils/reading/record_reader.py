"""Read records by position, from any storage, and check every checksum.

With `on_corrupt="skip"` the next readable record replaces each unreadable one. So every batch has
its size, and every step exists.
"""

import contextlib
import copy
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.dataset.selection import Source, mean_bytes
from trainer_utils.format.example_columns import (
    Column,
    EncodedLists,
    find_lists,
    parse_examples,
    parse_feature_lists,
)
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    Buffer,
    check_frames,
    footers_of,
    unframe,
)
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.raw_reader import RawReader
from trainer_utils.reading.shard_files import ShardFiles

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


Positions = npt.NDArray[np.int64]

_ROWS_AHEAD = 256  # of raw inputs in a bucket: 64 requests in flight, and as many of varying length


class Rows:
    """Records in one buffer: frames in `data`, and payloads by `(rows,)` begins and ends.

    Args:
        data: the frames, one after the other.
        begins: `(rows,) int64`, the begin of each payload.
        ends: `(rows,) int64`, the end of each payload.
        name: returns the path and number of a row's record.
    """

    def __init__(
        self, data: Buffer, begins: Positions, ends: Positions, name: Callable[[int], RecordName]
    ) -> None:
        self.data, self.begins, self.ends, self.name = data, begins, ends, name

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, begin: int, end: int) -> "Rows":
        """Return the rows from `begin` to `end`."""
        name = lambda row: self.name(begin + row)  # noqa: E731
        return Rows(self.data, self.begins[begin:end], self.ends[begin:end], name)

    @property
    def checksums(self) -> npt.NDArray[np.uint32]:
        """Masked checksums of the payloads, `(rows,) uint32`."""
        return footers_of(self.data, self.ends + FOOTER_BYTES)

    def parse(
        self,
        names: Collection[str],
        *,
        views: Collection[str] = (),
        kinds: Mapping[str, str] | None = None,
        takes_others: bool = True,
    ) -> dict[str, Column]:
        """Return some features of all records, as `parse_examples` does."""
        with self._naming():
            bounds = self.data, self.begins, self.ends
            return parse_examples(
                *bounds, names, views=views, kinds=kinds, takes_others=takes_others
            )

    def parse_lists(self, names: Collection[str] | None) -> dict[str, Column]:
        """Return some feature lists of all records, as `parse_feature_lists` does."""
        with self._naming():
            return parse_feature_lists(self.data, self.begins, self.ends, names)

    def take(self, rows: Positions) -> "Rows":
        """Return some rows, by number."""
        name = lambda row: self.name(int(rows[row]))  # noqa: E731
        return Rows(self.data, self.begins[rows], self.ends[rows], name)

    def find_lists(self, name: str) -> EncodedLists | None:
        """Return the bounds of a feature's numbers in `data`, as `find_lists` does."""
        return find_lists(self.data, self.begins, self.ends, name)

    def documents(
        self, name: str, column: Column, spec: TokenSpec
    ) -> tuple[Positions, npt.NDArray[Any]]:
        """Return the number of tokens of each record, and all tokens, for token bytes.

        It takes the arguments of `token_bytes`, and raises its errors.
        """
        lengths, values = self.token_bytes(name, column, spec)
        return lengths, spec.decode(b"".join(values))

    def token_bytes(
        self, name: str, column: Column, spec: TokenSpec
    ) -> tuple[Positions, list[Any]]:
        """Return the number of tokens of each record, and the bytes of each that has some.

        Args:
            name: the name of the feature, for errors.
            column: its parsed values.
            spec: the type of its tokens.

        Raises:
            DatasetError: a record has several values, or bytes that are no whole tokens.
        """
        values = column.values.tolist()
        sizes, lengths = np.fromiter(map(len, values), np.int64, len(values)), column.counts.copy()
        is_bad = column.counts > 1
        if not is_bad.any():
            lengths[lengths > 0], rest = np.divmod(sizes, spec.stored.itemsize)
            is_bad[column.counts > 0] = rest > 0
        if is_bad.any():
            rule = f"feature {name!r} of one document of {spec.dtype} tokens as the dataset says"
            raise self.error(int(is_bad.argmax()), expected=rule, got="another")
        return lengths, values

    def error(self, row: int, *, expected: str, got: str, advice: str = "") -> DatasetError:
        """Return the error of a record that differs from its dataset's description.

        Args:
            row: the row of the record.
            expected: the description of a correct record.
            got: the difference found.
            advice: how to fix it.
        """
        path, record = self.name(row)
        return DatasetError.at(path, expected=expected, got=got, record=record, advice=advice)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except DatasetError as error:
            path, record = self.name(error.record or 0)
            message = f"{path!r}: {error} (record {record})"
            raise DatasetError(message, path=path, record=record) from error


class RecordReader:
    """Reader of the records of `ranges` by position, for threads and forked processes.

    Args:
        sources: the splits to read.
        options: the settings of the input.
        ranges: the ranges of records that positions refer to.
        counters: the counters of the input's work.

    Attributes:
        ranges: the ranges of records that positions refer to.
        counters: the counters of the input's work.
        unreadable: the error of each record that another one replaces, by path and number.
        reads_ahead: whether calls of `read_ahead` make reading faster.
        rows_ahead: the number of rows to have requested at any time; 0 without requests.
        reads_in_order: whether reading is fast only in the order of the shards, by one thread.
        reads_raw: whether some of the records are raw inputs.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: "InputOptions",
        ranges: Sequence[FileRange],
        counters: StageCounters | None = None,
    ) -> None:
        self.counters = counters or StageCounters()
        self._shards = [shard for source in sources for shard in source.dataset.shard_files]
        self._options, self._mean_bytes = options, mean_bytes(sources)
        self._skips = options.on_corrupt == "skip"
        self.unreadable: dict[RecordName, str] = {}
        self._bad: set[tuple[int, int]] = set()  # shard's index and record's number
        self._cut: set[int] = set()  # indices of shards known to be truncated
        self._seen_bad: set[tuple[int, int, int]] = set()  # shard's index and bytes, once
        self._indices = {shard.path: index for index, shard in enumerate(self._shards)}
        self._use_ranges(ranges)
        self._raw = RawReader.of(sources, self._shards, options)
        self.reads_raw = self._raw is not None
        self.rows_ahead = _ROWS_AHEAD if self._raw is not None and self._raw.is_remote else 0
        self._process = 0
        self._open_here()

    def with_ranges(self, ranges: Sequence[FileRange]) -> "RecordReader":
        """Return a reader of other ranges of the same shards, which shares the open files."""
        self._open_here()
        reader = copy.copy(self)
        reader._use_ranges(ranges)
        return reader

    def _use_ranges(self, ranges: Sequence[FileRange]) -> None:
        """Read the records of these ranges."""
        self.ranges, self._positions = ranges, RecordPositions(ranges)
        self._num_records = sum(part.take for part in ranges)
        self._range_shards = np.array([self._indices[part.path] for part in ranges], np.int64)

    def _open_here(self) -> None:
        if self._process != os.getpid():  # first call, or a forked child
            self._files = ShardFiles(
                self._shards if self._raw is None else self._raw.other_shards,
                self._options,
                mean_bytes=self._mean_bytes,
                counters=self.counters,
                read=np.unique(self._range_shards).tolist(),
            )
            self._process = os.getpid()
            self.reads_ahead = self._files.reads_ahead or self._raw is not None
            self.reads_in_order = self._files.reads_in_order

    def read(self, positions: Positions) -> Rows:
        """Return the records at some positions, in their order.

        Raises:
            CorruptShardError: a record is damaged, or a shard differs from the manifest.
        """
        self._open_here()
        while True:
            shards, numbers = self._locate(positions)
            if self._bad:
                shards, numbers = self._with_substitutes(positions, shards, numbers)
            rows = self._read(shards, numbers)
            if rows is not None:
                return rows

    def read_ahead(self, positions: Positions) -> None:
        """Start reading records that are needed soon."""
        self._open_here()
        shards, numbers = self._locate(positions)
        if self._raw is not None:
            shards, numbers = self._raw.read_ahead(shards, numbers)
        if self._files.reads_ahead:
            self._files.read_ahead(shards, numbers)

    def leave_out(self, error: Exception) -> None:
        """Replace the record that an error names by another from now on, or raise the error."""
        if not isinstance(error, DatasetError) or error.record is None:
            raise error
        self._note(self._indices[error.path or ""], error.record, error)

    def place_of(self, record: RecordName) -> str:
        """Return the file of a record for messages: its shard, or its raw input."""
        index = self._indices[record.path]
        if self._raw is None or not self._raw.is_raw(index):
            return record.path
        return self._raw.source_of(index, record.number)

    def name_of(self, index: int, number: int) -> RecordName:
        """Return the name of a record in `unreadable`.

        Args:
            index: the index of its shard among the shards of all sources.
            number: its number in the shard.
        """
        return RecordName(self._shards[index].path, number)

    def _note(self, index: int, number: int, error: DatasetError) -> None:
        if not self._skips:
            raise error
        self.unreadable[self.name_of(index, number)] = str(error)
        self._bad.add((index, number))

    def _note_behind(self, index: int) -> None:
        """Note all records after the end of a truncated shard.

        The search for a replacement skips them all at once, so the ledger must list all of them as
        soon as one is found.
        """
        if index in self._cut:
            return
        self._cut.add(index)
        path, end = self._shards[index].path, int(self._files.counts[index])
        for part in self.ranges:
            first = max(part.skip, end)
            if part.path == path and first < part.stop:
                why = str(self._missing(index, first))
                for number in part.numbers[part.numbers >= first].tolist():
                    self.unreadable.setdefault(self.name_of(index, number), why)

    def _locate(self, positions: Positions) -> tuple[Positions, Positions]:
        """Return the shard of each position, and the number of the record in it."""
        ranges, numbers = self._positions.places_of(positions)
        return self._range_shards[ranges], numbers

    def _with_substitutes(
        self, positions: Positions, shards: Positions, numbers: Positions
    ) -> tuple[Positions, Positions]:
        """Return shards and numbers, with unreadable records replaced by the next readable ones."""
        for row, record in enumerate(zip(shards.tolist(), numbers.tolist(), strict=True)):
            place, tried = int(positions[row]), 0
            while (is_behind := record[1] >= self._files.counts[record[0]]) or record in self._bad:
                if is_behind and not tried:
                    self._note(*record, self._missing(*record))
                    self._note_behind(record[0])
                tried += 1
                if tried > self._num_records:
                    first = next(iter(self.unreadable.values()))
                    rule = f"records: expected at least one that can be read, got {first}"
                    raise CorruptShardError(rule)
                part = int(self._positions.places_of(np.array([place]))[0][0])
                place = self._positions.end_of(part) if is_behind else place + 1
                place %= self._num_records
                located = self._locate(np.array([place]))
                record = int(located[0][0]), int(located[1][0])
            shards[row], numbers[row] = record
        return shards, numbers

    def _read(self, shards: Positions, numbers: Positions) -> Rows | None:
        """Return the records, or None if some cannot be read; these are noted."""

        def name(row: int) -> RecordName:
            return RecordName(self._shards[shards[row]].path, int(numbers[row]))

        if self._raw is not None:
            return self._read_with_raw(self._raw, shards, numbers, name)
        return self._read_shards(shards, numbers)

    def _read_with_raw(
        self,
        raw: RawReader,
        shards: Positions,
        numbers: Positions,
        name: Callable[[int], RecordName],
    ) -> Rows | None:
        """Return records, including raw inputs, or None if some cannot be read."""
        is_raw = raw.mask(shards)
        began = perf_counter_ns()
        raw_rows = raw.read(shards[is_raw], numbers[is_raw])
        sizes = raw_rows.ends - raw_rows.begins
        self.counters.add(
            read=perf_counter_ns() - began,
            records=len(sizes) - len(raw_rows.errors),
            raw_records=len(sizes) - len(raw_rows.errors),
            record_bytes=int(sizes.sum()) + len(sizes) * (HEADER_BYTES + FOOTER_BYTES),
        )
        for row, error in zip(
            np.flatnonzero(is_raw)[raw_rows.bad].tolist(), raw_rows.errors, strict=True
        ):
            self._note(int(shards[row]), int(numbers[row]), error)
        if raw_rows.errors:
            return None
        if is_raw.all():
            return Rows(raw_rows.data, raw_rows.begins, raw_rows.ends, name)
        others = self._read_shards(shards[~is_raw], numbers[~is_raw])
        if others is None:
            return None
        data = np.concatenate([raw_rows.data, np.frombuffer(others.data, np.uint8)])
        begins, ends = np.empty((2, len(shards)), np.int64)
        begins[is_raw], ends[is_raw] = raw_rows.begins, raw_rows.ends
        begins[~is_raw] = others.begins + len(raw_rows.data)
        ends[~is_raw] = others.ends + len(raw_rows.data)
        return Rows(data, begins, ends, name)

    def _read_shards(self, shards: Positions, numbers: Positions) -> Rows | None:
        """Return records of shards, or None if some cannot be read; these are noted."""

        def name(row: int) -> RecordName:
            return RecordName(self._shards[shards[row]].path, int(numbers[row]))

        began = perf_counter_ns()
        begins, ends, sums, are_known = self._files.bounds(shards, numbers)
        if len(begins) and begins.min() < 0:
            for row in np.flatnonzero(begins < 0).tolist():
                index, number = int(shards[row]), int(numbers[row])
                self._note(index, number, self._missing(index, number))
            return None
        data, starts = self._files.gather(shards, begins, ends)
        stops = starts + (ends - begins)
        gathered = perf_counter_ns()
        # A shard of another run may have the same size, and intact records.
        footers, is_whole = check_frames(data, starts, stops)
        bad = np.flatnonzero((footers != sums) & are_known | ~is_whole).tolist()
        self.counters.add(
            read=gathered - began,
            check=perf_counter_ns() - gathered,
            records=len(starts),
            record_bytes=int((ends - begins).sum()),
        )
        if not bad:
            return Rows(data, starts + HEADER_BYTES, stops - FOOTER_BYTES, name)
        self._files.check(shards[bad])
        rows = [(int(shards[n]), int(begins[n]), int(ends[n])) for n in bad]
        dropped = [self._files.forget(*row) for row in rows if row not in self._seen_bad]
        self._seen_bad.update(rows)
        if any(dropped):  # the copy is damaged, or its original
            return None
        for row in bad:
            frame = bytes(data[starts[row] : stops[row]])
            path, number = name(row)
            try:
                unframe(frame, path=path, record=number, offset=int(begins[row]))
            except CorruptShardError as error:
                self._note(int(shards[row]), number, error)
            else:
                raise CorruptShardError.at(
                    path,
                    expected="the record that the dataset's index describes",
                    got="another, intact record",
                    record=number,
                    advice="The file belongs to another dataset or run. Restore the right file, or "
                    "write the dataset again.",
                )
        return None

    def _missing(self, index: int, number: int) -> CorruptShardError:
        """Return the error for a record that a shard lacks."""
        if (damage := self._files.damage.get(index)) is not None:
            return copy.copy(damage)  # an error's traceback grows each time that it is raised
        path = self._shards[index].path
        return CorruptShardError.at(
            path, expected="more records", got="the end of the file", record=number
        )
