"""Run a Keras model's steps under a strategy, on batches by epoch.

The model's `train_step` and `test_step` are run, in Keras 3 and in tf-keras. Only Keras 3's way of
reading values from several workers' replicas is avoided, since it fails (keras#20585).
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.frameworks.tensorflow import num_workers

Batch: TypeAlias = Any  # (features, label) or (features, label, weights), distributed or not
Logs: TypeAlias = dict[str, Any]
StepFunction: TypeAlias = Callable[[Batch], Logs]


def keras_of(model: Any) -> Any:
    """Return the package of a model: Keras 3 or tf-keras."""
    for name in ("keras", "tf_keras"):
        package = sys.modules.get(name)
        if package is not None and isinstance(model, package.Model):
            return package
    raise ConfigError.of("model", model, allowed="a compiled model of Keras 3 or of tf-keras")


class ModelSteps:
    """The train and test steps of a model that was compiled within the strategy's scope."""

    def __init__(self, model: Any, strategy: tf.distribute.Strategy) -> None:
        self._keras = keras_of(model)
        self._model = model
        self._strategy = strategy
        self._is_built = False
        self._is_keras_3 = hasattr(self._keras, "StatelessScope")
        if getattr(model, "optimizer", None) is None:
            rule = "a compiled one, with an optimizer"
            cure = "Call model.compile(optimizer=…, loss=…) within strategy.scope()"
            raise ConfigError.of("model", model, allowed=rule, advice=cure)
        if model.distribute_strategy is not strategy:
            rule = f"that of the model, {model.distribute_strategy!r}"
            cure = "Make and compile the model within strategy.scope()"
            raise ConfigError.of("strategy", strategy, allowed=rule, advice=cure)
        # Keras 3 compiles the step of all replicas together, tf-keras that of each replica. No
        # compiler supports the collective operations of several workers.
        self._compiles = bool(model.jit_compile) and num_workers(strategy) == 1

    @property
    def keras(self) -> str:
        """Name of the model's package: `keras` or `tf_keras`."""
        return str(self._keras.__name__)

    def build(self, batch: Batch, element_spec: Any) -> None:
        """Create all variables of model, metrics and optimizer, within the strategy's scope.

        No state is changed. Keras would create them at the first step, too late to restore them.
        """
        if self._is_built:
            return
        self._is_built = True
        results = self._strategy.experimental_local_results
        first = tf.nest.map_structure(lambda part: results(part)[0], batch)
        parts = first if isinstance(first, tuple) else (first,)
        features, label, weights = (*parts, None, None)[:3]
        model = self._model
        with self._strategy.scope():
            if self._is_keras_3:
                with self._keras.StatelessScope():
                    predicted = model(features, training=False)
                    model.compute_loss(features, label, predicted, weights, training=False)
                    model.compute_metrics(features, label, predicted, weights)
            elif not model.built:
                model(features, training=False)
            if hasattr(model.optimizer, "build"):
                model.optimizer.build(model.trainable_variables)
        if not self._is_keras_3:  # tf-keras creates metrics only while tracing a step
            run = _as_it_is(lambda batch: self._strategy.run(model.test_step, args=(batch,)))
            tf.function(run, input_signature=[element_spec]).get_concrete_function()

    def make_train_function(self, element_spec: Any) -> StepFunction:
        """Return a function that trains on a batch and returns the logs of this process."""
        return self._function(self._model.train_step, element_spec)

    def make_test_function(self, element_spec: Any, *, drops_padding: bool) -> StepFunction:
        """Return a function that evaluates a batch and returns the logs of this process.

        With `drops_padding` the third part of a batch is a mask, `(batch,) float32`. Rows of 0 are
        dropped, since Keras's unweighted metrics would count them.
        """
        if drops_padding:
            return self._function(self._step_without_padding, element_spec, compiles=False)
        return self._function(self._model.test_step, element_spec)

    def reset(self) -> None:
        """Reset the metrics before an epoch or an evaluation."""
        self._model.reset_metrics()

    def results(self, logs: Logs) -> dict[str, float]:
        """Return the metrics so far over all replicas; all workers must call this.

        A model with a custom `train_step` may return logs that are not metrics. Then the logs of
        the last step are returned.
        """
        measured = dict(self._model.get_metrics_result())
        results = measured if set(measured) >= set(logs) else logs
        return {n: float(v) if getattr(v, "shape", ()) == () else v for n, v in results.items()}

    def variables(self) -> list[tuple[str, Any]]:
        """Return the names and variables that training changes, in a fixed order."""
        model = self._model
        optimizer = model.optimizer.variables
        groups = [model.variables, optimizer() if callable(optimizer) else optimizer]
        groups += [metric.variables for metric in model.metrics]
        if self._is_keras_3:
            groups.append(model.metrics_variables)
        by_id = {id(variable): variable for group in groups for variable in group}
        return [
            (str(getattr(variable, "path", variable.name)), variable) for variable in by_id.values()
        ]

    def _function(
        self, step: Callable[[Any], Logs], element_spec: Any, *, compiles: bool = True
    ) -> StepFunction:
        """Return a step on all replicas as a function, compiled by XLA if the model asks for it."""
        compiles = compiles and self._compiles
        eager = bool(self._model.run_eagerly)
        if compiles and not eager and not self._is_keras_3:
            step = tf.function(step, jit_compile=True, reduce_retracing=True)

        def run(batch: Batch) -> Logs:
            return self._mean(self._strategy.run(step, args=(batch,)))

        if eager:
            return run
        # Use the signature of all batches, so that the smaller last one is not traced again.
        compiles = compiles and self._is_keras_3
        function: StepFunction = tf.function(
            _as_it_is(run), input_signature=[element_spec], jit_compile=True if compiles else None
        )
        return function

    def _mean(self, logs: Mapping[str, Any]) -> Logs:
        def mean(value: Any) -> Any:
            parts = self._strategy.experimental_local_results(value)
            return parts[0] if len(parts) == 1 else tf.reduce_mean(tf.stack(parts), axis=0)

        return {name: tf.nest.map_structure(mean, value) for name, value in logs.items()}

    def _step_without_padding(self, batch: Batch) -> Logs:
        """Evaluate the rows of a batch that have a weight; skip a replica without such rows."""
        features, label, mask = batch
        keep = tf.cast(mask, tf.bool)
        kept = tf.nest.map_structure(lambda part: tf.boolean_mask(part, keep), (features, label))
        if not self._is_keras_3:  # tf-keras merges metrics over replicas, which tf.cond forbids
            return dict(self._model.test_step(kept))
        logs: Logs = {}

        def test() -> Logs:
            logs.update(self._model.test_step(kept))
            return dict(logs)

        def skip() -> Logs:  # oneDNN's bfloat16 convolutions reject an empty batch
            if tf.executing_eagerly():
                return dict(self._model.get_metrics_result())
            zeros = tf.nest.map_structure(lambda value: tf.zeros(value.shape, value.dtype), logs)
            return dict(zeros)

        return dict(tf.cond(tf.reduce_any(keep), test, skip))


class BatchSource:
    """The batches of a dataset by epoch: passes over it, or `steps_per_epoch` steps each."""

    def __init__(
        self, dataset: Any, strategy: tf.distribute.Strategy, steps_per_epoch: int | None
    ) -> None:
        self._dataset = self._batches = dataset
        if not isinstance(dataset, tf.distribute.DistributedDataset):
            self._batches = strategy.experimental_distribute_dataset(dataset)
        self.element_spec = self._batches.element_spec
        cardinality = getattr(dataset, "cardinality", tf.data.UNKNOWN_CARDINALITY)
        passes = int(cardinality() if callable(cardinality) else cardinality)
        if steps_per_epoch is None and passes == tf.data.INFINITE_CARDINALITY:
            steps_per_epoch = getattr(dataset, "input_steps", None)
            if steps_per_epoch is None:
                rule = "a number for a dataset without end"
                raise ConfigError.of("steps_per_epoch", None, allowed=rule)
        self._steps_per_epoch = steps_per_epoch
        self.steps = steps_per_epoch or (passes if passes >= 0 else None)
        self.taken = 0
        self._iterator: Iterator[Any] | None = None

    def peek(self, name: str) -> Any:
        """Return the first batch; `epoch` will still yield it."""
        batches = iter(self._batches)
        first = next(batches, None)
        if first is None:
            raise DatasetError(f"{name}: expected at least one batch, got none.")
        self._iterator = itertools.chain([first], batches)
        return first

    def epoch(self, first_step: int) -> Iterator[tuple[int, Any]]:
        """Yield the batches of an epoch with their numbers, from `first_step` on."""
        for step in itertools.count(first_step):
            batch = None if step == self._steps_per_epoch else self._next()
            if batch is None:
                return
            self.taken += 1
            yield step, batch

    def _next(self) -> Any:
        """Return the next batch, or None at the end of a pass.

        If `steps_per_epoch` is set, the next pass begins instead.
        """
        for _ in range(2):
            self._iterator = self._iterator or iter(self._batches)
            if (batch := next(self._iterator, None)) is not None:
                return batch
            self._iterator = None
            if self._steps_per_epoch is None:
                break
        return None

    def state(self) -> Any:
        """Return the token to resume from."""
        start, steps = self._dataset.input_start, self._dataset.input_steps
        return self._dataset.state(start.epoch * steps + start.step + self.taken)


def _as_it_is(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that AutoGraph does not convert, since it is a graph already."""
    left: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert(function)
    return left
