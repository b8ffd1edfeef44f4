"""Look up the records that a run saw at each step, by name, in the ledger of the run.

    run = RunLedger("checkpoints/", datasets=["gs://bucket/examples/5"])
    run.at_step(1234).to_json()
    run.of_record("cat/1.jpg").sightings

Only records whose names are printed are read. A record is found by name in the indices of the
datasets; a dataset without indices is read completely.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence, Sized
from typing import NamedTuple

from components.report.records import ExampleReader, find_places
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity
from trainer_utils.dataset import Dataset, ShardFile
from trainer_utils.dataset.location import Place
from trainer_utils.dataset.selection import Source, digest_of, source_of
from trainer_utils.format.slices import RecordName
from trainer_utils.ledger.input_ledger import InputHistory, SeenAt, Segment
from trainer_utils.ledger.recorder import read_ledger
from trainer_utils.options import InputOptions
from trainer_utils.order import InputOrder
from trainer_utils.order.packing import DocumentPart, PackIndex
from trainer_utils.reading.filtering import filtered_sources
from trainer_utils.reading.opening import mix_parts
from trainer_utils.reading.packing import PackedSource, packed_sources
from trainer_utils.storage import path_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedRecord:
    """A record: its name, or else its split and number; its number in the split; its shard."""

    name: str
    split: str
    number: int
    shard: str

    @property
    def place(self) -> str:
        """The split and number of the record."""
        return f"{self.split} {self.number:,}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepRow:
    """A row of a batch, or a document of a packed row with its range of tokens."""

    worker: int
    replica: int
    record: NamedRecord
    stands_in: bool
    tokens: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStep(TextReport):
    """The global batch of a step, with its epoch and its step in the epoch."""

    step: int
    epoch: int
    step_in_epoch: int
    rows: Sequence[StepRow]  # by worker, then by replica; without rows of weight 0
    skipped: Sequence[NamedRecord]  # records that could not be read

    def to_json(self) -> JsonObject:
        """Return plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        rows = []
        for row in self.rows:
            remark = "stands in" * row.stands_in
            if row.tokens is not None:
                remark = f"tokens {row.tokens[0]:,} to {row.tokens[1] - 1:,}"
            rows.append([row.worker, row.replica, row.record.place, row.record.name, remark])
        return [
            f"step {self.step:,}: epoch {self.epoch:,}, step {self.step_in_epoch:,} of it, "
            f"{quantity(len(rows), 'record')}",
            "",
            make_table(["worker", "replica", "place", "record", ""], rows),
            *(f"could not be read: {each.place} ({each.shard})" for each in self.skipped),
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sighting:
    """A record and the steps that saw it, in ascending order."""

    record: NamedRecord
    steps: Sequence[SeenAt]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord(TextReport):
    """The records of one name or place in the datasets of a run, with the steps that saw them."""

    sightings: Sequence[Sighting]

    def to_json(self) -> JsonObject:
        """Return plain JSON types."""
        return {
            "records": [
                {**vars(seen.record), "steps": [step._asdict() for step in seen.steps]}
                for seen in self.sightings
            ]
        }

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        parts: list[Part] = []
        for seen in self.sightings:
            times = quantity(len(seen.steps), "time")
            parts.append(f"{seen.record.name} ({seen.record.place}): seen {times}")
            parts += [make_table(["step", "epoch", "step in epoch"], seen.steps), ""]
        return parts[:-1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSummary(TextReport):
    """A run: its steps, its datasets, and its segments, one for each start of the process."""

    steps: int
    datasets: Sequence[str]
    segments: Sequence[Segment]

    def to_json(self) -> JsonObject:
        """Return plain JSON types."""
        return {**vars(self), "segments": [segment.to_json() for segment in self.segments]}

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        rows = [
            [s.first_step, s.steps, s.num_workers, s.num_replicas, sum(map(len, lost))]
            for s in self.segments
            for lost in [s.unreadable.values()]
        ]
        header = ["from step", "steps", "workers", "replicas", "unreadable records"]
        title = f"{quantity(self.steps, 'step')} of {', '.join(self.datasets)}"
        return [title, "", make_table(header, rows)]


class _File(NamedTuple):
    """A shard of a dataset, and the number of its first record in its split."""

    dataset: Dataset
    split: str
    first: int
    shard: ShardFile


class RunLedger:
    """The records that a run saw.

    Args:
        run: the folder passed to `InputProgress`, or one of its ledgers.
        datasets: the current addresses of the datasets, in the order of the run. Empty: the
            addresses that the run used.

    Raises:
        DatasetError: the ledger is missing or damaged.
    """

    def __init__(
        self, run: str | os.PathLike[str], *, datasets: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        self._moved = [path_of("datasets", uri) for uri in datasets]
        self._history = InputHistory(read_ledger(run), self._order)
        self._readers: dict[Place, ExampleReader] = {}
        self._files: dict[str, _File] = {}
        self._packs: dict[str, PackIndex] = {}  # by the path in the names of packs

    def summary(self) -> RunSummary:
        """Return the steps, the datasets and the segments of the run."""
        ledger = self._history.ledger
        places = [str(place) for segment in ledger.segments for place, _ in segment.datasets]
        return RunSummary(
            steps=ledger.steps,
            datasets=list(dict.fromkeys(places)),
            segments=ledger.segments,
        )

    def at_step(self, step: int) -> RunStep:
        """Return the global batch of a step.

        Args:
            step: the step, counted over the whole run, from 0.

        Raises:
            ConfigError: the run has no such step.
            DatasetError: a dataset is missing, or differs from the one that the run read.
        """
        batch = self._history.batch(step)
        parts = [(row, part) for row in batch.rows for part in self._parts(row.record)]
        records = self._named({part.record for _, part in parts})
        rows = [
            StepRow(
                **{**row._asdict(), "record": records[part.record]},
                tokens=(part.offset, part.offset + part.length) if part.length else None,
            )
            for row, part in parts
        ]
        skipped = [self._record(record) for record in batch.skipped]
        return RunStep(**batch.at._asdict(), rows=rows, skipped=skipped)

    def records_of_row(
        self, step: int, row: int, rows_of_workers: Mapping[int, Sized]
    ) -> list[NamedRecord]:
        """Return the record of a row, or the documents of a packed row; [] for a padding row.

        Args:
            step: the step, counted over the whole run, from 0.
            row: the row in the global batch, from 0.
            rows_of_workers: one value per row of each worker, padding rows included.
        """
        batch = self._history.batch(step)
        for worker, rows in sorted(rows_of_workers.items()):
            if row < len(rows):
                rows_read = [entry for entry in batch.rows if entry.worker == worker]
                entries = rows_read[row : row + 1]  # none for a padding row
                records = [part.record for entry in entries for part in self._parts(entry.record)]
                named = self._named({*records})
                return [named[record] for record in records]
            row -= len(rows)
        return []

    def of_record(self, name: str) -> RunRecord:
        """Return the steps that saw the records with a name.

        Args:
            name: the `filename` or `id` of the records.

        Raises:
            DatasetError: no record has this name, or a dataset is missing or differs.
        """
        self._open_all()
        places = [
            RecordName(path, place.record)
            for reader in self._readers.values()
            for place in find_places(reader.dataset, name)
            for path, file in self._files.items()
            if file.dataset is reader.dataset and file.shard.name == place.shard
        ]
        if not places:
            raise DatasetError(
                f"record {name!r}: expected the filename or id of a record of "
                f"{', '.join(self.summary().datasets)}, found none"
            )
        return self._seen(places)

    def of_place(self, split: str, number: int) -> RunRecord:
        """Return the steps that saw a record; read only that record.

        Args:
            split: the split of the record.
            number: the number of the record in the split, from 0.

        Raises:
            ConfigError: the datasets have no such record.
            DatasetError: a dataset is missing or differs from the one that the run read.
        """
        self._open_all()
        places = [
            RecordName(path, number - file.first)
            for path, file in self._files.items()
            if file.split == split and 0 <= number - file.first < file.shard.num_records
        ]
        if not places:
            rule = "the split and the number of a record"
            raise ConfigError.of("place", f"{split}:{number}", allowed=rule)
        return self._seen(places)

    def _seen(self, records: Sequence[RecordName]) -> RunRecord:
        named = self._named(records)
        seen = [Sighting(record=named[each], steps=self._steps_of(each)) for each in records]
        return RunRecord(sightings=seen)

    def _parts(self, record: RecordName) -> list[DocumentPart]:
        """Return the documents of a pack, or any other record as one part of length 0."""
        packs = self._packs.get(record.path)
        return [DocumentPart(record, 0, 0)] if packs is None else packs.documents(record.number)

    def _steps_of(self, record: RecordName) -> list[SeenAt]:
        """Return the steps that saw a record, or a pack that contains a part of it."""
        rows = [record]
        for path, packs in self._packs.items():
            rows += [RecordName(path, pack) for pack in packs.packs_of(record)]
        return self._history.steps_of(rows)

    def _open_all(self) -> None:
        for segment in self._history.ledger.segments:
            self._history.order_of(segment)

    def _order(self, segment: Segment) -> InputOrder:
        """Open the datasets of a segment and return its order."""
        sources = [self._source(place, split) for place, split in self._placed(segment)]
        then = segment.settings
        options = InputOptions(pack=then.get("pack"), where=then.get("where"))
        sources = packed_sources(filtered_sources(sources, options), options)
        self._packs |= {s.ranges[0].path: s.packs for s in sources if isinstance(s, PackedSource)}
        order = segment.order(
            [part for source in sources for part in source.ranges],
            digest=digest_of(sources),
            parts=mix_parts(sources, segment.weights),
        )
        if order.digest != segment.digest:
            uris = ", ".join(repr(source.dataset.uri) for source in sources)
            raise DatasetError(
                f"dataset {uris}: expected the dataset of the run, with digest {segment.digest}, "
                f"got one with digest {order.digest}. Pass its current location with --dataset. If "
                "`tfx-shards forget` rewrote it, the certificate lists the records the run saw."
            )
        return order

    def _placed(self, segment: Segment) -> list[tuple[Place, str]]:
        """Return the datasets of a segment at their current addresses."""
        then = segment.datasets
        if not self._moved:
            return [(p if isinstance(p, str) else tuple(p), split) for p, split in then]
        if len(self._moved) != len(then):
            rule = f"one for each of {len(then)} datasets"
            raise ConfigError.of("dataset", self._moved, allowed=rule)
        return [(now, split) for now, (_, split) in zip(self._moved, then, strict=True)]

    def _source(self, place: Place, split: str) -> Source:
        if place not in self._readers:
            reader = self._readers[place] = ExampleReader(place)
            for name in reader.splits:
                for first, shard in reader.shards(name):
                    self._files[shard.path] = _File(reader.dataset, name, first, shard)
        return source_of(self._readers[place].dataset, split)

    def _record(self, record: RecordName, name: str = "") -> NamedRecord:
        file = self._files[record.path]
        number = file.first + record.number
        name = name or f"{file.split} {number}"
        return NamedRecord(name=name, split=file.split, number=number, shard=file.shard.name)

    def _named(self, records: Collection[RecordName]) -> dict[RecordName, NamedRecord]:
        """Return the records with their names; a damaged record has its split and number."""
        records_by_name: dict[RecordName, NamedRecord] = {}
        for reader in self._readers.values():
            by_split: dict[str, dict[int, RecordName]] = {}
            for record in records:
                file = self._files[record.path]
                if file.dataset is reader.dataset:
                    by_split.setdefault(file.split, {})[file.first + record.number] = record
            for split, numbers in by_split.items():
                names = _names(reader, split, sorted(numbers))
                records_by_name |= {
                    numbers[n]: self._record(numbers[n], name) for n, name in names.items()
                }
        return records_by_name


def _names(reader: ExampleReader, split: str, numbers: Sequence[int]) -> dict[int, str]:
    """Return the names of records by number; the name of a damaged record is empty."""
    try:
        return {example.number: example.name for example in reader.read(split, numbers)}
    except DatasetError:
        if len(numbers) == 1:
            return {numbers[0]: ""}
        half = len(numbers) // 2
        return _names(reader, split, numbers[:half]) | _names(reader, split, numbers[half:])
