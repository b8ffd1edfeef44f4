"""`InputOrder`: which record comes at which step on which worker.

    order = InputOrder(ranges, OrderOptions(batch_size=64, shuffle="global"), num_workers=4)
    order.records(epoch=2, step=100, worker=3)      # [RecordName(path='…', number=17), …]

`input_fn` reads by the same object: what is said here without TensorFlow is what a trainer gets.
"""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import FileRange, RecordName, RecordPositions
from trainer_utils.order.global_shuffle import GlobalShuffle
from trainer_utils.order.layout import EQUAL, BatchLayout
from trainer_utils.order.options import OrderOptions
from trainer_utils.order.sequential import Sequential
from trainer_utils.order.state import InputState, check_state, first_state, state_at
from trainer_utils.order.state import steps_per_epoch as steps_of
from trainer_utils.order.strategy import ShuffleStrategy
from trainer_utils.order.windowed import Windowed

__all__ = ["SINGLES_AT_ONCE", "InputOrder"]

SINGLES_AT_ONCE = 64  # single examples are read so many at a time, which is three times as fast
_STRING_BYTES = 40  # of a tensor's, beside its text: the object, and what malloc adds


class InputOrder:
    """The order of an input, for all of its workers.

    Args:
        ranges: the parts of files that hold an epoch's records; of several datasets with weights
            those of `mixed_ranges`.
        options: of the order; `InputOptions` are such options too.
        num_workers: input pipelines, each of which gets an equal share.
        num_replicas: of all workers together, a multiple of the workers. None: one each.
        mean_record_bytes: of a serialized record, which with `shuffle=True` says how many of them
            `shuffle_bytes` hold.
        digest: of the dataset and of the slices that are read, which tokens hold.
        earlier_digests: that it had before records were taken out of it in place, with its uri.

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
        earlier_digests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.ranges = [part for part in ranges if part.take]
        self.options = options
        self.layout = _layout_of(
            sum(part.take for part in ranges),
            options,
            num_workers=num_workers,
            num_replicas=num_workers if num_replicas is None else num_replicas,
        )
        _check_pairs(options, self.layout)
        self.start = first_state(options, self.layout, digest, earlier_digests)
        """Where the input begins."""
        self._mean_record_bytes = mean_record_bytes
        self._digest = digest
        self._strategies = functools.cache(self._strategy)

    @functools.cached_property
    def paths(self) -> list[str]:
        """Of the files that an epoch reads, each once, in the order of the first parts of them."""
        return list(dict.fromkeys(part.path for part in self.ranges))

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch; without a batch size, examples of each worker."""
        return steps_of(self.options, self.layout)

    @property
    def batches_per_read(self) -> int:
        """Steps that one reading of records makes; without a batch size, examples."""
        return self.options.echoing * (1 if self.options.batch_size else SINGLES_AT_ONCE)

    @property
    def window_records(self) -> int:
        """How many records are held to be shuffled, by all workers together.

        Raises:
            ConfigError: it follows from the size of a record, which was not said.
        """
        shuffle = self.options.shuffle
        if isinstance(shuffle, int) and not isinstance(shuffle, bool):
            return shuffle
        if self._mean_record_bytes is None:
            raise ConfigError(
                "mean_record_bytes: expected the bytes of a record, of which shuffle=True holds "
                f"{self.options.shuffle_bytes} bytes, got None. Or set shuffle to a number.",
                setting="mean_record_bytes",
            )
        return max(1, int(self.options.shuffle_bytes / (self._mean_record_bytes + _STRING_BYTES)))

    def strategy(self, worker: int) -> ShuffleStrategy:
        """The order of one worker."""
        if not 0 <= worker < self.layout.num_workers:
            raise ConfigError.of(
                "worker", worker, allowed=f"one of {self.layout.num_workers}, from 0"
            )
        return self._strategies(worker)

    def state(self, step: int) -> InputState:
        """The token to go on from after so many steps of all epochs."""
        return state_at(step, self.options, self.layout, self._digest)

    def records(self, *, epoch: int, step: int, worker: int) -> list[RecordName]:
        """The records of a worker's part of a batch.

        Args:
            epoch: counted from 0.
            step: in that epoch, counted from 0; without a batch size, an example.
            worker: which input pipeline.

        Returns:
            One for each row, in order; replicas have equal parts of them, one after the other.
            With `remainder="pad"` the rows of weight 0 after them are not listed.

        Raises:
            ConfigError: there is no such step or worker.
        """
        strategy = self.strategy(worker)
        if epoch < 0 or not 0 <= step < self.steps_per_epoch:
            raise ConfigError(
                f"step: expected one of {self.steps_per_epoch} of an epoch, from 0, got {step!r} "
                f"of epoch {epoch!r}",
                setting="step",
                value=step,
            )
        positions = strategy.positions(epoch, step // self.batches_per_read)
        if self.options.batch_size is None:
            index = step % self.batches_per_read // self.options.echoing
            positions = positions[index : index + 1]
        return self._files.locate(positions)

    def steps(self, *, epoch: int, record: RecordName) -> list[int]:
        """The steps of an epoch that a record comes at, on whichever worker: those of `records`.

        Args:
            epoch: counted from 0.
            record: the path of its file, and its number there.

        Returns:
            In rising order; none where the epoch leaves it out, several where it comes more than
            once.
        """
        strategy = self.strategy(0)
        found: list[int] = []
        for position in self._files.positions_of(record) if self.steps_per_epoch else ():
            step = strategy.step_of(epoch, position)
            if step is not None:
                first = step * self.batches_per_read + self._place_in_read(epoch, step, position)
                found.extend(range(first, first + self.options.echoing))
        return sorted(set(found))

    def _place_in_read(self, epoch: int, step: int, position: int) -> int:
        """Of single examples, many of which are read in one step: the step of one among them."""
        if self.options.batch_size is not None:
            return 0
        for worker in range(self.layout.num_workers):
            rows = self.strategy(worker).positions(epoch, step).tolist()
            if position in rows:
                return int(rows.index(position)) * self.options.echoing
        raise AssertionError(f"position {position}: not in step {step}")

    @functools.cached_property
    def _files(self) -> RecordPositions:
        return RecordPositions(self.ranges)

    def _strategy(self, worker: int) -> ShuffleStrategy:
        options, layout = self.options, self.layout
        if options.shuffle == "global":
            return GlobalShuffle(self.ranges, layout=layout, worker=worker, seed=options.seed)
        if options.shuffle:
            return Windowed(
                self.ranges,
                layout=layout,
                worker=worker,
                window_records=self.window_records,
                seed=options.seed,
                keeps_pairs=options.keeps_pairs,
            )
        # What `drop_remainder` leaves out is always the same.
        rotates = options.remainder == "drop"
        return Sequential(self.ranges, layout=layout, worker=worker, rotates=rotates)


def _check_pairs(options: OrderOptions, layout: BatchLayout) -> None:
    """That no pair of rows is parted, and that there is a batch of pairs."""
    if not options.keeps_pairs:
        return
    rows = layout.rows_per_replica
    if rows % 2:
        raise ConfigError(
            "batch_size: expected an even number of rows for each replica, since augment mixes "
            f"pairs of rows, got {layout.batch_size}, {rows} for each of {layout.num_replicas}",
            setting="batch_size",
            value=layout.batch_size,
        )
    if layout.num_records and not layout.full_steps:
        raise ConfigError(
            f"batch_size: expected at most the {layout.num_records} records that there are, since "
            f"augment mixes full batches only, got {layout.batch_size}",
            setting="batch_size",
            value=layout.batch_size,
        )


def _layout_of(
    num_records: int, options: OrderOptions, *, num_workers: int, num_replicas: int
) -> BatchLayout:
    """The layout of an epoch under these options; in the lanes of the token, where there is one."""
    if options.batch_size is None:
        size = num_workers * SINGLES_AT_ONCE
        return BatchLayout(
            num_records=num_records, batch_size=size, num_workers=num_workers, remainder=EQUAL
        )
    size = options.batch_size
    if num_replicas < num_workers:  # a context that does not know its replicas: a whole batch each
        size, num_replicas = size // num_replicas * num_workers, num_workers
    remainder = options.remainder
    if options.drop_remainder:
        remainder = "drop"
        num_records = num_records if num_records >= size else 0
    token = check_state(options)
    return BatchLayout(
        num_records=num_records,
        batch_size=size,
        num_workers=num_workers,
        num_replicas=num_replicas,
        remainder=remainder,
        num_lanes=token.num_lanes if token and size % token.num_lanes == 0 else 0,
    )
