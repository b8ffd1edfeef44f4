"""Compute which record each worker reads at each step. docs/order.md is the specification.

order = InputOrder(ranges, OrderOptions(batch_size=64, shuffle="global"), num_workers=4)
order.records(epoch=2, step=100, worker=3)      # [RecordName(path='…', number=17), …]
order.state(step=100)       # the token to resume from, with any number of workers
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainer_utils.core.errors import ConfigError, CorruptShardError
from trainer_utils.core.settings import NumberRule
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions
from trainer_utils.order.batch_layout import BatchLayout
from trainer_utils.order.epoch_order import BlockShuffle, FileOrder, GlobalShuffle, Order, Positions
from trainer_utils.order.mixing import (
    MixPart,
    Mixture,
    Shares,
    Stage,
    WeightSchedule,
    make_schedule,
    part_seed,
)
from trainer_utils.order.order_options import OrderOptions
from trainer_utils.order.resume_token import (
    InputsState,
    InputState,
    MixState,
    check_mixture,
    check_token,
    read_token,
)

_BLOCK_BYTES = 256 << 20  # shuffled together by `shuffle=True`: 2,500 photos of 100 KB
_RECORD_BYTES = 40  # memory overhead of each record


class InputOrder:
    """The order of an input, for all of its workers.

    Args:
        ranges: the ranges of files that hold the records to read.
        options: the settings of the order; an `InputOptions` works too.
        num_workers: the number of input pipelines. Each gets an equal share.
        num_replicas: the replicas of all workers together, a multiple of `num_workers`. None: one
            per worker.
        mean_record_bytes: the mean size of a serialized record. It determines how many records
            `shuffle=True` shuffles together.
        digest: a digest of the dataset and the slices read.
        parts: with weights, the datasets whose records `ranges` lists one after the other.
        inputs: the raw inputs that the records come from, if they are known; its digest has no
            settings of the order.
        find_changed: returns the raw inputs that changed after a time in nanoseconds.

    Attributes:
        layout: the layout of an epoch's batches.
        steps_per_epoch: steps in an epoch; without a batch size, the examples of each worker.
        digest: a digest of the dataset, its slices and the settings that shape batches.
        start: the position at which the input begins.

    Raises:
        ConfigError: the plan is impossible, for example if workers cannot share a batch equally,
            or `state` is not a token that this input can resume from.
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
        parts: Sequence[MixPart] = (),
        inputs: InputsState | None = None,
        find_changed: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        workers = NumberRule(1)("num_workers", num_workers)
        replicas = NumberRule(1)("num_replicas", workers if num_replicas is None else num_replicas)
        self.ranges = [part for part in ranges if part.take]
        self.options = options
        self._num_records = num_records = sum(part.take for part in ranges)
        self._mean_record_bytes = mean_record_bytes
        self._files = RecordPositions(self.ranges)
        self.digest = self._token_digest = order_digest(digest, options)
        self._inputs: InputsState | None = None
        self._find_changed = find_changed
        self._parts: Mapping[str, MixPart] = {}
        self._stages: Sequence[Stage] = []
        self._removed_parts: Mapping[str, tuple[int, str]] = {}
        schedule = None if options.weights is None else WeightSchedule.of(options.weights)
        if schedule is not None:
            self._parts, num_records = make_schedule(schedule, parts)
        self.layout = _layout_of(num_records, options, workers, replicas)
        self.steps_per_epoch = self.layout.steps * options.echoing
        if inputs is not None and options.weights is None:
            self._inputs = dataclasses.replace(inputs, digest=self._inputs_digest(inputs))
        _check_pairs(options, self.layout)
        if schedule is not None and self.steps_per_epoch:
            self._stages = self._make_stages(schedule)
            # Leave out parts and weights: a mixture may change them later.
            self._token_digest = order_digest("", options, with_weights=False)
        self.start = self._start()

    def _inputs_digest(self, inputs: InputsState) -> str:
        """Return a digest of the inputs, of the order of records and of the order of the input."""
        known = inputs.digest
        if self.options.shuffle is True:  # blocks follow from sizes, which a conversion may change
            block_steps = -(-self.block_records() // self.layout.batch_size)
            known = f"{known} in {max(1, self.layout.full_steps // block_steps)} blocks"
        return order_digest(known, self.options)

    def positions(self, epoch: int, step: int, worker: int = 0) -> Positions:
        """Return the records of a worker's rows of a batch.

        Rows of weight 0, which `remainder="pad"` appends, are not listed. Without a batch size a
        step is one example.

        Returns:
            `(rows,) int64`: indices into the records of `ranges`, counted from 0.

        Raises:
            ConfigError: the step, counted from 0 within its epoch, or the worker is out of range.
        """
        layout = self.layout
        if not 0 <= worker < layout.num_workers:
            raise ConfigError.of("worker", worker, allowed=f"one of {layout.num_workers}, from 0")
        if epoch < 0 or not 0 <= step < self.steps_per_epoch:
            rule = f"one of {self.steps_per_epoch} of an epoch, from 0, in epoch 0 or later"
            raise ConfigError.of("step", (epoch, step), allowed=rule)
        return self._batch(epoch, step, *layout.rows(worker, step=step // self.options.echoing))

    def records(self, *, epoch: int, step: int, worker: int) -> list[RecordName]:
        """Return the records of a worker's rows of a batch, as file names and record numbers."""
        return self._files.locate(self.positions(epoch, step, worker))

    def replica_of(self, worker: int, *, row: int, rows: int) -> int:
        """Return the index of the replica, among all workers' replicas, that gets a row."""
        each = self.layout.replicas_per_worker
        if self.options.keeps_rows:
            return worker * each + row // self.layout.rows_per_replica
        return worker * each + ((row + 1) * each - 1) // rows

    def steps_of(self, records: Collection[RecordName], steps: range) -> Iterator[int]:
        """Yield the steps, counted over all epochs, where any worker reads one of `records`.

        This computes every batch of `steps`: 0.1 ms each, or 0.3 ms with a global shuffle.
        """
        wanted = {position for record in records for position in self._files.positions_of(record)}
        for step in steps if wanted and self.steps_per_epoch else ():
            epoch, within = divmod(step, self.steps_per_epoch)
            size = self.layout.size(within // self.options.echoing)
            if not wanted.isdisjoint(self._batch(epoch, within, 0, size).tolist()):
                yield step

    def next_of(self, record: RecordName, is_good: Callable[[RecordName], bool]) -> RecordName:
        """Return `record` if it is good, else its substitute: the next good one of the list."""
        if is_good(record):
            return record
        total = self._num_records
        position = self._files.positions_of(record)[0]
        for ahead in range(1, total):
            (candidate,) = self._files.locate(np.array([(position + ahead) % total]))
            if is_good(candidate):
                return candidate
        raise CorruptShardError("records: expected at least one that can be read, got none")

    def state(self, step: int) -> InputState:
        """Return the token to resume from after `step` steps, counted over all epochs."""
        step, each = NumberRule(0)("step", step), self.steps_per_epoch
        epoch, within = divmod(step, each) if each else (0, 0)
        return InputState(
            epoch=epoch,
            step=within,
            batch_size=self.layout.batch_size,
            seed=self.options.seed,
            digest=self._token_digest,
            mix=self._mix_until(epoch, within) if self._stages else None,
            inputs=self._inputs,
            where=self.options.where,
        )

    def _mix_until(self, epoch: int, step: int) -> MixState:
        """Return the history of a mixture before a step: its stages and the parts read so far."""
        row = self._row(epoch, step)
        stages = [(first, shares) for first, shares in self._stages if first < row]
        read = {name for _, shares in stages for name in shares}
        parts = dict(self._removed_parts)
        for name, part in self._parts.items():
            parts[name] = part.records, part.digest
            while part.after is not None:  # include the older versions of this part
                name, part = part.after
                parts[name] = part.records, part.digest
        parts = {name: part for name, part in parts.items() if name in read}
        return MixState(
            records=self.layout.num_records, steps=self.steps_per_epoch, stages=stages, parts=parts
        )

    def _row(self, epoch: int, step: int) -> int:
        """Return the number of rows before a step, over all epochs."""
        begin = self.layout.begin(step // self.options.echoing)
        return epoch * self.layout.num_records + begin

    def _make_stages(self, schedule: WeightSchedule) -> Sequence[Stage]:
        """Return the stages by rows of the run, merging neighbours with the same shares."""
        stages: dict[int, Shares] = {}
        for step, shares in schedule.shares:
            if not stages or [*stages.values()][-1] != shares:
                stages[self._row(*divmod(step, self.steps_per_epoch))] = shares
        if len(stages) > 1 and not self.options.reshuffle_each_iteration:
            rule = "True with weights that change in the run"
            raise ConfigError.of("reshuffle_each_iteration", False, allowed=rule)
        return [*stages.items()]

    def _start(self) -> InputState:
        """Return the starting position; raise if a token has another dataset, seed or order."""
        state = self.options.state
        token = None if isinstance(state, int) else read_token(state)
        if token is None:
            return self.state(state or 0)
        check_token(
            token,
            self.state(0),
            self.options,
            steps_per_epoch=self.steps_per_epoch,
            find_changed=self._find_changed,
        )
        if self._stages:
            history = check_mixture(token.mix, self._mix_until(token.epoch, token.step))
            parts = history.parts.items()
            self._removed_parts = {name: part for name, part in parts if name not in self._parts}
        return self.state(token.epoch * self.steps_per_epoch + token.step)

    def _batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        epoch = epoch if self.options.reshuffle_each_iteration else 0
        return self._order.batch(epoch, step // self.options.echoing, first, stop)

    @functools.cached_property
    def _order(self) -> Order | Mixture:
        if self._stages:
            return Mixture(self.layout, self._stages, self._parts, self._order_of_part)
        return self._order_of(self.layout, self.options.seed, self._mean_record_bytes)

    def _order_of_part(self, name: str, part: MixPart, records: int) -> Order:
        size = self._mean_record_bytes if part.record_bytes is None else part.record_bytes
        layout = BatchLayout(num_records=records, batch_size=1)
        return self._order_of(layout, part_seed(self.options.seed, name), size)

    def _order_of(self, layout: BatchLayout, seed: int, record_bytes: float | None) -> Order:
        if self.options.shuffle == "global":
            return GlobalShuffle(layout, seed=seed)
        if not self.options.shuffle:
            return FileOrder(layout)
        return BlockShuffle(layout, seed=seed, block_records=self.block_records(record_bytes))

    def block_records(self, record_bytes: float | None = None) -> int:
        """Return the minimum number of records of `record_bytes` that are shuffled together."""
        shuffle = self.options.shuffle
        if shuffle == "global":
            return self.layout.num_records
        if shuffle is not True:
            return int(shuffle)
        size = self._mean_record_bytes if record_bytes is None else record_bytes
        if size is None:
            rule = f"the bytes of a record, of which shuffle=True shuffles {_BLOCK_BYTES} together"
            raise ConfigError.of("mean_record_bytes", None, allowed=rule)
        return max(1, int(_BLOCK_BYTES / (size + _RECORD_BYTES)))


def _check_pairs(options: OrderOptions, layout: BatchLayout) -> None:
    """Raise if a pair of rows would be split between replicas, or if no full batch exists."""
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
    num_records: int, options: OrderOptions, num_workers: int, num_replicas: int
) -> BatchLayout:
    """Return the layout of an epoch. Single examples are batches of one row per worker."""
    size, remainder = options.batch_size, options.remainder
    if size is None:
        size, num_replicas, remainder = num_workers, num_workers, "drop"
    elif num_replicas < num_workers:  # the context does not know them: a whole batch per worker
        size, num_replicas = size // num_replicas * num_workers, num_workers
    if options.batch_size and remainder == "drop" and 0 < num_records < size:
        rule = f"at most the {num_records} records that there are, since remainder='drop' would "
        raise ConfigError.of("batch_size", size, allowed=f"{rule}leave out all of them")
    return BatchLayout(
        num_records=num_records,
        batch_size=size,
        num_workers=num_workers,
        num_replicas=num_replicas,
        remainder=remainder,
    )


def order_digest(digest: str, options: OrderOptions, *, with_weights: bool = True) -> str:
    """Return a digest of the dataset's digest and the settings that shape batches.

    It is SHA-256, cut to 32 hex digits.
    """
    weights: Any = options.weights
    if weights is not None:
        weights = dataclasses.asdict(WeightSchedule.of(weights)) if with_weights else "mixed"
    shuffle = options.shuffle if isinstance(options.shuffle, (bool, str)) else int(options.shuffle)
    # Single examples drop records that fill no step; the order without shuffle continues with them.
    is_dropping = options.batch_size is None and not shuffle
    remainder = "drop" if is_dropping else options.remainder
    settings: list[Any] = [digest, shuffle, remainder, weights, options.echoing]
    if not options.reshuffle_each_iteration:
        settings.append("same each epoch")
    if options.pack is not None:
        settings.append(dataclasses.asdict(options.pack))
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]
