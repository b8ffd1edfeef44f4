"""Build the graph of an input pipeline, from step numbers to batches of tensors.

`tf.numpy_function` turns a step's number into its batch. TensorFlow keeps every such function
forever, with all that it refers to. So the functions here belong to this module, and find their
input by a number.
"""

import atexit
import functools
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.frameworks.numpy import SHOWN_OF_INPUT, Input
from trainer_utils.frameworks.read_timer import add_read_timer
from trainer_utils.machine import usable_cores
from trainer_utils.order import InputState
from trainer_utils.reading.elements import ArraySpec, Ragged, call_hook

_EXIT_SECONDS, _TURN_SECONDS, _STILL_TURNS = 10, 0.01, 3  # see `_wait_for_calls`

Element: TypeAlias = Any  # an element of a dataset: a nest of tensors

_inputs: "weakref.WeakValueDictionary[int, TensorInput]" = weakref.WeakValueDictionary()
_numbers = itertools.count()
_SINGLES_AT_ONCE = 64  # examples read together without a batch size
_NO_STEP = tf.int64.min
_NEXT = -1  # epoch: the next one, if each iterator reads one epoch


class TensorInput:
    """The dataset of one input pipeline.

    Args:
        source: the batches.
        is_shared: whether the batches are already one worker's share.
    """

    def __init__(self, source: Input, *, is_shared: bool) -> None:
        self.source, self.order, self.options = source, source.order, source.options
        self._is_shared = is_shared
        if self.options.processes and source.before is not None:
            rule = "0 with a pre_batching_callback, which TensorFlow runs"
            raise ConfigError.of("processes", self.options.processes, allowed=rule)
        source.report_empty()
        self._before, self._after = map(_in_a_graph, (source.before, source.after))
        number = next(_numbers)
        _inputs[number] = self
        self._number = tf.constant(number, tf.int64)

    def attach_to(self, dataset: Any, resumed_at: Callable[[InputState], Any]) -> Any:
        """Add the attributes that `input_fn` promises to a dataset, and return it."""
        dataset.input_pipeline, dataset.tensor_input = self.source, self
        for name in SHOWN_OF_INPUT:
            setattr(dataset, name, getattr(self.source, name))
        dataset.resumed_at = resumed_at
        return dataset

    def dataset(self) -> tf.data.Dataset:
        """Return the dataset of all steps, with one element per replica and step."""
        # Our functions need no conversion by AutoGraph, which would take a second.
        return tf.autograph.experimental.do_not_convert(self._dataset)()

    def _dataset(self) -> tf.data.Dataset:
        start, steps, repeat = self.source.input_start, self.source.input_steps, self.options.repeat
        if repeat is False:
            epochs = tf.data.Dataset.from_tensors(tf.constant(_NEXT, tf.int64))
            count = tf.data.UNKNOWN_CARDINALITY if start.step else steps * self._parts
        else:
            last = tf.int64.max if repeat is True else max(int(repeat), start.epoch)
            epochs = tf.data.Dataset.range(start.epoch, last)
            count = ((last - start.epoch) * steps - start.step) * self._parts
            count = tf.data.INFINITE_CARDINALITY if repeat is True else max(count, 0)
        numbers = epochs.flat_map(
            lambda epoch: tf.data.Dataset.from_tensor_slices(
                tf.ensure_shape(self._call("groups", [epoch], [tf.int64])[0], [None, 2])
            )
        )
        is_single = self._before is not None or self.options.batch_size is None
        dataset = self._examples(numbers) if is_single else self._batches(numbers)
        if self._after is not None:
            keep = self.options.mask_feature
            dataset = dataset.map(
                lambda step, element: (step, call_hook(self._after, element, keep=keep)),
                num_parallel_calls=usable_cores(),
                deterministic=True,
            )
        dataset = add_read_timer(dataset.prefetch(self.options.prefetch), self._counted)
        if count != tf.data.UNKNOWN_CARDINALITY:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        tf_options = tf.data.Options()
        # Each process that is waited for needs a thread.
        threads = max(usable_cores(), self.options.processes) + 1
        tf_options.threading.private_threadpool_size = threads
        tf_options.threading.max_intra_op_parallelism = 1
        # tf.data's autotuner thread delays the end of an iterator by up to a second.
        tf_options.autotune.enabled = False
        tf_options.deterministic = True
        # Rewriting the graph would take as long as the rest of an iterator's start.
        tf_options.experimental_optimization.apply_default_optimizations = False
        policy = tf.data.experimental.AutoShardPolicy
        shards = policy.OFF if self._is_shared else policy.DATA
        tf_options.experimental_distribute.auto_shard_policy = shards
        return dataset.with_options(tf_options)

    @property
    def _parts(self) -> int:
        """Number of elements of a step: one for each replica."""
        return self.order.layout.replicas_per_worker if self.options.batch_size is not None else 1

    def _counted(self, step: tf.Tensor, element: Element) -> Element:
        """Return the arranged element without its step; the last one of an epoch ends the epoch."""
        if (weight := self.options.labels.sample_weight) in element:
            element = {**element, weight: tf.cast(element[weight], tf.float32)}
        element = self.source.arranged(element)
        done = tf.cond(
            tf.equal((step + 1) % max(self.source.input_steps, 1), 0),
            lambda: self._call("finish", [step], [tf.int64])[0],
            lambda: step,
        )
        with tf.control_dependencies([done]):
            return tf.nest.map_structure(tf.identity, element, expand_composites=True)

    @functools.cached_property
    def _at_once(self) -> int:
        """Number of steps that one call makes; several if rows are small and a call costs more."""
        if self.options.batch_size is None:
            return _SINGLES_AT_ONCE
        specs = self.source.structure.values()
        is_alike = not any(spec.is_ragged or None in spec.shape[1:] for spec in specs)
        is_simple = is_alike and self._parts == 1 and self._before is None
        return self.source.steps_at_once if is_simple else 1

    def groups(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the groups of steps that are made together.

        Returns:
            `(groups, 2) int64`: the first step, and the one after the last, counted over all
            epochs. All steps of a group have equally many rows.
        """
        epoch = self.source.next_epoch if epoch == _NEXT else epoch
        start, steps = self.source.input_start, self.source.input_steps
        first = start.step if epoch == start.epoch else 0
        full = steps
        if self.options.batch_size is not None and not self.options.keeps_rows:
            full = self.order.layout.full_steps * self.options.echoing
        begins, size = [], 1
        while size < self._at_once and first + size < full:  # the consumer waits for the first
            begins.append(first)
            first, size = first + size, 2 * size
        begins += [*range(first, full, self._at_once), *range(max(first, full), steps)]
        groups = np.array([begins, [*begins[1:], steps][: len(begins)]], np.int64)
        return np.ascontiguousarray(groups.T) + epoch * steps

    def _batches(self, numbers: tf.data.Dataset) -> tf.data.Dataset:
        """Return pairs of a step and its tensors by name, one for each replica."""
        structure = self.source.structure
        kinds = [kind for spec in structure.values() for kind in _kinds(spec)]

        def read_group(place: tf.Tensor) -> Element:
            values = self._call("make_group", [place[0], place[1]], kinds)
            tensors = {
                name: tf.ensure_shape(value, [None, *spec.shape])
                for (name, spec), value in zip(structure.items(), values, strict=True)
            }
            return tf.range(place[0], place[1]), tensors

        def read(place: tf.Tensor) -> Element:
            *values, bounds = self._call("make", [place[0]], [*kinds, tf.int64])
            left = iter(values)
            tensors = {name: _tensor(left, spec) for name, spec in structure.items()}
            return (place[0], tensors) if self._parts == 1 else (place[0], tensors, bounds)

        def divide(step: tf.Tensor, tensors: dict[str, Any], bounds: tf.Tensor) -> tf.data.Dataset:
            def part(number: tf.Tensor) -> Element:
                begin, end = bounds[number], bounds[number + 1]
                cut = {name: self._with_rows(value[begin:end]) for name, value in tensors.items()}
                return self._last_part(step, number), cut

            return tf.data.Dataset.range(self._parts).map(part)

        is_group = self._at_once > 1
        calls = max(usable_cores(), self.options.processes)
        parallel = {"num_parallel_calls": calls, "deterministic": True}
        dataset = numbers.map(read_group if is_group else read, **parallel)
        if is_group:
            return dataset.flat_map(lambda *group: tf.data.Dataset.from_tensor_slices(group))
        return dataset if self._parts == 1 else dataset.flat_map(divide)

    def _last_part(self, step: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Return the step for the last replica's part, which may end an epoch, else no step."""
        return tf.where(tf.equal(number, self._parts - 1), step, _NO_STEP)

    def _with_rows(self, values: Any) -> Any:
        """Set the known number of rows; a ragged tensor has it from its row splits."""
        if not self.options.keeps_rows or isinstance(values, tf.RaggedTensor):
            return values
        return tf.ensure_shape(values, [self.order.layout.rows_per_replica, *values.shape[1:]])

    def _examples(self, numbers: tf.data.Dataset) -> tf.data.Dataset:
        """Return such pairs if examples pass a callback one by one, before any batching."""
        options, parts, mask_feature = self.options, self._parts, self.options.mask_feature
        is_batched = options.batch_size is not None
        specs = {
            name: ArraySpec(spec.shape[1:] if is_batched else spec.shape, spec.dtype)
            for name, spec in self.source.structure.items()
            if name != mask_feature
        }
        encoding = self.source.encoding
        if encoding is not None and encoding.label in specs:  # callbacks get ids
            specs[encoding.label] = ArraySpec(specs[encoding.label].shape[:-1], "int64")
        kinds = [kind for spec in specs.values() for kind in (_kinds(spec)[0], tf.int64)]

        def read(place: tf.Tensor) -> tf.data.Dataset:
            begin, end = place[0], place[1]
            *values, mask, bounds = self._call(
                "make_examples", [begin, end], [*kinds, tf.float32, tf.int64]
            )

            def example(row: tf.Tensor) -> Element:
                made: Element = {}
                pairs = zip(specs.items(), values[::2], values[1::2], strict=True)
                for (name, spec), flat, places in pairs:
                    place = tf.ensure_shape(places, [None, 2 + len(spec.shape)])[row]
                    value = tf.reshape(flat[place[0] : place[1]], place[2:])
                    made[name] = tf.ensure_shape(value, spec.shape)
                made = call_hook(self._before, made)
                if mask_feature is not None:
                    made = {**made, mask_feature: tf.ensure_shape(mask, [None])[row]}
                return made

            def batch(number: tf.Tensor) -> tf.data.Dataset:
                size = bounds[number + 1] - bounds[number]  # for no rows, one is made and cut off
                first = tf.maximum(tf.minimum(bounds[number], bounds[parts] - 1), 0)
                examples = tf.data.Dataset.range(first, first + tf.maximum(size, 1)).map(
                    example, num_parallel_calls=usable_cores(), deterministic=True
                )

                def cut(whole: Element) -> Element:
                    some = tf.nest.map_structure(lambda v: self._with_rows(v[:size]), whole)
                    return self._last_part(begin, number), self._encoded(some)

                shapes = [spec.shape for spec in tf.nest.flatten(examples.element_spec)]
                # Padding is for lists, not for images of different sizes.
                pads = any(s.rank != 3 and not s.is_fully_defined() for s in shapes)
                how = "ragged_batch" if options.ragged else "padded_batch" if pads else "batch"
                return getattr(examples, how)(tf.maximum(size, 1)).map(cut)

            if is_batched:
                return tf.data.Dataset.range(parts).flat_map(batch)
            return tf.data.Dataset.range(end - begin).map(
                lambda row: (begin + row, self._encoded(example(row))),
                num_parallel_calls=usable_cores(),
                deterministic=True,
            )

        return numbers.interleave(
            read,
            cycle_length=2,
            block_length=parts if is_batched else _SINGLES_AT_ONCE,
            num_parallel_calls=2,
            deterministic=True,
        )

    def _encoded(self, element: Element) -> Element:
        """Return the element with its label encoded, after a callback saw ids."""
        encoding = self.source.encoding
        if encoding is None:
            return element
        ids = element[encoding.label_in(element)]
        (encoded,) = self._call("encode", [ids], [tf.float32])
        shape = ids.shape.concatenate(encoding.num_classes)
        return {**element, encoding.label: tf.ensure_shape(encoded, shape)}

    def bounds(self, step: int) -> npt.NDArray[np.int64]:
        """Return the bounds of each replica's rows of a step among this worker's rows."""
        layout, count = self.order.layout, self._parts
        is_padded, batch = self.options.remainder == "pad", step // self.options.echoing
        size: int = layout.batch_size if is_padded else layout.size(batch)
        ends = np.arange(count + 1) + self.source.worker * count
        ends = ends * size // layout.num_replicas
        bounds: npt.NDArray[np.int64] = ends - ends[0]
        return bounds

    # The graph calls the methods below by name.

    def _call(self, method: str, arguments: Sequence[Any], kinds: Sequence[Any]) -> Any:
        numbers = [self._number, *[tf.cast(one, tf.int64) for one in arguments]]
        return tf.numpy_function(_entry(method), numbers, list(kinds))

    def finish(self, step: Any) -> Any:
        """End the epoch that has this as its last step."""
        self.source.end(int(step))
        return np.int64(step)

    def make(self, step: Any) -> list[Any]:
        """Return the arrays of a step, and the bounds of its replicas' parts."""
        epoch, within = divmod(int(step), self.source.input_steps)
        batch = self.source.batch(epoch, within)
        flat: list[Any] = []
        for name in self.source.structure:
            array = batch[name]
            flat += array if isinstance(array, Ragged) else [array]
        return [*flat, self.bounds(within)]

    def make_group(self, begin: Any, end: Any) -> list[Any]:
        """Return each feature of some steps of an epoch, with equally many rows, as one array."""
        epoch, first = divmod(int(begin), self.source.input_steps)
        made = self.source.batches(epoch, range(first, first + int(end - begin)))
        return [np.stack([batch[name] for batch in made]) for name in self.source.structure]

    def make_examples(self, begin: Any, end: Any) -> list[Any]:
        """Return each feature's values as one vector, and each row's begin, end and shape."""
        epoch, first = divmod(int(begin), self.source.input_steps)
        steps = range(first, first + int(end - begin))
        rows = self.source.examples(epoch, *steps)
        flat: list[Any] = []
        for name, spec in self.source.structure.items():
            if name not in rows[0]:
                continue  # the mask
            kind = object if spec.dtype == "bytes" else None
            arrays = [np.asarray(row[name], kind) for row in rows]
            ends = np.cumsum([array.size for array in arrays])
            shapes = [[stop - a.size, stop, *a.shape] for a, stop in zip(arrays, ends, strict=True)]
            flat += [np.concatenate([a.reshape(-1) for a in arrays]), np.array(shapes, np.int64)]
        if self.options.batch_size is None:
            return [*flat, np.zeros(0, np.float32), np.zeros(0, np.int64)]
        within = first // self.options.echoing
        begun, ended = self.order.layout.rows(self.source.worker, step=within)
        mask = (np.arange(len(rows)) < ended - begun).astype(np.float32)
        return [*flat, mask, self.bounds(first)]

    def encode(self, ids: Any) -> Any:
        """Encode ids of the label as one-hot rows."""
        assert self.source.encoding is not None
        return self.source.encoding.encode(ids)


_lock = threading.Lock()
_calls = {"begun": 0, "ended": 0}


@functools.cache
def _entry(method: str) -> Callable[..., Any]:
    """Return a function that TensorFlow may keep: it refers to its input by number only."""

    def call(number: Any, *arguments: Any) -> Any:
        with _lock:
            _calls["begun"] += 1
        try:
            found = _inputs.get(int(number))
            if found is None:
                raise RuntimeError(
                    "input_fn: the dataset was garbage-collected while it was read. Keep a "
                    "reference to it, or to a dataset derived from it."
                )
            return getattr(found, method)(*arguments)
        finally:
            with _lock:
                _calls["ended"] += 1

    return call


# Functions run at exit in reverse order of registration. This call registers weakref's, which end
# the reading processes, before ours, so that they run after it.
weakref.finalize(TensorInput, lambda: None)


@atexit.register
def _wait_for_calls() -> None:
    """Wait at exit until no batch is being made.

    A thread of TensorFlow's that calls into an interpreter that has ended never returns.
    """
    still, deadline = 0, time.monotonic() + _EXIT_SECONDS
    while _calls["begun"] and still < _STILL_TURNS and time.monotonic() < deadline:
        begun = _calls["begun"]
        time.sleep(_TURN_SECONDS)
        still = still + 1 if begun == _calls["begun"] == _calls["ended"] else 0
    _clear_tensorflow_last()


def _clear_tensorflow_last() -> None:
    """Move TensorFlow's modules to the front of `sys.modules`, which Python clears from the end.

    Otherwise functions of datasets that outlive them print `Exception ignored in:
    AtomicFunction.__del__` (TensorFlow 2.16), for example if Keras was imported before TensorFlow.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] != "tensorflow"]:
        sys.modules[name] = sys.modules.pop(name)


def _kinds(spec: ArraySpec) -> list[tf.DType]:
    """Return the types of an array's values and, if it is ragged, of its row splits."""
    kind = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    return [kind, tf.int64] if spec.is_ragged else [kind]


def _tensor(left: Any, spec: ArraySpec) -> Any:
    """Return the next tensor with its known shape; a ragged one consumes two."""
    values = next(left)
    if not spec.is_ragged:
        return tf.ensure_shape(values, spec.shape)
    values = tf.ensure_shape(values, [None, *spec.shape[2:]])
    splits = tf.ensure_shape(next(left), [None if spec.shape[0] is None else spec.shape[0] + 1])
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _in_a_graph(callback: Any) -> Any:
    """Convert a callback with AutoGraph, on a copy of the element, which it may change."""
    if callback is None:
        return None
    return tf.function(lambda *element: callback(*tf.nest.map_structure(tf.identity, element)))
