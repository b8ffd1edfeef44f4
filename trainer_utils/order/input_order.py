"""`InputOrder`: which record comes at which step on which worker.

    order = InputOrder(ranges, OrderOptions(batch_size=64, shuffle="global"), num_workers=4)
    order.records(epoch=2, step=100, worker=3)      # [RecordName(path='…', number=17), …]

Every input reads by this object: what is said here, without reading anything, is what a trainer
gets. docs/order.md specifies it.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from trainer_utils.format import ConfigError, CorruptShardError
from trainer_utils.format.file_ranges import FileRange, RecordName, RecordPositions
from trainer_utils.format.settings import number
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.options import OrderOptions
from trainer_utils.order.shuffling import BlockShuffle, FileOrder, GlobalShuffle, Order, Positions
from trainer_utils.order.state import InputState, check_state, order_digest

__all__ = ["InputOrder"]

_BLOCK_BYTES = 256 << 20  # that `shuffle=True` shuffles together: 2,500 photos of 100 KB
_RECORD_BYTES = 40  # of a record in memory, beside its own


class InputOrder:
    """The order of an input, for all of its workers.

    Args:
        ranges: the parts of files that hold an epoch's records; of several datasets with weights
            those of `mix_ranges`.
        options: of the order; `InputOptions` are such options too.
        num_workers: input pipelines, each of which gets an equal share.
        num_replicas: of all workers together, a multiple of the workers. None: one each.
        mean_record_bytes: of a serialized record, from which follows how many records
            `shuffle=True` shuffles together.
        digest: of the dataset and of the slices that are read.

    Attributes:
        ranges, options: as given, the former without those that are empty.
        layout: of an epoch's batches.
        digest: of the dataset, the slices of it and the settings that shape batches.
        start: where the input begins.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to go on from.
    """

    def __init__(
        self,
        ranges: Sequence[FileRange],
        options: OrderOptions,
        *,
        num_workers: int = 1,
        num_replicas: int | None = None,
        mean_record_bytes: float | None = None,
        digest: str = "",
    ) -> None:
        workers = number(1)("num_workers", num_workers)
        replicas = workers if num_replicas is None else num_replicas
        self.ranges = [part for part in ranges if part.take]
        self.options = options
        self.layout = _layout_of(
            sum(part.take for part in ranges),
            options,
            num_workers=workers,
            num_replicas=number(1)("num_replicas", replicas),
        )
        _check_pairs(options, self.layout)
        self._mean_record_bytes = mean_record_bytes
        self._files = RecordPositions(self.ranges)
        self.digest = order_digest(digest, options)
        self.start = self._first_state()

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch; without a batch size, examples of each worker."""
        return self.layout.steps * self.options.echoing

    @property
    def block_records(self) -> int:
        """How many records are shuffled together, at the least.

        Raises:
            ConfigError: it follows from the size of a record, which was not said.
        """
        shuffle = self.options.shuffle
        if isinstance(shuffle, int) and not isinstance(shuffle, bool):
            return shuffle
        if self._mean_record_bytes is None:
            rule = f"the bytes of a record, of which shuffle=True shuffles {_BLOCK_BYTES} together"
            raise ConfigError.of("mean_record_bytes", None, allowed=rule)
        return max(1, int(_BLOCK_BYTES / (self._mean_record_bytes + _RECORD_BYTES)))

    def positions(self, epoch: int, step: int, worker: int = 0) -> Positions:
        """The records of a worker's rows of a batch, as places in `ranges`' records.

        Args:
            epoch: counted from 0.
            step: in that epoch, counted from 0; without a batch size, an example.
            worker: which input pipeline.

        Returns:
            `(rows,) int64`; with `remainder="pad"` the rows of weight 0 after them are not listed.

        Raises:
            ConfigError: there is no such step or worker.
        """
        layout = self.layout
        if not 0 <= worker < layout.num_workers:
            raise ConfigError.of("worker", worker, allowed=f"one of {layout.num_workers}, from 0")
        if epoch < 0 or not 0 <= step < self.steps_per_epoch:
            rule = f"one of {self.steps_per_epoch} of an epoch, from 0, in epoch 0 or later"
            raise ConfigError.of("step", (epoch, step), allowed=rule)
        batch = step // self.options.echoing
        rows = layout.rows(worker, step=batch)
        return self._order.batch(self._epoch_of_order(epoch), batch, *rows)

    def upcoming(self, epoch: int, step: int, worker: int = 0, *, steps: int = 8) -> Positions:
        """The records of the steps that follow one, of the next epoch as well, to be read ahead."""
        each = self.steps_per_epoch
        places = (divmod(epoch * each + step + ahead, each) for ahead in range(1, steps + 1))
        return np.concatenate([self.positions(*place, worker) for place in places])

    def records(self, *, epoch: int, step: int, worker: int) -> list[RecordName]:
        """`positions` by their files: the records of a worker's part of a batch, row by row."""
        return self._files.locate(self.positions(epoch, step, worker))

    def replica_of(self, worker: int, *, row: int, rows: int) -> int:
        """Which replica, of all workers' together, gets a row of a worker's `rows`."""
        each = self.layout.replicas_per_worker
        if self.options.keeps_rows:
            return worker * each + row // self.layout.rows_per_replica
        return worker * each + ((row + 1) * each - 1) // rows

    def steps(self, *, epoch: int, record: RecordName) -> list[int]:
        """The steps of an epoch that a record comes at, on whichever worker, in rising order."""
        found: set[int] = set()
        for position in self._files.positions_of(record) if self.steps_per_epoch else ():
            batch = self._order.step_of(self._epoch_of_order(epoch), position)
            if batch is not None:
                echoing = self.options.echoing
                found.update(range(batch * echoing, (batch + 1) * echoing))
        return sorted(found)

    def next_of(self, record: RecordName, is_good: Callable[[RecordName], bool]) -> RecordName:
        """A record, or the one that stands in its place: the next of the epoch's list that is good.

        Raises:
            CorruptShardError: none is.
        """
        if is_good(record):
            return record
        total = self.layout.num_records
        position = self._files.positions_of(record)[0]
        for ahead in range(1, total):
            (found,) = self._files.locate(np.array([(position + ahead) % total]))
            if is_good(found):
                return found
        raise CorruptShardError("records: expected one at least that can be read, got none")

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs."""
        step, each = number(0)("step", step), self.steps_per_epoch
        epoch, within = divmod(step, each) if each else (0, 0)
        return InputState(
            epoch=epoch,
            step=within,
            batch_size=self.layout.batch_size,
            seed=self.options.seed,
            digest=self.digest,
        )

    def _first_state(self) -> InputState:
        """Where the input begins.

        Raises:
            ConfigError: the token is of another dataset, seed, order, or, within an epoch, batch.
        """
        state = self.options.state
        token = None if isinstance(state, int) else check_state(state)
        if token is None:
            return self.state(state or 0)
        here = self.state(0)
        cures = {
            "digest": "It is of another dataset, split, or of other settings of the order "
            "(shuffle, remainder, weights, echoing): begin anew, with state=None",
            "seed": "Set that seed",
        }
        if token.step:
            cures["batch_size"] = "Set that batch_size, or change it at the start of an epoch"
            if self.options.batch_size is None:
                cures["batch_size"] = "Single examples go on with as many workers within an epoch"
        for name, cure in cures.items():
            wanted, got = getattr(token, name), getattr(here, name)
            if wanted != got:
                rule = f"the {name} of the token, {wanted!r}"
                raise ConfigError.of("state", got, allowed=rule, advice=f"{cure}.")
        if token.step and token.step >= self.steps_per_epoch:
            rule = f"a step below {self.steps_per_epoch}, the steps of an epoch"
            raise ConfigError.of("state", token.step, allowed=rule)
        return dataclasses.replace(here, epoch=token.epoch, step=token.step)

    def _epoch_of_order(self, epoch: int) -> int:
        return epoch if self.options.reshuffle_each_iteration else 0

    @functools.cached_property
    def _order(self) -> Order:
        options, layout = self.options, self.layout
        if options.shuffle == "global":
            return GlobalShuffle(layout, seed=options.seed)
        if options.shuffle:
            return BlockShuffle(layout, seed=options.seed, block_records=self.block_records)
        return FileOrder(layout)


def _check_pairs(options: OrderOptions, layout: BatchLayout) -> None:
    """That no pair of rows is parted, and that there is a batch of pairs."""
    if not options.keeps_pairs:
        return
    size, rows = layout.batch_size, layout.rows_per_replica
    if rows % 2:
        rule = f"an even number of rows for each of {layout.num_replicas} replicas, since augment "
        raise ConfigError.of("batch_size", size, allowed=f"{rule}mixes pairs of rows")
    if layout.num_records and not layout.full_steps:
        rule = f"at most the {layout.num_records} records that there are, since augment mixes full "
        raise ConfigError.of("batch_size", size, allowed=f"{rule}batches only")


def _layout_of(
    num_records: int, options: OrderOptions, *, num_workers: int, num_replicas: int
) -> BatchLayout:
    """The layout of an epoch; single examples are batches of one row for each worker."""
    if options.batch_size is None:
        return BatchLayout(
            num_records=num_records,
            batch_size=num_workers,
            num_workers=num_workers,
            remainder="drop",
        )
    size = options.batch_size
    if num_replicas < num_workers:  # a context that does not know its replicas: a whole batch each
        size, num_replicas = size // num_replicas * num_workers, num_workers
    if options.remainder == "drop" and 0 < num_records < size:
        rule = f"at most the {num_records} records that there are, since remainder='drop' would "
        raise ConfigError.of("batch_size", size, allowed=f"{rule}leave out all of them")
    return BatchLayout(
        num_records=num_records,
        batch_size=size,
        num_workers=num_workers,
        num_replicas=num_replicas,
        remainder=options.remainder,
    )
