"""Sequences of different length: many in one row.

    examples = input_fn(uri, batch_size=None, features=["tokens", "label"])
    pack(examples, {"tokens": 512}).batch(32)      # tokens, tokens_segment_ids, tokens_positions

It takes single examples as `input_fn` gives them with `batch_size=None`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from trainer_utils.format import ConfigError

__all__ = ["pack", "pack_rows"]

_WINDOW = 1024  # sequences that rows are filled from: what is left over is under 1% of 100 rows
_TOO_LONG = ("split", "truncate")


def pack(
    examples: tf.data.Dataset,
    lengths: Mapping[str, int] | int,
    *,
    window: int = _WINDOW,
    too_long: str = "split",
) -> tf.data.Dataset:
    """Puts several sequences one after the other into rows of a fixed length.

    Each sequence goes into the first row, of those begun in its window, that has room for it.

    Args:
        examples: single examples: dicts with sequences `(length,)` of numbers, or such a sequence.
        lengths: of the rows, by feature; other features are removed. An example goes where
            there is room for all of its features. An int where the example is a sequence.
        window: sequences that rows are filled from before the next ones are begun.
        too_long: what becomes of a sequence longer than the row: `split` into parts, each with a
            segment of its own (of one feature only), or `truncate`.

    Returns:
        Single rows: for each feature `(length,)` of it, `<feature>_segment_ids` (1, 2, … by
        sequence, 0 where nothing is) and `<feature>_positions` (0, 1, … in its sequence), both
        int32. For an int the three are called `tokens`, `segment_ids` and `positions`.

    Raises:
        ConfigError: a setting is not allowed.
    """
    named = {"": lengths} if isinstance(lengths, int) else dict(lengths)
    if not named or not all(map(_is_count, named.values())):
        raise ConfigError.of("lengths", lengths, allowed="lengths of at least 1")
    if not _is_count(window):
        raise ConfigError.of("window", window, allowed="a number of sequences")
    if too_long not in _TOO_LONG or (too_long == "split" and len(named) > 1):
        rule = "truncate" if len(named) > 1 else f"one of {', '.join(_TOO_LONG)}"
        raise ConfigError.of("too_long", too_long, allowed=f"{rule} for {len(named)} features")
    for name in named:
        _feature(examples.element_spec, name or None)  # refused here, where the caller is

    def sequences(*example: Any) -> dict[str, tf.Tensor]:
        parts = {name: _feature(example[0], name or None) for name in named}
        return {name: tf.ensure_shape(part, [None]) for name, part in parts.items()}

    def rows(batch: dict[str, tf.RaggedTensor]) -> tf.data.Dataset:
        if too_long == "split":
            batch = {name: _split(part, named[name]) for name, part in batch.items()}
        else:
            batch = {name: part[:, : named[name]] for name, part in batch.items()}
        return tf.data.Dataset.from_tensor_slices(pack_rows(batch, named))

    return examples.map(sequences).ragged_batch(window).flat_map(rows)


def pack_rows(
    sequences: Mapping[str, tf.RaggedTensor], lengths: Mapping[str, int]
) -> dict[str, tf.Tensor]:
    """Packs a window of examples: the work behind `pack`, for whoever has ragged batches.

    Args:
        sequences: `(examples, None)` by feature, none longer than its row.
        lengths: of the rows, by feature.

    Returns:
        `(rows, length)` tensors, called as `pack` says.
    """
    sizes = [tf.cast(sequences[name].row_lengths(), tf.int32) for name in lengths]
    placed = _first_fit(tf.stack(sizes, axis=1), tf.constant(list(lengths.values())))
    packed = {}
    for index, (name, length) in enumerate(lengths.items()):
        values, rows = sequences[name].values, sequences[name].value_rowids()
        starts = tf.cast(tf.gather(sequences[name].row_starts(), rows), tf.int32)
        position = tf.range(tf.size(values)) - starts
        column = tf.gather(placed.offsets[:, index], rows) + position
        where = tf.stack([tf.gather(placed.rows, rows), column], axis=1)
        shape = tf.stack([placed.num_rows, length])
        parts = {"": values, "segment_ids": tf.gather(placed.segments, rows), "positions": position}
        for part, value in parts.items():
            row = tf.ensure_shape(tf.scatter_nd(where, value, shape), (None, length))
            packed["_".join(filter(None, (name, part))) or "tokens"] = row
    return packed


class _Placed(NamedTuple):
    """Where sequences go, `(sequences,) int32` each: row, first column by feature, segment id."""

    rows: tf.Tensor
    offsets: tf.Tensor
    segments: tf.Tensor
    num_rows: tf.Tensor


def _first_fit(sizes: tf.Tensor, limits: tf.Tensor) -> _Placed:
    """Places `(sequences, features)` sizes in the first row where all features have room."""
    count = tf.shape(sizes)[0]

    def place(
        index: tf.Tensor, used: tf.Tensor, segments: tf.Tensor, placed: tf.TensorArray
    ) -> Any:
        size = sizes[index]
        row = tf.argmax(tf.reduce_all(used + size <= limits, axis=1), output_type=tf.int32)
        segment = segments[row] + 1
        entry = tf.concat([[row], used[row], [segment]], axis=0)
        used = tf.tensor_scatter_nd_add(used, [[row]], [size])
        is_any = tf.cast(tf.reduce_any(size > 0), tf.int32)  # what is empty takes no segment
        segments = tf.tensor_scatter_nd_add(segments, [[row]], [is_any])
        return index + 1, used, segments, placed.write(index, entry)

    entries = tf.TensorArray(tf.int32, size=count, element_shape=(2 + limits.shape[0],))
    state = (0, tf.zeros_like(sizes), tf.zeros_like(sizes[:, 0]), entries)
    _, used, _, entries = tf.while_loop(lambda index, *_: index < count, place, state)
    table = entries.stack()
    num_rows = tf.reduce_sum(tf.cast(tf.reduce_any(used > 0, axis=1), tf.int32))
    return _Placed(table[:, 0], table[:, 1:-1], table[:, -1], num_rows)


def _split(sequences: tf.RaggedTensor, length: int) -> tf.RaggedTensor:
    """Cuts each sequence into parts of at most `length`."""
    sizes = sequences.row_lengths()
    parts = -(-sizes // length)
    of_part = tf.repeat(tf.range(tf.size(sizes)), parts)  # the sequence that a part is of
    number = tf.range(tf.size(of_part)) - tf.gather(
        tf.cumsum(tf.cast(parts, tf.int32), exclusive=True), of_part
    )
    left = tf.gather(sizes, of_part) - tf.cast(number, sizes.dtype) * length
    return tf.RaggedTensor.from_row_lengths(sequences.values, tf.minimum(left, length))


def _feature(example: Any, name: str | None) -> tf.Tensor:
    if isinstance(example, tuple):
        example = example[0]
    if isinstance(example, Mapping) is (name is None):
        rule = "a feature's name for dicts" if name is None else "a tensor's example without a name"
        raise ConfigError.of("feature", name, allowed=rule)
    if name is None:
        return example
    if name not in example:
        raise ConfigError.of("feature", name, allowed=f"one of {', '.join(example)}")
    return example[name]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
