"""`map`, `flat_map` and `interleave` of tf.data with light functions: an iterator starts at once.

dataset = mapped(dataset, lambda records: records[::2], parallel=4)
dataset = flat_mapped(files, lambda path: tf.data.TFRecordDataset(path))

TensorFlow runs its graph optimizer, Grappler, over every function of a dataset each time an
iterator is made: 3 ms for one operation, 70 ms for 150, and again at each level of nesting. A
function marked `experimental_ints_on_device` is run on the device that it is on, which is the
host, as it was traced: 20 times less. Its operations should be written so that there is nothing to
optimize. Source: `CapturedFunction` in tensorflow/core/data/captured_function.cc.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["flat_mapped", "interleaved", "mapped", "owned", "rebatched", "unbatched"]

_LIGHT = {"experimental_ints_on_device": True}


def mapped(
    dataset: tf.data.Dataset, change: Callable[..., Any], *, parallel: int | None = None
) -> tf.data.Dataset:
    """As `Dataset.map`, in order.

    Args:
        dataset: of tensors; with others, such as ragged ones, it is `Dataset.map`.
        change: of an element, a tuple as so many arguments.
        parallel: how many elements at a time.
    """
    if _is_plain(dataset.element_spec):
        function = _traced(change, dataset.element_spec)
        spec = tf.nest.map_structure(tf.type_spec_from_value, function.structured_outputs)
        if _is_plain(spec):
            variant = _map(dataset, function, spec, parallel)
            return _kept(tf.data.experimental.from_variant(variant, spec), dataset, function)
    return dataset.map(change, num_parallel_calls=parallel, deterministic=parallel and True)


def flat_mapped(dataset: tf.data.Dataset, make: Callable[..., tf.data.Dataset]) -> tf.data.Dataset:
    """As `Dataset.flat_map`, which it is where there are others than plain tensors."""
    function, spec = _traced_dataset(make, dataset.element_spec)
    if not _is_plain(spec):
        return dataset.flat_map(make)
    variant = tf.raw_ops.FlatMapDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        other_arguments=function.captured_inputs,
        f=function,
        **_types(spec),
    )
    return _kept(tf.data.experimental.from_variant(variant, spec), dataset, function)


def interleaved(
    dataset: tf.data.Dataset, make: Callable[..., tf.data.Dataset], *, cycle: int, parallel: int
) -> tf.data.Dataset:
    """As `Dataset.interleave`, one element of each in turn, in order.

    Args:
        dataset: of tensors.
        make: of an element, the dataset of tensors to read.
        cycle: how many are read in turn.
        parallel: how many of these at the same time.
    """
    function, spec = _traced_dataset(make, dataset.element_spec)
    variant = tf.raw_ops.ParallelInterleaveDatasetV4(
        input_dataset=tf.data.experimental.to_variant(dataset),
        other_arguments=function.captured_inputs,
        f=function,
        cycle_length=cycle,
        block_length=1,
        buffer_output_elements=tf.data.AUTOTUNE,
        prefetch_input_elements=tf.data.AUTOTUNE,
        num_parallel_calls=min(parallel, cycle),
        deterministic="true",
        **_types(spec),
    )
    return _kept(tf.data.experimental.from_variant(variant, spec), dataset, function)


def unbatched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `Dataset.unbatch`, for datasets of tensors."""
    spec = tf.nest.map_structure(
        lambda part: tf.TensorSpec(part.shape[1:], part.dtype), dataset.element_spec
    )
    variant = tf.raw_ops.UnbatchDataset(
        input_dataset=tf.data.experimental.to_variant(dataset), **_types(spec)
    )
    return _kept(tf.data.experimental.from_variant(variant, spec), dataset)


def rebatched(
    dataset: tf.data.Dataset, sizes: tf.Tensor | int, *, drop_remainder: bool = False
) -> tf.data.Dataset:
    """As `Dataset.rebatch`, for datasets of vectors; and with many sizes, in turn.

    What comes out may be a view of what goes in. Where such a one is to be joined to others by a
    second `rebatched`, make it `owned`.

    Args:
        dataset: `(any,)` tensors, equally long ones of an element.
        sizes: of what comes out.
        drop_remainder: whether to leave out a last one that is shorter.
    """
    rows = sizes if drop_remainder and isinstance(sizes, int) else None
    spec = tf.nest.map_structure(
        lambda part: tf.TensorSpec([rows], part.dtype), dataset.element_spec
    )
    variant = tf.raw_ops.RebatchDatasetV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        batch_sizes=tf.constant(sizes, tf.int64) if isinstance(sizes, int) else sizes,
        drop_remainder=drop_remainder,
        **_types(spec),
    )
    return _kept(tf.data.experimental.from_variant(variant, spec), dataset)


def owned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same vectors, none of them a view of a larger one.

    TensorFlow's rebatching moves tensors that it alone holds. It asks that of views too, which it
    copies then, and writes a line of error to the log for each: "Tensor RefCount not reliable if
    buf_ points to a SubBuffer". To batch and to unbatch is the copy that costs least, 1 µs and its
    bytes, and what is moved afterwards is not copied again.
    Source: `MaybeMoveContiguousSlices` in tensorflow/core/util/batch_util.cc.
    """
    return unbatched(dataset.batch(1))


def _map(dataset: tf.data.Dataset, function: Any, spec: Any, parallel: int | None) -> tf.Tensor:
    settings = {
        "input_dataset": tf.data.experimental.to_variant(dataset),
        "other_arguments": function.captured_inputs,
        "f": function,
        "use_inter_op_parallelism": True,
        "preserve_cardinality": True,
        **_types(spec),
    }
    if parallel is None:
        return tf.raw_ops.MapDataset(**settings)
    return tf.raw_ops.ParallelMapDatasetV2(
        num_parallel_calls=parallel, deterministic="true", **settings
    )


def _traced(change: Callable[..., Any], spec: Any) -> Any:
    signature = spec if isinstance(spec, tuple) else (spec,)
    function = tf.function(
        lambda *element: change(*element),
        input_signature=signature,
        autograph=False,
        experimental_attributes=_LIGHT,
    )
    return function.get_concrete_function()


def _traced_dataset(make: Callable[..., tf.data.Dataset], spec: Any) -> tuple[Any, Any]:
    """The function, and what an element of its dataset is."""
    specs = []

    def variant(*element: Any) -> tf.Tensor:
        dataset = make(*element)
        specs.append(dataset.element_spec)
        return tf.data.experimental.to_variant(dataset)

    function = _traced(variant, spec)
    return function, specs[-1]


def _is_plain(spec: Any) -> bool:
    return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))


def _types(spec: Any) -> dict[str, Any]:
    parts = tf.nest.flatten(spec)
    return {
        "output_types": [part.dtype for part in parts],
        "output_shapes": [part.shape for part in parts],
    }


def _kept(dataset: tf.data.Dataset, *needed: Any) -> tf.data.Dataset:
    """A dataset that keeps what it needs alive, as tf.data's own do."""
    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly():
        dataset.needed = needed
    else:
        graph.needed = [*getattr(graph, "needed", ()), *needed]
    return dataset
