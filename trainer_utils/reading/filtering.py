"""Find the records that meet a condition, once for each dataset.

    sources = filtered_sources(sources, options)       # their ranges keep what `where` selects

One pass over the records parses the features of the condition only. Its result takes one bit for
each record, and is kept in the cache folder.
"""

import dataclasses
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.printable import printable
from trainer_utils.core.step_display import show_step
from trainer_utils.dataset.raw_inputs import RawDataset
from trainer_utils.dataset.selection import Source
from trainer_utils.format import Feature
from trainer_utils.format.condition import Condition, parse_condition
from trainer_utils.format.example_columns import Column
from trainer_utils.format.record_bits import RecordBits
from trainer_utils.format.slices import FileRange, RecordPositions
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES
from trainer_utils.options import InputOptions
from trainer_utils.reading.packing import PackedSource
from trainer_utils.reading.record_reader import RecordReader, Rows
from trainer_utils.runtime.machine import usable_cores
from trainer_utils.runtime.threads import prefetch_map
from trainer_utils.storage.kept_files import KeptFiles

_logger = logging.getLogger(__name__)
_VERSION = 1  # of kept results
_SCAN_BYTES, _SCAN_ROWS = 16 << 20, 1 << 16  # limits of the records scanned at once
_NUMBER_BYTES = 8
_MAX_NAMED = 20  # features in a message
_PADDING = bytes(16)  # after the last record, so that parsers may read past its end

Bools = npt.NDArray[np.bool_]


class _Matches(NamedTuple):
    """The records of a source that meet a condition.

    Attributes:
        mask: `(records,) bool`.
        num_bytes: the size of these records in shards, with framing; 0 if it is not known.
        num_unreadable: the number of records that could not be read, which do not count.
    """

    mask: Bools
    num_bytes: int
    num_unreadable: int = 0

    def to_bytes(self) -> bytes:
        """Return the content of a kept file."""
        data = RecordBits.of(self.mask).bits.tobytes()
        return data + self.num_bytes.to_bytes(_NUMBER_BYTES, "little")

    @classmethod
    def from_bytes(cls, data: bytes, num_records: int) -> "_Matches":
        """Parse the result of `to_bytes`."""
        size = len(data) - _NUMBER_BYTES
        bits = RecordBits(np.frombuffer(data, np.uint8, size), num_records)
        return cls(bits.mask(), int.from_bytes(data[size:], "little"))


def joined_conditions(first: str | None, second: str) -> str:
    """Return the condition that is met where both are; raise ConfigError if the second is invalid.

    Args:
        first: a condition, or None for none.
        second: another condition.
    """
    text = parse_condition(second).text.strip()
    return text if first is None else f"({first}) and ({text})"


def check_filter(options: InputOptions, where: str) -> None:
    """Raise a ConfigError if an input begins at a state, which is not one of its filtered view."""
    if options.state is not None:
        both = joined_conditions(options.where, where)
        raise ConfigError(
            "filter: expected an input that begins at its start, since a filter changes which "
            f"record comes when, got state={options.state!r}. Filter first and then load the "
            f"state; or pass where={both!r} next to state=.",
            setting="state",
            value=options.state,
        )


def unfiltered(source: Source) -> Source:
    """Return the source of all records of the slices of a source, not packed."""
    records = source.records if isinstance(source, PackedSource) else source
    return records.unfiltered or records


def filtered_sources(sources: Sequence[Source], options: InputOptions) -> list[Source]:
    """Return sources of the records that `options.where` selects; without it, the same sources.

    Raises:
        ConfigError: a feature is unknown or cannot be compared, or no record meets the condition.
        CorruptShardError: a record is damaged, unless damaged ones are skipped.
    """
    if options.where is None:
        return list(sources)
    condition = parse_condition(options.where)
    filtered = [_filtered(source, condition, options) for source in sources]
    is_empty = [
        not kept.num_records and source.num_records > 0
        for kept, source in zip(filtered, sources, strict=True)
    ]
    has_records = any(kept.num_records for kept in filtered)
    if any(is_empty) and (options.weights is not None or not has_records):
        source = sources[is_empty.index(True)]
        rule = f"a condition that a record of {source.split!r} meets"
        advice = f"None of {source.num_records:,} records does ({printable(source.dataset.uri)})"
        raise ConfigError.of("where", options.where, allowed=rule, advice=advice)
    return filtered


def matching_records(source: Source, where: str, options: InputOptions) -> npt.NDArray[np.bool_]:
    """Return which records of a source meet a condition, `(records,) bool`, in one pass."""
    return _Scan(source, parse_condition(where), {}, options).run().mask


def _filtered(source: Source, condition: Condition, options: InputOptions) -> Source:
    vocabularies = {
        name: [*source.dataset.vocabularies[name]]
        for name in condition.features
        if name in source.dataset.vocabulary_files
    }
    _check_features(source, condition)
    condition.mask({}, vocabularies)  # with no record: raises if a class is unknown
    matches = _matches(source, condition, vocabularies, options)
    kept = int(matches.mask.sum())
    unreadable = f"; {matches.num_unreadable:,} could not be read" if matches.num_unreadable else ""
    _logger.log(
        logging.WARNING if unreadable else logging.INFO,
        "where=%r keeps %s of %s records of %r%s (%s)",
        *(condition.text, f"{kept:,}", f"{len(matches.mask):,}", source.split, unreadable),
        printable(source.dataset.uri),
    )
    ranges, begin = list[FileRange](), 0
    for part in source.ranges:
        ranges.append(part.filtered(matches.mask[begin : begin + part.take]))
        begin += part.take
    return dataclasses.replace(
        source,
        ranges=ranges,
        where=condition.text,
        kept_bytes=matches.num_bytes / kept if matches.num_bytes else None,
        unfiltered=source,
    )


def _check_features(source: Source, condition: Condition) -> None:
    """Raise a ConfigError for an unknown feature, or one without comparable values."""
    features = source.dataset.features
    for name in condition.features:
        feature = features.get(name)
        if feature is None:
            if source.dataset.sampled is None:
                raise _unknown_feature(name, features)
        elif feature.has_pixels or feature.tensor is not None or feature.is_sequence:
            raise ConfigError.of("where", name, allowed="a feature of numbers or strings")


def _unknown_feature(name: str, features: Mapping[str, Feature]) -> ConfigError:
    names = sorted(features)
    rule = f"one of the features {', '.join(names[:_MAX_NAMED])}"
    return ConfigError.of("where", name, allowed=rule, advice=did_you_mean(name, names).strip())


def _matches(
    source: Source,
    condition: Condition,
    vocabularies: Mapping[str, Sequence[str]],
    options: InputOptions,
) -> _Matches:
    """Return the records that meet a condition, from the cache folder or a scan."""
    dataset = source.dataset
    versions: list[str] = []
    if dataset.manifest is None and not isinstance(dataset, RawDataset):  # changes go unnoticed
        versions = [dataset.files.version(shard.name) for shard in dataset.shard_files]
    key = (
        _VERSION,
        dataset.digest,
        versions,
        source.split,
        condition.text,
        sorted(vocabularies.items()),
    )
    kept = KeptFiles("filters", options.cache_folder)
    with kept.lock(key):  # other processes of this machine wait for the scan
        num_bytes = -(-source.num_records // 8) + _NUMBER_BYTES
        if (data := kept.read_checked(key, num_bytes=num_bytes)) is not None:
            return _Matches.from_bytes(data, source.num_records)
        matches = _Scan(source, condition, vocabularies, options).run()
        if not matches.num_unreadable:  # they may be readable next time
            kept.keep_checked(key, matches.to_bytes())
    return matches


class _Scan:
    """A pass over the records of a source.

    Args:
        source: the source.
        condition: the condition.
        vocabularies: the class names of its features.
        options: the settings of the input.
    """

    def __init__(
        self,
        source: Source,
        condition: Condition,
        vocabularies: Mapping[str, Sequence[str]],
        options: InputOptions,
    ) -> None:
        self._source, self._condition, self._vocabularies = source, condition, vocabularies
        reading = InputOptions(
            features=condition.features,
            shuffle=False,
            on_corrupt=options.on_corrupt,
            cache=options.cache,
            conversion=options.conversion,
        )
        dataset, self._raw = source.dataset, None
        if isinstance(dataset, RawDataset) and {*condition.features} <= {
            *dataset.raw.listed_features
        }:
            self._raw = dataset
        self._reader = RecordReader([source], reading, source.ranges)
        self._files = RecordPositions(source.ranges)
        self._lock, self._with_values = threading.Lock(), set[str]()

    def run(self) -> _Matches:
        """Return the records that meet the condition."""
        total = self._source.num_records
        step = max(1, min(_SCAN_ROWS, int(_SCAN_BYTES / max(self._source.mean_bytes, 1))))
        chunks = [range(begin, min(begin + step, total)) for begin in range(0, total, step)]
        threads = 1 if self._reader.reads_in_order else usable_cores()
        mask, num_bytes, done = np.zeros(total, np.bool_), 0, 0
        with show_step("Filtering records") as shown:
            results = prefetch_map(self._matching, chunks, threads=threads, most=2 * threads)
            for chunk, (holds, size) in zip(chunks, results, strict=True):
                mask[chunk.start : chunk.stop] = holds
                num_bytes, done = num_bytes + size, done + len(chunk)
                shown.update(done, total=total)
        for name in self._condition.features:
            if name not in self._source.dataset.features and name not in self._with_values:
                raise _unknown_feature(name, self._source.dataset.features)
        return _Matches(mask, num_bytes, len(self._reader.unreadable))

    def _matching(self, chunk: range) -> tuple[Bools, int]:
        """Return which records meet the condition, and their size in a shard."""
        positions = np.arange(chunk.start, chunk.stop)
        if self._raw is not None:
            columns = self._columns(self._listed_rows(self._raw, positions))
            return self._condition.mask(columns, self._vocabularies), 0
        while True:
            rows = self._reader.read(positions)
            try:
                columns = self._columns(rows)
            except DatasetError as error:
                self._reader.leave_out(error)  # raises it, unless damage is skipped
                continue
            break
        holds = self._condition.mask(columns, self._vocabularies)
        if unreadable := self._reader.unreadable:  # others were read in their place
            names = self._files.locate(positions)
            holds &= np.array([name not in unreadable for name in names], np.bool_)
        sizes = (rows.ends - rows.begins + RECORD_OVERHEAD_BYTES)[holds]
        return holds, int(sizes.sum())

    def _listed_rows(self, dataset: RawDataset, positions: npt.NDArray[np.int64]) -> Rows:
        """Return records of raw inputs with the features that need no file, in ascending order."""
        ranges, numbers = self._files.places_of(positions)
        examples: list[Sequence[bytes]] = []
        for index in np.unique(ranges).tolist():
            split = dataset.split_of(self._source.ranges[index].path)
            examples += dataset.raw.listed(split, numbers[ranges == index].tolist())
        ends = np.cumsum([sum(map(len, parts)) for parts in examples], dtype=np.int64)
        data = b"".join([*(part for parts in examples for part in parts), _PADDING])
        begins = np.append(0, ends[:-1])
        return Rows(data, begins, ends, lambda row: self._files.locate(positions[row : row + 1])[0])

    def _columns(self, rows: Rows) -> dict[str, Column]:
        """Return the values of the condition's features, with tokens as numbers."""
        columns = rows.parse(self._condition.features)
        for name, column in columns.items():
            feature = self._source.dataset.features.get(name)
            if feature is not None and feature.tokens is not None:
                lengths, tokens = rows.documents(name, column, feature.tokens)
                columns[name] = Column("int", lengths, tokens.astype(np.int64))
        with self._lock:
            self._with_values.update(name for name, column in columns.items() if len(column.values))
        return columns
