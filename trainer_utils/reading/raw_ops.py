"""`tf.data` and image functions by TensorFlow's raw ops, where these are so much faster.

dataset = map_elements(dataset, lambda records: records[::2], parallel=4)
dataset = flat_map(files, lambda path: tf.data.TFRecordDataset(path))

The one module that calls `tf.raw_ops`. Why, function by function:

- `map_elements`, `flat_map`, `interleave`: TensorFlow runs its graph optimizer, Grappler, over
  every function of a dataset each time an iterator is made: 3 ms for one operation, 70 ms for 150,
  and again at each level of nesting. A function marked `experimental_ints_on_device` is run on the
  device that it is on, which is the host, as it was traced: 20 times less. Its operations should be
  written so that there is nothing to optimize. Source: `CapturedFunction` in
  tensorflow/core/data/captured_function.cc.
- `unbatch`, `rebatch`, `read_tfrecords`: the public ones wrap themselves into functions of that
  kind, one for each file or each batch.
- `resize_images`, `random_uniform`, `random_box`: `tf.image` and `tf.random` make six to thirty
  small operations of one, at 1 to 2 us each, where a whole image takes 600.
- `transform_images`: the public one is Keras's, which takes the arrays of Keras's backend, and
  some seconds to import.
- `Counter`: a number in a resource that is found by its name, which a `tf.Variable`, mirrored under
  a strategy's scope, is not.

Each of them but the last, which is made of what `tf.Variable` itself is made of, is the public
function where TensorFlow no longer has the op in this form, or within `plain_ops()`.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

__all__ = [
    "Counter",
    "copy_views",
    "flat_map",
    "interleave",
    "map_elements",
    "plain_ops",
    "random_box",
    "random_uniform",
    "read_tfrecords",
    "rebatch",
    "resize_images",
    "transform_images",
    "unbatch",
]

Spec: TypeAlias = Any  # a nest of `tf.TypeSpec`
Element: TypeAlias = Any  # of a dataset: a nest of `tf.Tensor`
Traced: TypeAlias = Any  # TensorFlow's `ConcreteFunction`, which has no public name

_LIGHT = {"experimental_ints_on_device": True}
_CPU = "/CPU:0"
_logger = logging.getLogger(__name__)
_is_plain = False


@contextlib.contextmanager
def plain_ops() -> Iterator[None]:
    """Within it public functions take the place of raw ops, to compare them."""
    global _is_plain
    before, _is_plain = _is_plain, True
    try:
        yield
    finally:
        _is_plain = before


def map_elements(
    dataset: tf.data.Dataset, change: Callable[..., Element], *, parallel: int | None = None
) -> tf.data.Dataset:
    """As `Dataset.map`, in order.

    Args:
        dataset: of tensors; with others, such as ragged ones, it is `Dataset.map`.
        change: of an element, a tuple as so many arguments.
        parallel: how many elements at a time.
    """
    if _are_tensors(dataset.element_spec) and not _is_plain:
        function = _traced(change, dataset.element_spec)
        spec = tf.nest.map_structure(tf.type_spec_from_value, function.structured_outputs)
        if _are_tensors(spec):
            is_parallel = {"num_parallel_calls": parallel, "deterministic": "true"}
            variant = _raw(
                "MapDataset" if parallel is None else "ParallelMapDatasetV2",
                input_dataset=tf.data.experimental.to_variant(dataset),
                other_arguments=function.captured_inputs,
                f=function,
                use_inter_op_parallelism=True,
                preserve_cardinality=True,
                **({} if parallel is None else is_parallel),
                **_types(spec),
            )
            if variant is not None:
                return _dataset_of(variant, spec, dataset, function)
    return dataset.map(change, num_parallel_calls=parallel, deterministic=parallel and True)


def flat_map(dataset: tf.data.Dataset, make: Callable[..., tf.data.Dataset]) -> tf.data.Dataset:
    """As `Dataset.flat_map`, which it is where there are others than plain tensors."""
    if not _is_plain:
        function, spec = _traced_dataset(make, dataset.element_spec)
        variant = None
        if _are_tensors(spec):
            variant = _raw(
                "FlatMapDataset",
                input_dataset=tf.data.experimental.to_variant(dataset),
                other_arguments=function.captured_inputs,
                f=function,
                **_types(spec),
            )
        if variant is not None:
            return _dataset_of(variant, spec, dataset, function)
    return dataset.flat_map(make)


def interleave(
    dataset: tf.data.Dataset,
    make: Callable[..., tf.data.Dataset],
    *,
    cycle: int,
    parallel: int,
    ahead: int | None = None,
) -> tf.data.Dataset:
    """As `Dataset.interleave`, one element of each in turn, in order.

    Args:
        dataset: of tensors.
        make: of an element, the dataset of tensors to read.
        cycle: how many are read in turn.
        parallel: how many of these at the same time.
        ahead: how many elements of each are read before the first of all comes out, and then ahead
            of their use; None: TensorFlow's choice, which is 3.
    """
    parallel = min(parallel, cycle)
    if not _is_plain:
        function, spec = _traced_dataset(make, dataset.element_spec)
        variant = _raw(
            "ParallelInterleaveDatasetV4",
            input_dataset=tf.data.experimental.to_variant(dataset),
            other_arguments=function.captured_inputs,
            f=function,
            cycle_length=cycle,
            block_length=1,
            buffer_output_elements=tf.data.AUTOTUNE if ahead is None else ahead,
            prefetch_input_elements=tf.data.AUTOTUNE,
            num_parallel_calls=parallel,
            deterministic="true",
            **_types(spec),
        )
        if variant is not None:
            return _dataset_of(variant, spec, dataset, function)
    return dataset.interleave(
        make, cycle_length=cycle, num_parallel_calls=parallel, deterministic=True
    )


def unbatch(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `Dataset.unbatch`, for datasets of tensors."""
    spec = tf.nest.map_structure(
        lambda part: tf.TensorSpec(part.shape[1:], part.dtype), dataset.element_spec
    )
    variant = _raw(
        "UnbatchDataset", input_dataset=tf.data.experimental.to_variant(dataset), **_types(spec)
    )
    return dataset.unbatch() if variant is None else _dataset_of(variant, spec, dataset)


def rebatch(
    dataset: tf.data.Dataset, sizes: tf.Tensor | int, *, drop_remainder: bool = False
) -> tf.data.Dataset:
    """As `Dataset.rebatch`, for datasets of vectors; and with many sizes, in turn.

    What comes out may be a view of what goes in. Where such a one is to be joined to others by a
    second `rebatch`, take it through `copy_views`.

    Args:
        dataset: `(any,)` tensors, equally long ones of an element.
        sizes: of what comes out.
        drop_remainder: whether to leave out a last one that is shorter.
    """
    rows = sizes if drop_remainder and isinstance(sizes, int) else None
    spec = tf.nest.map_structure(
        lambda part: tf.TensorSpec([rows], part.dtype), dataset.element_spec
    )
    variant = _raw(
        "RebatchDatasetV2",
        input_dataset=tf.data.experimental.to_variant(dataset),
        batch_sizes=tf.constant(sizes, tf.int64) if isinstance(sizes, int) else sizes,
        drop_remainder=drop_remainder,
        **_types(spec),
    )
    if variant is None:
        return dataset.rebatch(sizes, drop_remainder=drop_remainder)
    return _dataset_of(variant, spec, dataset)


def copy_views(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same vectors, none of them a view of a larger one.

    TensorFlow's rebatching moves tensors that it alone holds. It asks that of views too, which it
    copies then, and writes a line of error to the log for each: "Tensor RefCount not reliable if
    buf_ points to a SubBuffer". To batch and to unbatch is the copy that costs least, 1 µs and its
    bytes, and what is moved afterwards is not copied again.
    Source: `MaybeMoveContiguousSlices` in tensorflow/core/util/batch_util.cc.
    """
    return unbatch(dataset.batch(1))


def read_tfrecords(path: tf.Tensor, compression: tf.Tensor, buffer_bytes: int) -> tf.data.Dataset:
    """As `tf.data.TFRecordDataset` of one file."""
    variant = _raw(
        "TFRecordDataset", filenames=path, compression_type=compression, buffer_size=buffer_bytes
    )
    if variant is None:
        return tf.data.TFRecordDataset(path, compression, buffer_bytes)
    return tf.data.experimental.from_variant(variant, tf.TensorSpec((), tf.string))


def resize_images(
    images: tf.Tensor, size: tf.Tensor | tuple[int, int], *, nearest: bool = False
) -> tf.Tensor:
    """As `tf.image.resize` of `(batch, height, width, channels)`: bilinear, or nearest."""
    name = "ResizeNearestNeighbor" if nearest else "ResizeBilinear"
    resized = _raw(name, images=images, size=size, half_pixel_centers=True)
    if resized is None:
        return tf.image.resize(images, size, "nearest" if nearest else "bilinear")
    return resized


def transform_images(
    images: tf.Tensor, transforms: tf.Tensor, *, nearest: bool = False
) -> tf.Tensor:
    """Affine transforms as `keras.ops.image.affine_transform` takes them, zeros outside.

    Args:
        images: `(batch, height, width, channels)`.
        transforms: `(batch, 8) float32`: what is at (x, y) of an output is at
            (a0 x + a1 y + a2, a3 x + a4 y + a5) of its input.
        nearest: the nearest pixel is taken; else bilinearly.
    """
    moved = _raw(
        "ImageProjectiveTransformV3",
        images=images,
        transforms=transforms,
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0,
        interpolation="NEAREST" if nearest else "BILINEAR",
        fill_mode="CONSTANT",
    )
    if moved is None:
        how = "nearest" if nearest else "bilinear"
        moved = tf.keras.ops.image.affine_transform(images, transforms, how, "constant", 0)
    return tf.ensure_shape(moved, images.shape)


def random_uniform(seed: tf.Tensor) -> tf.Tensor:
    """As `tf.random.stateless_uniform` of one number: `() float32` in [0, 1)."""
    number = _raw("StatelessRandomUniform", shape=(), seed=seed)
    return tf.random.stateless_uniform((), seed) if number is None else number


def random_box(
    image_size: tf.Tensor, seed: tf.Tensor, **settings: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """As `tf.image.stateless_sample_distorted_bounding_box`: begin and size, `(3,) int32` each."""
    arguments = {"bounding_boxes": tf.zeros((1, 0, 4)), "seed": seed, **settings}
    name = "StatelessSampleDistortedBoundingBox"
    found = _raw(name, image_size=image_size, **arguments)
    if found is None:
        found = tf.image.stateless_sample_distorted_bounding_box(image_size, **arguments)
    begin, extent, _ = found
    return begin, extent


class Counter:
    """Numbers that graphs read and change, in a resource of this process's CPU.

    Args:
        name: by which functions that are traced elsewhere find it.
        dtype, shape: of its value.
    """

    def __init__(self, name: str, dtype: tf.DType, shape: tuple[int, ...] = ()) -> None:
        self._name, self._dtype, self._shape = name, dtype, shape

    def assign(self, value: tf.Tensor | int) -> tf.Operation:
        """Sets it."""
        with tf.device(_CPU):
            value = tf.cast(value, self._dtype)
            return tf.raw_ops.AssignVariableOp(resource=self._handle(), value=value)

    def add(self, value: tf.Tensor) -> tf.Operation:
        """Adds to it, as one step."""
        with tf.device(_CPU):
            return tf.raw_ops.AssignAddVariableOp(resource=self._handle(), value=value)

    def read(self) -> tf.Tensor:
        """Its value."""
        with tf.device(_CPU):
            value = tf.raw_ops.ReadVariableOp(resource=self._handle(), dtype=self._dtype)
            return tf.ensure_shape(value, self._shape)

    def is_assigned(self) -> bool:
        """Whether it has a value; not in a graph."""
        with tf.device(_CPU):
            return bool(tf.raw_ops.VarIsInitializedOp(resource=self._handle()))

    def _handle(self) -> tf.Tensor:
        return tf.raw_ops.VarHandleOp(dtype=self._dtype, shape=self._shape, shared_name=self._name)


def _raw(name: str, **arguments: Any) -> Any | None:
    """What a raw op makes; None: the public function is to be taken."""
    if _is_plain:
        return None
    try:
        return getattr(tf.raw_ops, name)(**arguments)
    except (AttributeError, TypeError) as error:  # it is gone, or has other arguments
        _warn_of_missing(name, str(error))
        return None


@functools.cache
def _warn_of_missing(name: str, reason: str) -> None:
    _logger.warning("TensorFlow's op %s is not as expected; input is slower: %s", name, reason)


def _traced(change: Callable[..., Element], spec: Spec) -> Traced:
    signature = spec if isinstance(spec, tuple) else (spec,)
    function = tf.function(
        lambda *element: change(*element),
        input_signature=signature,
        autograph=False,
        experimental_attributes=_LIGHT,
    )
    return function.get_concrete_function()


def _traced_dataset(make: Callable[..., tf.data.Dataset], spec: Spec) -> tuple[Traced, Spec]:
    """The function, and what an element of its dataset is."""
    specs = []

    def variant(*element: tf.Tensor) -> tf.Tensor:
        dataset = make(*element)
        specs.append(dataset.element_spec)
        return tf.data.experimental.to_variant(dataset)

    function = _traced(variant, spec)
    return function, specs[-1]


def _are_tensors(spec: Spec) -> bool:
    return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))


def _types(spec: Spec) -> dict[str, Any]:
    parts = tf.nest.flatten(spec)
    return {
        "output_types": [part.dtype for part in parts],
        "output_shapes": [part.shape for part in parts],
    }


def _dataset_of(variant: tf.Tensor, spec: Spec, *needed: tf.Tensor) -> tf.data.Dataset:
    """A dataset that keeps what it needs alive, as tf.data's own do."""
    dataset = tf.data.experimental.from_variant(variant, spec)
    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly():
        dataset.needed = needed
    else:
        graph.needed = [*getattr(graph, "needed", ()), *needed]
    return dataset
