"""Keep a ledger of a run, to compute later which records were read at each step.

    history = InputHistory(InputLedger.from_json(text), open_order)
    history.batch(1234).rows[0].record      # RecordName(path='…', number=17)

The ledger has one line of JSON for each start of a process. Records are not listed: they follow
from the order. The exception are records that could not be read.
"""

import bisect
import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainer_utils.core.decoding import Count, decode
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import JsonObject, parse_json_object
from trainer_utils.format.slices import FileRange, RecordName
from trainer_utils.order.input_order import InputOrder
from trainer_utils.order.mixing import MixPart, WeightSchedule
from trainer_utils.order.order_options import OrderOptions

_VERSION = 2
_ORDER_SETTINGS = "batch_size shuffle reshuffle_each_iteration seed remainder weights echoing"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment:
    """The steps of a run from one start of a process to the next.

    Args:
        first_step: the number of its first step, counted over the whole run from 0.
        steps: the number of steps.
        start: its first step in the order, counted over all epochs.
        datasets: the uri and the slices of each dataset read.
        settings: the fields of `OrderOptions` that determine the order.
        digest: the digest of the order, as in tokens.
        mean_record_bytes: the mean size of a record, which `shuffle=True` depends on.
        num_workers, num_replicas: the workers and replicas that took part.
        unreadable: the numbers of records that could not be read, by the paths of their files.
    """

    first_step: Count
    steps: Count
    start: Count
    datasets: Sequence[tuple[str | tuple[str, ...], str]]
    settings: Mapping[str, Any]
    digest: str
    mean_record_bytes: float | None = None
    num_workers: Count = 1
    num_replicas: Count = 1
    unreadable: Mapping[str, Sequence[Count]] = dataclasses.field(default_factory=dict)

    @property
    def stop_step(self) -> int:
        """The number of the step after the last one."""
        return self.first_step + self.steps

    @property
    def weights(self) -> WeightSchedule | None:
        """The weights of its datasets, or None if they were not mixed."""
        value = self.settings.get("weights")
        return None if value is None else WeightSchedule.from_dict(value)

    def order(
        self, ranges: Sequence[FileRange], *, digest: str, parts: Sequence[MixPart] = ()
    ) -> InputOrder:
        """Rebuild the order from the current datasets; see `InputOrder`."""
        return InputOrder(
            ranges,
            OrderOptions(**{**self.settings, "weights": self.weights}),
            num_workers=self.num_workers,
            num_replicas=self.num_replicas,
            mean_record_bytes=self.mean_record_bytes,
            digest=digest,
            parts=parts,
        )

    def to_json(self) -> JsonObject:
        """Return the segment as plain JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject) -> "Segment":
        """Parse the result of `to_json`; raise DecodeError or ConfigError if it is invalid."""
        segment: Segment = decode(cls, value)
        _ = segment.weights  # raises if they are invalid
        return segment


def numbers_by_path(records: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group the numbers of records by the paths of their files."""
    numbers: dict[str, list[int]] = {}
    for path, number in sorted(records):
        numbers.setdefault(path, []).append(number)
    return numbers


def settings_of_order(options: OrderOptions) -> JsonObject:
    """Return the options that a segment keeps, as JSON types."""
    settings = {name: getattr(options, name) for name in _ORDER_SETTINGS.split()}
    if options.weights is not None:
        settings["weights"] = WeightSchedule.of(options.weights)
    for name in ("pack", "where"):
        if (value := getattr(options, name)) is not None:
            settings[name] = value
    plain: JsonObject = json.loads(json.dumps(settings, default=dataclasses.asdict))
    return plain


@dataclasses.dataclass(frozen=True)
class InputLedger:
    """The segments of a run in order. Each starts where the previous one ended."""

    segments: Sequence[Segment] = ()

    @property
    def steps(self) -> int:
        """Steps of the run."""
        return self.segments[-1].stop_step if self.segments else 0

    def with_segment(self, segment: Segment) -> "InputLedger":
        """Return the ledger with one more segment, without segments that made no step."""
        return InputLedger((*(earlier for earlier in self.segments if earlier.steps), segment))

    def merged(self, others: Sequence["InputLedger"]) -> "InputLedger":
        """Return the ledger with the unreadable records of the run's other workers added.

        Segments of other starts are ignored.
        """
        segments = []
        for segment in self.segments:
            start = dataclasses.replace(segment, steps=0, unreadable={})
            bad = _unreadable(segment)
            for other in itertools.chain.from_iterable(ledger.segments for ledger in others):
                if dataclasses.replace(other, steps=0, unreadable={}) == start:
                    bad |= _unreadable(other)
            segments.append(dataclasses.replace(segment, unreadable=numbers_by_path(bad)))
        return InputLedger(tuple(segments))

    def to_json(self) -> str:
        """Return one line of JSON for each segment."""
        return "".join(
            json.dumps({"version": _VERSION, **segment.to_json()}, separators=(",", ":")) + "\n"
            for segment in self.segments
        )

    @classmethod
    def from_json(cls, text: str, *, path: str = "ledger") -> "InputLedger":
        """Parse the result of `to_json`; errors name `path`."""
        segments = []
        for number, line in enumerate(text.splitlines(), 1):
            value = parse_json_object(line, path=path)
            try:
                if (version := value.pop("version", None)) != _VERSION:
                    raise ValueError(f"version {version!r}, not {_VERSION}")
                segments.append(Segment.from_json(value))
            except (TypeError, ValueError) as error:
                raise DatasetError(
                    f"{path!r}, line {number}: not a ledger as InputProgress writes it: {error}. "
                    "Take it from another checkpoint, or read it with the release "
                    "of tfx-shards that wrote it.",
                    path=path,
                ) from error
        return cls(tuple(segments))


class BatchRow(NamedTuple):
    """One row of a batch: its worker, its replica, its record, and whether that is a substitute."""

    worker: int
    replica: int
    record: RecordName
    stands_in: bool = False


class SeenAt(NamedTuple):
    """A step of the run, its epoch, and its number within that epoch."""

    step: int
    epoch: int
    step_in_epoch: int


class SeenBatch(NamedTuple):
    """The global batch of a step: its rows, worker by worker, and its unreadable records.

    Rows of weight 0 are left out.
    """

    at: SeenAt
    rows: Sequence[BatchRow]
    skipped: Sequence[RecordName]


class InputHistory:
    """The records that a run has read.

    Args:
        ledger: the ledger of the run.
        open_order: builds the order of a segment.
    """

    def __init__(self, ledger: InputLedger, open_order: Callable[[Segment], InputOrder]) -> None:
        self.ledger = ledger
        self._orders = functools.cache(lambda index: open_order(ledger.segments[index]))

    def order_of(self, segment: Segment) -> InputOrder:
        """Return the order of a segment."""
        order: InputOrder = self._orders(self.ledger.segments.index(segment))
        return order

    def batch(self, step: int) -> SeenBatch:
        """Return the global batch of a step, counted over the whole run from 0."""
        segments = self.ledger.segments
        index = bisect.bisect_right([segment.first_step for segment in segments], step) - 1
        if index < 0 or step >= segments[index].stop_step:
            first = segments[0].first_step if segments else 0
            raise ConfigError.of(
                "step", step, allowed=f"one of the run's, from {first} to {self.ledger.steps - 1}"
            )
        segment, order = segments[index], self._orders(index)
        bad = _unreadable(segment)
        epoch, within = divmod(segment.start + step - segment.first_step, order.steps_per_epoch)
        rows: list[BatchRow] = []
        skipped: list[RecordName] = []
        for worker in range(order.layout.num_workers):
            records = order.records(epoch=epoch, step=within, worker=worker)
            for place, record in enumerate(records):
                read = _read_for(record, order, bad)
                skipped += [record] if read != record else []
                replica = order.replica_of(worker, row=place, rows=len(records))
                rows.append(BatchRow(worker, replica, read, stands_in=read != record))
        return SeenBatch(SeenAt(step, epoch, within), rows, skipped)

    def steps_of(self, records: Collection[RecordName]) -> list[SeenAt]:
        """Return the steps, in ascending order, whose batches contained one of `records`."""
        sightings: set[SeenAt] = set()
        for segment in self.ledger.segments:
            order = self.order_of(segment)
            bad = _unreadable(segment)
            wanted = {
                record for record in {*records, *bad} if _read_for(record, order, bad) in records
            }
            steps = range(segment.start, segment.start + segment.steps)
            for at in order.steps_of(wanted, steps):
                step = segment.first_step + at - segment.start
                sightings.add(SeenAt(step, *divmod(at, order.steps_per_epoch)))
        return sorted(sightings)


def _unreadable(segment: Segment) -> set[RecordName]:
    return {RecordName(path, n) for path, numbers in segment.unreadable.items() for n in numbers}


def _read_for(record: RecordName, order: InputOrder, bad: Collection[RecordName]) -> RecordName:
    """Return the record that was read in place of `record`: itself, or the next readable one."""
    return order.next_of(record, lambda candidate: candidate not in bad) if bad else record
