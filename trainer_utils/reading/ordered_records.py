"""A worker's records of an epoch in the order of its `ShuffleStrategy`, as vectors of strings.

read_epoch = ordered_records(Remade(lambda: WorkerReading(order.strategy(worker), readers)))
vectors = read_epoch(epoch, step)     # `(rows of a worker,) string`, a batch each

What is read is planned in Python as the graph runs, since TensorFlow looks through every operation
of a graph again for each new iterator, which would take longer than to start reading.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.machine import usable_cores
from trainer_utils.order.global_shuffle import GlobalShuffle
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.sequential import Sequential, SequentialReads
from trainer_utils.order.strategy import Positions, ShuffleStrategy
from trainer_utils.order.windowed import Windowed
from trainer_utils.reading.epochs import ReadEpoch
from trainer_utils.reading.raw_ops import copy_views, flat_map, interleave, map_elements, rebatch
from trainer_utils.reading.readers import Readers, WorkerReading, piece_reader
from trainer_utils.reading.records import PIECE_COLUMNS, Piece, columns_of, read_pieces
from trainer_utils.reading.remade import Remade

__all__ = ["ordered_records", "rebatch_to_shares"]


Strategy = TypeVar("Strategy", bound=ShuffleStrategy)


def ordered_records(reading: Remade[WorkerReading]) -> ReadEpoch:
    """How the records of a strategy are read: a worker's rows of each batch.

    Of single examples, all that are left, in vectors of any length.
    """
    strategy = reading.get().strategy
    kinds = (_SequentialReading, _WindowedReading, _GlobalReading)
    (kind,) = (kind for kind in kinds if isinstance(strategy, kind.strategy))
    return cast(ReadEpoch, kind(reading))


class _OrderedReading(Generic[Strategy]):
    """What TensorFlow keeps of this with its functions is `reading` alone."""

    strategy: ClassVar[type[ShuffleStrategy]]

    def __init__(self, reading: Remade[WorkerReading]) -> None:
        self._reading = reading
        self._read_piece = piece_reader(reading)

    @property
    def _strategy(self) -> Strategy:
        return cast(Strategy, self._reading.get().strategy)

    @property
    def _readers(self) -> Readers:
        return self._reading.get().readers


class _SequentialReading(_OrderedReading[Sequential]):
    """Files one after the other; of each batch the worker's rows."""

    strategy = Sequential

    def __call__(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        pieces, sizes = _planned(self._plan, epoch, step)
        batches = rebatch(read_pieces(pieces, self._read_piece), sizes)
        if self._strategy.layout.num_workers > 1 and not self._strategy.reads_own_rows:
            batches = map_elements(batches, self._own_rows)
        return copy_views(batches)

    def _plan(self, epoch: int, step: int) -> SequentialReads:
        strategy, cached = self._strategy, self._readers.cached
        reads = strategy.reads(epoch, step)
        if cached is not None:
            later = strategy.reads
            cached.expect(epoch, [reads.ranges], lambda: [later(epoch + 1, 0).ranges])
        return reads

    def _own_rows(self, records: tf.Tensor) -> tf.Tensor:
        worker, workers = self._strategy.worker, self._strategy.layout.num_workers
        size = tf.size(records, tf.int64)
        return records[worker * size // workers : (worker + 1) * size // workers]


class _WindowedReading(_OrderedReading[Windowed]):
    """Windows, each of which is read while the one before it is being used."""

    strategy = Windowed

    def __call__(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        lanes = len(self._strategy.lanes)
        pieces, numbers = _planned(self._plan, epoch, step)
        first_window, steps_before, begins, counts, sizes = tf.split(
            numbers, [1, 1, lanes, lanes, -1]
        )
        records = interleave(
            tf.data.Dataset.from_tensor_slices((begins, counts)),
            lambda begin, count: self._lane(pieces, begin, count),
            cycle=lanes,
            parallel=usable_cores(),
            # A cache reads ahead by itself, and what is read here the first batch waits for.
            ahead=None if self._readers.cached is None else 1,
        )
        # The last window may have no record for this worker; its steps are taken all the same.
        nothing = tf.data.Dataset.from_tensors(tf.constant([], tf.string)).repeat()
        windows = rebatch(records, sizes).prefetch(1).concatenate(nothing)
        last_window = len(self._strategy.starts) - 1
        numbered = tf.data.Dataset.range(first_window[0], last_window)
        rows = flat_map(
            tf.data.Dataset.zip((windows, numbered)),
            lambda records, window: self._rows_of_steps(records, epoch, window),
        )
        return rows.skip(steps_before[0])

    def _plan(self, epoch: int, step: int) -> tuple[list[FileRange], Positions]:
        """The parts of all lanes; the first window, its steps before this one, and what is where.

        In the latter: each lane's first part and number of parts, then each window's records.
        """
        strategy, cached = self._strategy, self._readers.cached
        window, lanes, sizes = strategy.reads(epoch, step)
        if cached is not None:
            later = strategy.reads
            cached.expect(epoch, lanes, lambda: later(epoch + 1, 0).lanes)
        counts = [len(parts) for parts in lanes]
        begins = list(itertools.accumulate(counts, initial=0))[:-1]
        facts = [window, step - int(strategy.starts[window]), *begins, *counts]
        return list(itertools.chain.from_iterable(lanes)), np.append(facts, sizes)

    def _lane(self, pieces: Piece, begin: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        """A lane's records, so many at a time as it gives to a full batch."""
        own = tf.data.Dataset.from_tensor_slices(pieces).skip(begin).take(count)
        return copy_views(rebatch(flat_map(own, self._read_piece), self._strategy.block))

    def _rows_of_steps(
        self, records: tf.Tensor, epoch: tf.Tensor, window: tf.Tensor
    ) -> tf.data.Dataset:
        """The rows of each step of a window."""
        places = tf.numpy_function(self._places, [epoch, window], [tf.int64, tf.int64])
        rows, ends = [tf.ensure_shape(part, [None]) for part in places]
        steps = tf.data.Dataset.from_tensor_slices((tf.concat([[0], ends], 0)[:-1], ends))
        # Step by step, so that there is no second copy of the whole window.
        return map_elements(steps, lambda begin, end: tf.gather(records, rows[begin:end]))

    def _places(self, epoch: np.int64, window: np.int64) -> tuple[Positions, Positions]:
        return self._strategy.places(int(epoch), int(window))


class _GlobalReading(_OrderedReading[GlobalShuffle]):
    """Each record where it lies."""

    strategy = GlobalShuffle

    def __call__(self, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        def rows(number: tf.Tensor) -> tf.Tensor:
            records = tf.numpy_function(self._read, [epoch, number, step], tf.string)
            return tf.ensure_shape(records, [None])

        steps = tf.data.Dataset.range(step, self._strategy.layout.steps)
        return map_elements(steps, rows, parallel=usable_cores())

    def _read(self, epoch: np.int64, step: np.int64, first: np.int64) -> npt.NDArray[np.object_]:
        readers = self._readers
        if step == first:  # a shard may have been replaced since the epoch before
            readers.shards.look_again()
        names = self._strategy.records(int(epoch), int(step))
        records = np.empty(len(names), object)
        if readers.cached is not None:
            records[:] = readers.cached.read_names(names)
            return records
        for index, (path, number) in enumerate(names):
            (records[index],) = readers.shards.read(path, [number])
        return records


def _planned(
    plan: Callable[[int, int], tuple[Sequence[FileRange], Positions]],
    epoch: tf.Tensor,
    step: tf.Tensor,
) -> tuple[Piece, tf.Tensor]:
    """Calls a plan when the graph runs: the parts' columns, and the numbers, `(any,) int64`."""

    def call(epoch: np.int64, step: np.int64) -> list[npt.NDArray[np.generic]]:
        ranges, numbers = plan(int(epoch), int(step))
        return [*columns_of(ranges).values(), np.asarray(numbers, np.int64)]

    dtypes = [*PIECE_COLUMNS.values(), tf.int64]
    columns = tf.numpy_function(call, [epoch, step], dtypes)
    *columns, numbers = [tf.ensure_shape(column, [None]) for column in columns]
    return dict(zip(PIECE_COLUMNS, columns, strict=True)), numbers


def rebatch_to_shares(
    vectors: tf.data.Dataset,
    *,
    layout: BatchLayout,
    padded: int,
    is_static: bool,
    filler: Callable[[], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Cuts each batch's rows into one element for each replica of the worker.

    Args:
        vectors: `(any,) string` each, a worker's rows of each batch.
        layout: of an epoch.
        padded: rows of weight 0 that are added to the last batch.
        is_static: whether all elements have the same, static, number of rows.
        filler: makes a dataset of one record, for rows of weight 0. None: there are no such rows,
            nor a mask.

    Returns:
        `(rows,) string` each; with `filler` beside `(rows,) float32`, 0 in rows to leave out.
    """
    if filler is not None:
        masked = map_elements(vectors, lambda records: (records, tf.ones(tf.shape(records))))
        if padded:
            rows = map_elements(filler(), lambda record: tf.repeat(record, padded))
            masked = masked.concatenate(map_elements(rows, lambda r: (r, tf.zeros(tf.shape(r)))))
        return rebatch(masked, layout.rows_per_replica, drop_remainder=True)
    if is_static:
        return rebatch(vectors, layout.rows_per_replica, drop_remainder=True)
    replicas = layout.replicas_per_worker
    if replicas == 1:
        return vectors

    def shares(records: tf.Tensor) -> tf.data.Dataset:
        size = tf.size(records, tf.int64)
        numbers = tf.data.Dataset.range(replicas)
        return map_elements(
            numbers, lambda n: records[n * size // replicas : (n + 1) * size // replicas]
        )

    return flat_map(vectors, shares)
