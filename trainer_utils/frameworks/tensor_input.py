"""Build the graph of an input pipeline, from step numbers to batches of tensors.

dataset = TensorInput(source, is_shared=False).dataset()
"""

import functools
from typing import Any

import tensorflow as tf

from trainer_utils.core.errors import ConfigError
from trainer_utils.frameworks.example_graph import ExampleGraph
from trainer_utils.frameworks.input_functions import (
    NEXT_EPOCH,
    Element,
    InputFunctions,
    kinds_of,
)
from trainer_utils.frameworks.read_timer import add_read_timer, read_time_of
from trainer_utils.reading.batch_iterator import BatchIterator
from trainer_utils.reading.elements import ArraySpec, call_hook
from trainer_utils.reading.input_metrics import observe_input
from trainer_utils.reading.input_stats import InputStats, StageCounters
from trainer_utils.reading.starvation import StarvationCheck
from trainer_utils.runtime.machine import usable_cores


class TensorInput:
    """The dataset of one input pipeline.

    Args:
        source: the batches.
        is_shared: whether the batches are already one worker's share.

    Attributes:
        stats: returns the stats of the input, with the waits of the dataset's consumer.

    Raises:
        ConfigError: other processes would have to run a callback of TensorFlow.
    """

    def __init__(self, source: BatchIterator, *, is_shared: bool) -> None:
        self.source, self.options = source, source.options
        self._is_shared = is_shared
        if self.options.processes and source.before is not None:
            rule = "0 with a pre_batching_callback, which TensorFlow runs"
            raise ConfigError.of("processes", self.options.processes, allowed=rule)
        source.report_empty()
        self._before, self._after = map(_in_a_graph, (source.before, source.after))
        self._functions = InputFunctions(source)
        self.stats = functools.partial(_stats_of, source.counters, self._functions.counter)
        # TensorFlow must not be called while garbage is collected.
        observe_input(self, source.spec, self.stats, is_read_at_end=False)
        self._functions.check = StarvationCheck(self.stats, parallel="processes=…")

    def dataset(self) -> tf.data.Dataset:
        """Return the dataset of all steps, with one element per replica and step.

        This object must be kept while the dataset is read.
        """
        # Our functions need no conversion by AutoGraph, which would take a second.
        return tf.autograph.experimental.do_not_convert(self._dataset)()

    def _dataset(self) -> tf.data.Dataset:
        """Build the dataset: the epochs, their batches, the callback, and the timer of reading."""
        start, steps, repeat = self.source.input_start, self.source.input_steps, self.options.repeat
        if repeat is False:
            epochs = tf.data.Dataset.from_tensors(tf.constant(NEXT_EPOCH, tf.int64))
            count = tf.data.UNKNOWN_CARDINALITY if start.step else steps * self._functions.num_parts
        else:
            last = tf.int64.max if repeat is True else max(int(repeat), start.epoch)
            epochs = tf.data.Dataset.range(start.epoch, last)
            count = ((last - start.epoch) * steps - start.step) * self._functions.num_parts
            count = tf.data.INFINITE_CARDINALITY if repeat is True else max(count, 0)
        numbers = epochs.flat_map(
            lambda epoch: tf.data.Dataset.from_tensor_slices(
                tf.ensure_shape(self._functions.call("groups", [epoch], [tf.int64])[0], [None, 2])
            )
        )
        is_single = self._before is not None or self.options.batch_size is None
        if is_single:
            dataset = ExampleGraph(self._functions, self._before).dataset(numbers)
        else:
            dataset = self._batches(numbers)
        if self._after is not None:
            keep = self.options.mask_feature
            dataset = dataset.map(
                lambda step, element: (step, call_hook(self._after, element, keep=keep)),
                num_parallel_calls=usable_cores(),
                deterministic=True,
            )
        ahead = dataset.prefetch(self.options.prefetch)
        dataset = add_read_timer(ahead, self._counted, counter=self._functions.counter)
        if count != tf.data.UNKNOWN_CARDINALITY:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        return dataset.with_options(self._tf_options())

    def _tf_options(self) -> tf.data.Options:
        """Return the options of the dataset."""
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
        return tf_options

    def _counted(self, step: tf.Tensor, element: Element) -> Element:
        """Return the arranged element without its step; the last one of an epoch ends the epoch."""
        if (weight := self.options.labels.sample_weight) in element:
            element = {**element, weight: tf.cast(element[weight], tf.float32)}
        element = self.source.arranged(element)
        done = tf.cond(
            tf.equal((step + 1) % max(self.source.input_steps, 1), 0),
            lambda: self._functions.call("finish", [step], [tf.int64])[0],
            lambda: step,
        )
        with tf.control_dependencies([done]):
            return tf.nest.map_structure(tf.identity, element, expand_composites=True)

    def _batches(self, numbers: tf.data.Dataset) -> tf.data.Dataset:
        """Return pairs of a step and its tensors by name, one for each replica."""
        functions, structure = self._functions, self.source.structure
        kinds = [kind for spec in structure.values() for kind in kinds_of(spec)]

        def read_group(place: tf.Tensor) -> Element:
            values = functions.call("make_group", [place[0], place[1]], kinds)
            tensors = {
                name: tf.ensure_shape(value, [None, *spec.shape])
                for (name, spec), value in zip(structure.items(), values, strict=True)
            }
            return tf.range(place[0], place[1]), tensors

        def read(place: tf.Tensor) -> Element:
            *values, bounds = functions.call("make", [place[0]], [*kinds, tf.int64])
            left = iter(values)
            tensors = {name: _tensor(left, spec) for name, spec in structure.items()}
            return (place[0], tensors) if functions.num_parts == 1 else (place[0], tensors, bounds)

        def divide(step: tf.Tensor, tensors: dict[str, Any], bounds: tf.Tensor) -> tf.data.Dataset:
            def part(number: tf.Tensor) -> Element:
                begin, end = bounds[number], bounds[number + 1]
                cut = {
                    name: functions.with_rows(value[begin:end]) for name, value in tensors.items()
                }
                return functions.last_part(step, number), cut

            return tf.data.Dataset.range(functions.num_parts).map(part)

        is_group = functions.steps_at_once > 1
        calls = max(usable_cores(), self.options.processes)
        parallel = {"num_parallel_calls": calls, "deterministic": True}
        dataset = numbers.map(read_group if is_group else read, **parallel)
        if is_group:
            return dataset.flat_map(lambda *group: tf.data.Dataset.from_tensor_slices(group))
        return dataset if functions.num_parts == 1 else dataset.flat_map(divide)


def _stats_of(counters: StageCounters, counter: str) -> InputStats:
    """Return the stats of an input, with the waits that a counter of TensorFlow measures."""
    waited = read_time_of(counter)
    return counters.stats() + InputStats(
        batches=round(waited.batches),
        wait_for_data_seconds=waited.seconds,
        wait_for_trainer_seconds=waited.between,
    )


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
