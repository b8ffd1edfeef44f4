"""From serialized records to the tensors that a trainer takes: parse, batch, hooks, arrangement.

finish = Arrangement.of(options).arrange     # of `trainer_utils.reading.arrangement`
batches = make_batches(
    elements, parser=parser, options=options, split_names=["train"], rows=64, finish=finish
)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.machine import usable_cores
from trainer_utils.options import hook_of_split
from trainer_utils.reading.augmentation.mixing import KEYS
from trainer_utils.reading.decoding_threads import batches_at_once
from trainer_utils.reading.direct_reading import DirectReading
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.raw_ops import Element, map_elements, unbatch

if TYPE_CHECKING:
    from trainer_utils.options import Callback, InputOptions

__all__ = ["callback_of", "make_batches", "repeat_batches"]

_IS_ROW = "\0is row"  # no feature's name


def make_batches(
    elements: tf.data.Dataset,
    *,
    parser: ExampleParser,
    options: "InputOptions",
    split_names: Sequence[str],
    rows: int,
    are_full: bool = True,
    spare: bytes | None = None,
    epoch_seed: tf.Tensor | None = None,
    finish: Callable[[dict[str, tf.Tensor]], Element],
    direct: DirectReading | None = None,
) -> tf.data.Dataset:
    """Parses an epoch's records and batches them.

    Args:
        elements: `(rows,) string` each, or with a mask `((rows,) string, (rows,) float32)`.
        parser: of the features that are asked for.
        options: of the input.
        split_names: that are read, to choose hooks by.
        rows: of every element, but for what `are_full` says.
        are_full: whether no element but the last has fewer rows, and that one has some.
        spare: a record, needed where elements may have no rows at all.
        epoch_seed: `() int64`, of what is random in an epoch; None: nothing repeats.
        finish: what each batch's dict of tensors is turned into.
        direct: what makes a batch of records' positions; `elements` are those, of int64, then.

    Returns:
        Batches; single examples where `batch_size` is None.
    """
    before = callback_of("pre_batching_callback", options.pre_batching_callback, split_names)
    change = map_elements if before is None else _map_unknown

    def parse_batch(records: tf.Tensor, *mask: tf.Tensor) -> Element:
        seed = _seed_of(parser, epoch_seed)
        if direct is not None:
            return finish(_with_mask(direct.batch(records, seed), mask, options.mask))
        parsed = _with_keys(parser.batch(records, seed), parser, records, seed)
        return finish(_with_mask(parsed, mask, options.mask))

    def parse_example(record: tf.Tensor, *mask: tf.Tensor) -> dict[str, tf.Tensor]:
        seed = _seed_of(parser, epoch_seed)
        tensors = parser.example(record, seed)
        if before is not None:
            tensors = before(tensors)
        elif parser.has_variable_length and options.batch_size is not None and rows != 1:
            tensors = parser.with_image_shapes(tensors)  # padding is for lists, not for images
        tensors = _with_keys(tensors, parser, record, seed)
        return _with_mask(tensors, mask, options.mask if are_full else _IS_ROW)

    def finish_batch(tensors: dict[str, tf.Tensor]) -> Element:
        return finish(tensors if are_full else _without_filling(tensors))

    parallel = usable_cores() + 2  # a slow image must not hold up the order
    if options.batch_size is None:
        return change(unbatch(elements), lambda *e: finish(parse_example(*e)), parallel=parallel)
    if parser.is_vectorised and before is None:
        if parser.decodes_batches:
            parallel = batches_at_once(rows)
        return map_elements(elements, parse_batch, parallel=parallel)
    if not are_full:
        elements = map_elements(elements, lambda records: _filled_up(records, rows, spare))
    examples = change(unbatch(elements), parse_example, parallel=parallel)
    is_static = not are_full or options.keeps_rows
    if not parser.has_variable_length:
        return map_elements(examples.batch(rows, drop_remainder=is_static), finish_batch)
    if parser.options.ragged:
        return examples.ragged_batch(rows, drop_remainder=is_static).map(finish_batch)
    return map_elements(examples.padded_batch(rows, drop_remainder=is_static), finish_batch)


def _filled_up(records: tf.Tensor, rows: int, spare: bytes | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Copies of a record after an element's own, so that all are as large; and which are its own.

    So examples of all elements can be parsed side by side and batched by their number.
    """
    size = tf.size(records)
    first = records[:1] if spare is None else tf.concat([records, [spare]], 0)[:1]
    full = tf.concat([records, tf.repeat(first, rows - size)], 0)
    return tf.ensure_shape(full, [rows]), tf.sequence_mask(size, rows)


def _without_filling(tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    size = tf.reduce_sum(tf.cast(tensors[_IS_ROW], tf.int64))
    return {name: value[:size] for name, value in tensors.items() if name != _IS_ROW}


def _map_unknown(
    dataset: tf.data.Dataset, change: Callable[..., Element], *, parallel: int
) -> Element:
    """`Dataset.map`, for what we did not write: there may be something to optimize."""
    return dataset.map(change, num_parallel_calls=parallel, deterministic=True)


def _with_keys(
    tensors: dict[str, tf.Tensor],
    parser: ExampleParser,
    records: tf.Tensor,
    epoch_seed: tf.Tensor | None,
) -> dict[str, tf.Tensor]:
    """With the records' keys, where rows are to be mixed."""
    if not parser.options.augmentation.mixing:
        return tensors
    return {**tensors, KEYS: parser.keys(records, epoch_seed)}


def _seed_of(parser: ExampleParser, epoch_seed: tf.Tensor | None) -> tf.Tensor | None:
    if parser.is_random and epoch_seed is None:
        return tf.random.uniform((), maxval=tf.int64.max, dtype=tf.int64)
    return epoch_seed


def repeat_batches(batches: tf.data.Dataset, times: int, *, group: int) -> tf.data.Dataset:
    """Each batch so many times in a row; a group of them where a step takes several."""
    if group == 1:
        return batches.flat_map(
            lambda *batch: tf.data.Dataset.from_tensors(
                batch if len(batch) > 1 else batch[0]
            ).repeat(times)
        )
    groups = batches.window(group)
    return groups.flat_map(
        lambda *parts: tf.data.Dataset.zip(parts if len(parts) > 1 else parts[0]).repeat(times)
    )


def callback_of(
    name: str,
    callback: "Callback | Mapping[str, Callback] | None",
    split_names: Sequence[str],
) -> "Callback | None":
    """The hook for the splits that are read: one for all, or that of their name.

    Raises:
        ConfigError: the splits have different ones.
    """
    if not isinstance(callback, Mapping):
        return callback if callback is None else _in_a_graph(callback)
    found = {split: hook_of_split(callback, split) for split in split_names}
    if len(set(found.values())) > 1:
        raise ConfigError(
            f"{name}: expected one function for all splits that are read together, "
            f"got different ones for {', '.join(found)}",
            setting=name,
        )
    return callback_of(name, next(iter(found.values()), None), split_names)


def _in_a_graph(callback: "Callback") -> "Callback":
    made: Callback
    try:
        made = tf.function(callback)
    except ValueError:  # a builtin, such as `dict`, that does not say what arguments it takes
        made = tf.function(lambda *batch: callback(*batch))
    return made


def _with_mask(
    tensors: dict[str, tf.Tensor], mask: tuple[tf.Tensor, ...], name: str
) -> dict[str, tf.Tensor]:
    return {**tensors, name: mask[0]} if mask else tensors
