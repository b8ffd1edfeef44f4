"""`InputHistory`: which records a run saw at each of its steps, and which steps saw a record.

    history = InputHistory(ledger, open_order)
    history.batch(1234).rows[0].record      # RecordName(path='…', number=17)
    history.steps_of(record)                # [SeenAt(step=1234, epoch=2, step_in_epoch=10), …]

Nothing is listed but what was asked for: a step is worked out from its number, and a record's step
by the inverse of that.
"""

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.order.input_order import InputOrder
from trainer_utils.order.ledger import InputLedger, ReadPlan, Stretch

__all__ = ["BatchRow", "InputHistory", "OpenOrder", "SeenAt", "SeenBatch"]

OpenOrder = Callable[[ReadPlan, int, int], InputOrder]
"""Makes the order of a plan, of so many workers and replicas."""


class BatchRow(NamedTuple):
    """One row of a batch.

    Args:
        worker: that read it.
        replica: of all workers' together, that got it.
        record: which it is.
        stands_in: whether it stands in the place of one that could not be read.
    """

    worker: int
    replica: int
    record: RecordName
    stands_in: bool = False


class SeenAt(NamedTuple):
    """A step of the run, the epoch it was in, and its number in that."""

    step: int
    epoch: int
    step_in_epoch: int


class SeenBatch(NamedTuple):
    """The global batch of a step.

    Args:
        at: which step.
        rows: worker by worker, in the order of the rows; none of weight 0.
        skipped: the batch's records that could not be read.
    """

    at: SeenAt
    rows: Sequence[BatchRow]
    skipped: Sequence[RecordName]


class InputHistory:
    """What a run saw.

    Args:
        ledger: of the run.
        open_order: makes an order of one of its plans.
    """

    def __init__(self, ledger: InputLedger, open_order: OpenOrder) -> None:
        self.ledger = ledger
        self._open_order = functools.cache(
            lambda plan, workers, replicas: open_order(ledger.plans[plan], workers, replicas)
        )

    def order_of(self, stretch: Stretch) -> InputOrder:
        """The order that a stretch is of."""
        order: InputOrder = self._open_order(
            stretch.plan, stretch.num_workers, stretch.num_replicas
        )
        return order

    def stretch_at(self, step: int) -> Stretch:
        """The stretch that a step of the run is in.

        Raises:
            ConfigError: the run has no such step.
        """
        stretches = self.ledger.stretches
        index = bisect.bisect_right([one.first_step for one in stretches], step) - 1
        if index < 0 or step >= stretches[index].stop_step:
            first = stretches[0].first_step if stretches else 0
            raise ConfigError(
                f"step: expected one of the run's, from {first} to {self.ledger.steps - 1}, "
                f"got {step!r}",
                setting="step",
                value=step,
            )
        return stretches[index]

    def batch(self, step: int) -> SeenBatch:
        """The records of a step's global batch.

        Args:
            step: counted over the whole run, from 0.

        Raises:
            ConfigError: the run has no such step.
            DatasetError: it cannot be known: single examples, some of which were skipped.
        """
        stretch = self.stretch_at(step)
        order = self.order_of(stretch)
        _check_known(stretch, order)
        epoch, within = divmod(stretch.place_of(step, order.options.echoing), order.steps_per_epoch)
        damage = _Damage(stretch, order)
        rows: list[BatchRow] = []
        skipped: list[RecordName] = []
        for worker in range(order.layout.num_workers):
            records = order.records(epoch=epoch, step=within, worker=worker)
            skipped += filter(damage.has, records)
            rows += _rows(worker, records, order, damage)
        return SeenBatch(SeenAt(step, epoch, within), rows, skipped)

    def steps_of(self, record: RecordName) -> list[SeenAt]:
        """The steps whose batches had a record, in rising order.

        Args:
            record: the path of its file as the orders have it, and its number there.

        Raises:
            DatasetError: it cannot be known: single examples, some of which were skipped.
        """
        return [seen for stretch in self.ledger.stretches for seen in self._seen(stretch, record)]

    def _seen(self, stretch: Stretch, record: RecordName) -> list[SeenAt]:
        order = self.order_of(stretch)
        _check_known(stretch, order)
        damage = _Damage(stretch, order)
        if damage.has(record):
            return []
        found = set(self._steps_with(stretch, order, record))
        if damage.spare == record:  # it may stand in for others elsewhere
            for other in damage.records():
                for seen in self._steps_with(stretch, order, other):
                    if any(row.record == record for row in self.batch(seen.step).rows):
                        found.add(seen)
        return sorted(found)

    def _steps_with(
        self, stretch: Stretch, order: InputOrder, record: RecordName
    ) -> Iterator[SeenAt]:
        """The steps of a stretch that the order gives a record."""
        each, echoing = order.steps_per_epoch, order.options.echoing
        if not stretch.steps or not each:
            return
        last = stretch.place_of(stretch.stop_step - 1, echoing)
        for epoch in range(stretch.start // each, last // each + 1):
            for within in order.steps(epoch=epoch, record=record):
                step = stretch.step_at(epoch * each + within, echoing)
                if step is not None:
                    yield SeenAt(step, epoch, within)


class _Damage:
    """The records that could not be read in a stretch."""

    def __init__(self, stretch: Stretch, order: InputOrder) -> None:
        self._order = order
        self._runs = {order.paths[file]: sorted(runs) for file, runs in stretch.skipped.items()}

    def has(self, record: RecordName) -> bool:
        runs = self._runs.get(record.path, [])
        index = bisect.bisect_right(runs, record.number, key=lambda run: run[0]) - 1
        return index >= 0 and record.number < sum(runs[index])

    def records(self) -> Iterator[RecordName]:
        for path, runs in self._runs.items():
            for first, count in runs:
                yield from (RecordName(path, number) for number in range(first, first + count))

    @functools.cached_property
    def spare(self) -> RecordName | None:
        """The record that stands in where a replica has no other; None where none ever does."""
        if not self._runs:
            return None
        numbers = (
            RecordName(part.path, number)
            for part in self._order.ranges
            for number in range(part.skip, part.skip + part.take)
        )
        return next((record for record in numbers if not self.has(record)), None)


def _rows(
    worker: int, records: Sequence[RecordName], order: InputOrder, damage: _Damage
) -> Iterator[BatchRow]:
    """A worker's rows of a batch, replica by replica."""
    each = order.layout.replicas_per_worker
    for number, part in enumerate(_parts(records, order)):
        good = [record for record in part if not damage.has(record)]
        stand_in = next(iter(good), damage.spare)
        for record in part:
            if not damage.has(record):
                yield BatchRow(worker, worker * each + number, record)
            elif (
                order.options.keeps_rows
                and order.options.remainder != "pad"
                and stand_in is not None
            ):
                yield BatchRow(worker, worker * each + number, stand_in, True)
        is_empty = part and not good and not order.options.keeps_rows
        if is_empty and order.layout.num_replicas > 1 and stand_in is not None:
            yield BatchRow(worker, worker * each + number, stand_in, True)


def _parts(records: Sequence[RecordName], order: InputOrder) -> list[Sequence[RecordName]]:
    """The rows of each of a worker's replicas."""
    layout = order.layout
    each, rows = layout.replicas_per_worker, len(records)
    if order.options.batch_size is None or each == 1:
        return [records]
    bounds = [number * rows // each for number in range(each + 1)]
    if order.options.keeps_rows:
        bounds = [min(number * layout.rows_per_replica, rows) for number in range(each + 1)]
    return [records[first:last] for first, last in itertools.pairwise(bounds)]


def _check_known(stretch: Stretch, order: InputOrder) -> None:
    if order.options.batch_size is None and stretch.skipped:
        raise DatasetError(
            "ledger: expected batches, or single examples all of which could be read, got single "
            f"examples some of which were skipped, from step {stretch.first_step} on. Which came "
            "at which step is not known of these; train with a batch_size."
        )
