"""The windowed shuffle: records in another order each epoch, within a bound of memory.

order = windowed(ranges, layout=layout, worker=0, window_records=2560, seed=0, read=reader(1e5))
vectors = order(epoch, step)     # `(rows of a worker,) string` each

Every lane of the layout (see `trainer_utils.layout`) is read on its own: the parts of files in an
order of the epoch's own, beginning somewhere within the first. So many steps of all lanes make a
window, in which the records of each lane are permuted. Everything is a function of seed, epoch,
lane and window, so that any step of any epoch can be gone to without what comes before. The first
windows are small, so that the first batch comes soon, and each is read while the one before it is
being used.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataflow import flat_mapped, interleaved, mapped, owned, rebatched
from trainer_utils.dataset import FileRange
from trainer_utils.layout import Layout
from trainer_utils.machine import usable_cores
from trainer_utils.pieces import planned
from trainer_utils.ranges import cut
from trainer_utils.records import ReadPiece

__all__ = ["permuted", "windowed"]

# The first window is a part of the limit within these bounds; each next one is twice as large.
_FIRST_SHARE = 1 / 64
_FIRST_RECORDS = (64, 2048)
_WINDOWS_AT_ONCE = 3  # the one in use, the next one, and the one that is being read
_MOST = np.iinfo(np.int64).max
_WINDOW_STRIDE = 0x369DEA0F31A53F85


def windowed(
    ranges: Sequence[FileRange],
    *,
    layout: Layout,
    worker: int,
    window_records: int,
    seed: int,
    read: ReadPiece,
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """A worker's records, shuffled.

    Args:
        ranges: of all workers.
        layout: of an epoch.
        worker: which one this is.
        window_records: how many to hold at a time, by all workers together, so that the order is
            the same for any number of them.
        seed: of all orders.
        read: how a piece is read.

    Returns:
        A function of the epoch and of the first step in it, to vectors of serialized records: a
        worker's share of each batch, equally many of each lane.
    """
    lanes = layout.lanes_of(worker)
    parts = [cut(ranges, *layout.lane_bounds(lane)) for lane in lanes]
    takes = layout.lane_takes(worker)
    rows = layout.rows_per_worker
    block = rows // len(lanes)
    steps = max(window_records // _WINDOWS_AT_ONCE // layout.batch_size, 1)
    first = -(-int(np.clip(window_records * _FIRST_SHARE, *_FIRST_RECORDS)) // layout.batch_size)
    window_steps = _window_steps(layout, most=steps, first=first)
    starts = np.cumsum(window_steps) - window_steps

    def plan(epoch: int, step: int) -> tuple[list[FileRange], list[int]]:
        """Lane after lane, from the window on that the step is in."""
        number = int(np.searchsorted(starts, step, side="right")) - 1
        first = int(starts[number]) * block
        wanted = [
            cut(_reordered(own, _seed(seed, epoch, lane)), first, take)
            for own, lane, take in zip(parts, lanes, takes, strict=True)
        ]
        counts = list(map(len, wanted))
        begins = list(itertools.accumulate(counts, initial=0))[:-1]
        sizes = (window_steps[number:] * rows).tolist()
        facts = [number, step - int(starts[number]), *begins, *counts, *sizes]
        return list(itertools.chain.from_iterable(wanted)), facts

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        pieces, numbers = planned(plan, epoch, step)
        cuts = [1, 1, len(lanes), len(lanes), -1]
        number, passed, begins, counts, sizes = tf.split(numbers, cuts)

        def lane_vectors(begin: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
            own = tf.data.Dataset.from_tensor_slices(pieces).skip(begin).take(count)
            return owned(rebatched(flat_mapped(own, read), block))

        def permute(records: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
            count = tf.size(records, tf.int64)
            mixed = tf.numpy_function(places, [epoch, window, count], tf.int64)
            begins = tf.data.Dataset.range(0, count, rows)  # no second copy of the whole window
            return mapped(begins, lambda begin: tf.gather(records, mixed[begin : begin + rows]))

        vectors = interleaved(
            tf.data.Dataset.from_tensor_slices((begins, counts)),
            lane_vectors,
            cycle=len(lanes),
            parallel=usable_cores(),
        )
        windows = rebatched(vectors, sizes).prefetch(1)
        counted = tf.data.Dataset.zip((windows, tf.data.Dataset.range(number[0], _MOST)))
        return flat_mapped(counted, permute).skip(passed[0])

    def places(epoch: Any, window: Any, size: Any) -> npt.NDArray[np.int64]:
        seeds = [_seed(seed, int(epoch), lane) for lane in lanes]
        return _places_in_window(int(size), seeds, int(window), block)

    return order


def permuted(count: int, seed: int) -> npt.NDArray[np.int64]:
    """A permutation of so many numbers."""
    return np.argsort(_random(seed, count), kind="stable")


def _places_in_window(
    size: int, seeds: Sequence[int], window: int, block: int
) -> npt.NDArray[np.int64]:
    """Where each record of a permuted window is from, each lane's within that lane.

    The place in a batch then tells nothing of the place in the files: rows of a batch are permuted
    too. What comes after the last full step is permuted as a whole.

    Args:
        size: records of the window, `block` of each lane in turn.
        seeds: of the lanes.
        window: its number.
        block: a lane's rows of a batch.
    """
    rows = len(seeds) * block
    full = size // rows * rows
    by_lane = np.arange(full).reshape(-1, len(seeds), block).transpose(1, 0, 2)
    by_lane = by_lane.reshape(len(seeds), -1)
    mixed = [
        own[permuted(len(own), seed + window * _WINDOW_STRIDE)]
        for own, seed in zip(by_lane, seeds, strict=True)
    ]
    by_step = np.stack(mixed).reshape(len(seeds), -1, block).transpose(1, 0, 2).reshape(-1, rows)
    of_batch = permuted(rows, seeds[0] - 1)
    tail = full + permuted(size - full, seeds[0] - 2)
    return np.concatenate([by_step[:, of_batch].reshape(-1), tail])


def _seed(seed: int, epoch: int, lane: int) -> int:
    """One number for each seed, epoch and lane; odd constants spread them apart."""
    return seed * 0x9E3779B97F4A7C15 + epoch * 0x2545F4914F6CDD1D + lane * 0x5851F42D4C957F2D


def _random(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random numbers, all different.

    Source: splitmix64 (Steele, Lea and Flood, 2014), which needs no state.
    """
    start = np.array(seed % (1 << 64), np.uint64)
    value = start + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value ^= value >> np.uint64(shift)
        value *= np.uint64(factor)
    value ^= value >> np.uint64(31)
    return value


def _reordered(ranges: Sequence[FileRange], seed: int) -> list[FileRange]:
    """A lane's parts in a random order, the first from somewhere in it on; its head comes last."""
    parts = [ranges[index] for index in permuted(len(ranges), seed).tolist()]
    if not parts:
        return parts
    total = sum(part.take for part in parts)
    begin = int(_random(seed - 1, 1)[0]) % parts[0].take
    return [*cut(parts, begin, total), *cut(parts, 0, begin)]


def _window_steps(layout: Layout, *, most: int, first: int) -> npt.NDArray[np.int64]:
    """Steps of each window of an epoch: the first ones double up to `most`."""
    sizes = [min(first, most)]
    while sizes[-1] < most and sum(sizes) < layout.steps:
        sizes.append(min(2 * sizes[-1], most))
    sizes += [sizes[-1]] * (max(layout.steps - sum(sizes), 0) // sizes[-1] + 1)
    return np.array(sizes, np.int64)
