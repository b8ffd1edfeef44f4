"""Build the part of an input's graph where examples pass a callback before they are batched.

graph = ExampleGraph(functions, callback)
graph.dataset(groups)                      # pairs of a step and its tensors by name
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from trainer_utils.frameworks.input_functions import (
    SINGLES_AT_ONCE,
    Element,
    InputFunctions,
    kinds_of,
)
from trainer_utils.reading.elements import ArraySpec, call_hook
from trainer_utils.runtime.machine import usable_cores


class _Rows(NamedTuple):
    """The examples of a group of steps, as tensors.

    Attributes:
        values: for each feature, a vector of the values of all rows, and `(rows, 2 + rank) int64`:
            the begin and end of each row in it, and its shape.
        mask: `(rows,) float32`, 0 for filler rows; empty without a batch size.
        bounds: the bounds of each replica's rows; empty without a batch size.
    """

    values: Sequence[tuple[tf.Tensor, tf.Tensor]]
    mask: tf.Tensor
    bounds: tf.Tensor


class ExampleGraph:
    """Examples that pass a callback one by one, and are then batched.

    Args:
        functions: the functions of the input.
        callback: the callback for each example, as a graph; or None.
    """

    def __init__(self, functions: InputFunctions, callback: Callable[..., Any] | None) -> None:
        self._functions, self._callback = functions, callback
        self._options, self._parts = functions.options, functions.num_parts
        self._is_batched = functions.options.batch_size is not None
        self._specs = self._specs_of_examples()

    def _specs_of_examples(self) -> Mapping[str, ArraySpec]:
        """Return shape and dtype of each feature of an example, with ids as the label."""
        source = self._functions.source
        specs = {
            name: ArraySpec(spec.shape[1:] if self._is_batched else spec.shape, spec.dtype)
            for name, spec in source.structure.items()
            if name != self._options.mask_feature
        }
        encoding = source.encoding
        if encoding is not None and encoding.label in specs:
            specs[encoding.label] = ArraySpec(specs[encoding.label].shape[:-1], "int64")
        return specs

    def dataset(self, groups: tf.data.Dataset) -> tf.data.Dataset:
        """Return pairs of a step and its tensors by name, one for each replica.

        Args:
            groups: elements of `(2,) int64`: the first step of a group, and the one after the last.
        """
        return groups.interleave(
            self._batches if self._is_batched else self._single_examples,
            cycle_length=2,
            block_length=self._parts if self._is_batched else SINGLES_AT_ONCE,
            num_parallel_calls=2,
            deterministic=True,
        )

    def _single_examples(self, group: tf.Tensor) -> tf.data.Dataset:
        """Return the examples of a group of steps, each with its step."""
        begin, end = group[0], group[1]
        rows = self._read(group)

        def example(row: tf.Tensor) -> Element:
            return begin + row, self._functions.encoded(self._example(rows, row))

        return tf.data.Dataset.range(end - begin).map(
            example, num_parallel_calls=usable_cores(), deterministic=True
        )

    def _batches(self, group: tf.Tensor) -> tf.data.Dataset:
        """Return the batch of each replica for a step."""
        rows = self._read(group)
        return tf.data.Dataset.range(self._parts).flat_map(
            lambda part: self._batch(rows, group[0], part)
        )

    def _batch(self, rows: _Rows, step: tf.Tensor, part: tf.Tensor) -> tf.data.Dataset:
        """Return the batch of one replica, as a dataset of one element."""
        # For a replica without rows, a row is read and cut off.
        size = rows.bounds[part + 1] - rows.bounds[part]
        num_examples = tf.maximum(size, 1)
        last = rows.bounds[self._parts] - 1
        first = tf.maximum(tf.minimum(rows.bounds[part], last), 0)
        examples = tf.data.Dataset.range(first, first + num_examples).map(
            lambda row: self._example(rows, row),
            num_parallel_calls=usable_cores(),
            deterministic=True,
        )

        def cut(whole: Element) -> Element:
            batch = tf.nest.map_structure(
                lambda values: self._functions.with_rows(values[:size]), whole
            )
            return self._functions.last_part(step, part), self._functions.encoded(batch)

        return self._batched(examples, num_examples).map(cut)

    def _batched(self, examples: tf.data.Dataset, size: tf.Tensor) -> tf.data.Dataset:
        """Batch examples; lists are padded, or ragged, but not images of different sizes."""
        if self._options.ragged:
            return examples.ragged_batch(size)
        shapes = [spec.shape for spec in tf.nest.flatten(examples.element_spec)]
        if any(shape.rank != 3 and not shape.is_fully_defined() for shape in shapes):
            return examples.padded_batch(size)
        return examples.batch(size)

    def _read(self, group: tf.Tensor) -> _Rows:
        """Read the examples of a group of steps."""
        kinds = [kind for spec in self._specs.values() for kind in (kinds_of(spec)[0], tf.int64)]
        *values, mask, bounds = self._functions.call(
            "make_examples", [group[0], group[1]], [*kinds, tf.float32, tf.int64]
        )
        pairs = zip(values[::2], values[1::2], strict=True)
        return _Rows([*pairs], tf.ensure_shape(mask, [None]), bounds)

    def _example(self, rows: _Rows, row: tf.Tensor) -> Element:
        """Return one example, as the callback returns it, with its mask."""
        tensors: dict[str, Any] = {}
        for (name, spec), (flat, places) in zip(self._specs.items(), rows.values, strict=True):
            place = tf.ensure_shape(places, [None, 2 + len(spec.shape)])[row]
            value = tf.reshape(flat[place[0] : place[1]], place[2:])
            tensors[name] = tf.ensure_shape(value, spec.shape)
        example: Element = call_hook(self._callback, tensors)
        if (mask := self._options.mask_feature) is not None:
            example = {**example, mask: rows.mask[row]}
        return example
