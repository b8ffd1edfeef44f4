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

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset import FileRange
from trainer_utils.layout import Layout
from trainer_utils.machine import usable_cores
from trainer_utils.ranges import cut
from trainer_utils.records import PieceTable, ReadPiece, piece_table, stream

__all__ = ["permuted", "rebatched", "windowed"]

_FIRST_RECORDS = 2048  # in the first window; each next one holds twice as many, up to the limit
_WINDOWS_AT_ONCE = 3  # the one in use, and the next one before and after it is permuted
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
    table = piece_table([part for group in parts for part in group])
    splits = tf.constant(np.cumsum([0, *map(len, parts)]), tf.int64)
    takes = tf.constant(layout.lane_takes(worker), tf.int64)
    rows = layout.rows_per_worker
    block = rows // len(lanes)
    steps = max(window_records // _WINDOWS_AT_ONCE // layout.batch_size, 1)
    window_steps = _window_steps(layout, most=steps, first=-(-_FIRST_RECORDS // layout.batch_size))
    sizes = tf.constant(window_steps, tf.int64)
    starts = tf.constant(np.cumsum(window_steps) - window_steps, tf.int64)

    def lane_vectors(index: tf.Tensor, epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        lane_seed = _seed(seed, epoch, index + lanes.start)
        pieces = _reordered(table, tf.range(splits[index], splits[index + 1]), lane_seed)
        return stream(pieces, step * block, takes[index], read).rebatch(block)

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        number = tf.searchsorted(starts, step[tf.newaxis], side="right", out_type=tf.int64)[0] - 1
        start = starts[number]
        vectors = tf.data.Dataset.range(len(lanes)).interleave(
            lambda index: lane_vectors(index, epoch, start),
            cycle_length=len(lanes),
            block_length=1,
            num_parallel_calls=min(len(lanes), usable_cores()),
            deterministic=True,
        )
        windows = rebatched(vectors, sizes[number:] * rows)
        numbers = tf.data.Dataset.range(number, _MOST)
        seeds = _seed(seed, epoch, tf.range(lanes.start, lanes.stop, dtype=tf.int64))

        def permute(records: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
            return _permuted_in_lanes(records, seeds, window, block)

        mixed = tf.data.Dataset.zip((windows, numbers)).map(permute).prefetch(1)
        return mixed.rebatch(rows).skip(step - start)

    return order


def rebatched(vectors: tf.data.Dataset, sizes: tf.Tensor) -> tf.data.Dataset:
    """Vectors of strings cut to the sizes, over and over; the public `rebatch` knows one size."""
    variant = tf.raw_ops.RebatchDatasetV2(
        input_dataset=tf.data.experimental.to_variant(vectors),
        batch_sizes=sizes,
        drop_remainder=False,
        output_types=[tf.string],
        output_shapes=[tf.TensorShape([None])],
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([None], tf.string))


def permuted(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A permutation of a vector: the ranks of random keys."""
    _, order = tf.math.top_k(_random(seed, tf.size(values)), tf.size(values))
    return tf.gather(values, order)


def _permuted_in_lanes(
    records: tf.Tensor, seeds: tf.Tensor, window: tf.Tensor, block: int
) -> tf.Tensor:
    """A window's records in another order, each lane's in steps of that lane.

    The place in a batch then tells nothing of the place in the files: rows of a batch are permuted
    too. What comes after the last full step is permuted as a whole.
    """
    num_lanes = tf.size(seeds)
    rows = num_lanes * block
    each = tf.size(records) // rows * block
    body, tail = records[: each * num_lanes], records[each * num_lanes :]
    numbers = tf.reshape(tf.range(each * num_lanes), [-1, num_lanes, block])
    by_lane = tf.transpose(numbers, [1, 0, 2])
    _, order = tf.math.top_k(_random(seeds[:, tf.newaxis] + window * _WINDOW_STRIDE, each), each)
    places = tf.gather(tf.reshape(by_lane, [num_lanes, -1]), order, batch_dims=1)
    by_step = tf.transpose(tf.reshape(places, [num_lanes, -1, block]), [1, 0, 2])
    of_batch = permuted(tf.range(rows), seeds[0] - 1)
    by_batch = tf.gather(tf.reshape(by_step, [-1, rows]), of_batch, axis=1)
    mixed = tf.gather(body, tf.reshape(by_batch, [-1]))
    return tf.concat([mixed, permuted(tail, seeds[0] - 2)], 0)


def _seed(seed: int, epoch: tf.Tensor, lane: tf.Tensor) -> tf.Tensor:
    """One number for each seed, epoch and lane; odd constants spread them apart."""
    spread = seed * 0x9E3779B97F4A7C15 % (1 << 63)
    return spread + epoch * 0x2545F4914F6CDD1D + lane * 0x5851F42D4C957F2D


def _random(seed: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """`(…, count) int64` for seeds of shape `(…, 1)` or `()`.

    Source: splitmix64 (Steele, Lea and Flood, 2014). TensorFlow's own stateless generators take
    one seed at a time, and ten operations each.
    """
    numbers = tf.range(tf.cast(count, tf.int64)) * -0x61C8864680B583EB  # 2**64 / golden ratio
    value = tf.bitcast(seed + numbers, tf.uint64)
    shifted = tf.bitwise.right_shift
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = tf.bitwise.bitwise_xor(value, shifted(value, tf.constant(shift, tf.uint64)))
        value *= tf.constant(factor, tf.uint64)
    value = tf.bitwise.bitwise_xor(value, shifted(value, tf.constant(31, tf.uint64)))
    return tf.bitcast(value, tf.int64)


def _reordered(table: PieceTable, rows: tf.Tensor, seed: tf.Tensor) -> PieceTable:
    """A lane's pieces in a random order, the first from somewhere in it on; its head comes last."""
    rows = permuted(rows, seed)
    pieces = {name: tf.gather(column, rows) for name, column in table.items()}
    head, rest = ({name: c[s] for name, c in pieces.items()} for s in (slice(1), slice(1, None)))
    most = tf.maximum(head["take"], 1)  # of one piece, or of none
    begin = tf.bitwise.bitwise_and(_random(seed - 1, tf.size(most)), _MOST) % most
    late = {**head, "skip": head["skip"] + begin, "take": head["take"] - begin}
    early = {**head, "take": begin, "to_end": tf.zeros_like(head["to_end"])}
    return {name: tf.concat([late[name], rest[name], early[name]], 0) for name in pieces}


def _window_steps(layout: Layout, *, most: int, first: int) -> npt.NDArray[np.int64]:
    """Steps of each window of an epoch: the first ones double up to `most`."""
    sizes = [min(first, most)]
    while sizes[-1] < most and sum(sizes) < layout.steps:
        sizes.append(min(2 * sizes[-1], most))
    sizes += [sizes[-1]] * (max(layout.steps - sum(sizes), 0) // sizes[-1] + 1)
    return np.array(sizes, np.int64)
