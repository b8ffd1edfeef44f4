"""`fit`: trains a Keras model under any strategy, as `model.fit` does where that works.

    read = {"batch_size": 256, "features": "image", "label": "label", "image_size": (224, 224)}
    train = trainer_utils.distribute(strategy, uri, "train", **read)
    validation = trainer_utils.distribute(strategy, uri, "eval", shuffle=False, **read)
    trainer_utils.fit(model, strategy, train, validation, epochs=3, backup_dir="gs://bucket/run-7")

Keras 3's own `fit` fails under MultiWorkerMirroredStrategy (keras-team/keras#20585).
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.format.settings import is_int
from trainer_utils.frameworks.tensorflow import is_chief, num_workers
from trainer_utils.training.backup import RunBackup
from trainer_utils.training.batch_source import BatchSource
from trainer_utils.training.model_steps import ModelSteps, keras_of


def fit(
    model: Any,
    strategy: tf.distribute.Strategy | None,
    train: Any,
    validation: Any = None,
    *,
    epochs: int = 1,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_freq: int = 1,
    callbacks: Sequence[Any] = (),
    backup_dir: str | None = None,
    backup_every: int | str = "epoch",
    verbose: int | str = "auto",
) -> Any:
    """Trains a model on one worker or many, and goes on where a killed run stopped.

    On one worker the losses are those of `model.fit`, to the last bit (tf-keras's dropout
    draws other masks with each time that it traces a step). On several they are those
    of one, but for the order in which numbers are added, where all replicas get equally many rows:
    full batches, `remainder="drop"` or `"pad"`. A smaller last batch weighs a replica's mean as
    Keras does, whatever rows it has.

    Args:
        model: of Keras 3 or tf-keras, made and compiled within `strategy.scope()`. Its own
            `train_step` and `test_step` are run.
        strategy: of the model. None: the model's.
        train: of `distribute` or `input_fn`; without `backup_dir` any dataset. It yields
            `(features, label)` or `(features, label, weights)`. An epoch is one pass over it, or
            `steps_per_epoch`.
        validation: the same, after each epoch. With `remainder="pad"` rows that fill up the last
            batch count nowhere, in no metric.
        epochs: the last one's number, from 1.
        steps_per_epoch, validation_steps: None: all of the dataset.
        validation_freq: epochs between validations.
        callbacks: of the model's Keras, `trainer_utils.monitoring.StepTimer` among them; run on
            every worker.
        backup_dir: a folder, local or of an object store, which all workers can reach. What is in
            it, variables of model, optimizer and metrics, the input's token and the history, is
            gone on from, and `tfx-shards ledger` tells from it the records of each step; None:
            nothing is saved. The state of callbacks is not in it.
        backup_every: `"epoch"`, or a number of steps.
        verbose: as of `model.fit`; several workers: of the first one alone.

    Returns:
        Keras's History, with the epochs before an interruption too.

    Raises:
        ConfigError: a setting is not allowed, the model is not of this strategy, or the backup is
            of another model or input.
        DatasetError: there is nothing to train on, or the backup is damaged.
    """
    strategy = strategy or model.distribute_strategy
    _check_settings(
        backup_every,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        validation_steps=validation_steps,
        validation_freq=validation_freq,
    )
    steps = ModelSteps(model, strategy)
    writes = is_chief(strategy)
    backup = RunBackup(backup_dir, every=backup_every, train=train, writes=writes)
    train = backup.begin(train, epochs)
    source = BatchSource(train, strategy, steps_per_epoch)
    history, called = _make_callbacks(model, strategy, callbacks, epochs, source.steps, verbose)
    steps.build(source.peek("train"), source.element_spec)
    run = _Run(model, strategy, steps, source, called, backup)
    check = None
    if validation is not None:
        check = _Evaluation(steps, validation, strategy, validation_steps)
    model.stop_training = False
    called.on_train_begin()
    backup.restore(steps)
    logs: dict[str, float] = {}
    for epoch, logs in backup.history:
        history.on_epoch_end(epoch, logs)
    for epoch in range(backup.epoch, epochs):
        logs = run.train_epoch(epoch, backup.step if epoch == backup.epoch else 0)
        if check is not None and (epoch + 1) % validation_freq == 0:
            logs |= {f"val_{name}": value for name, value in check.run(called).items()}
        called.on_epoch_end(epoch, logs)
        backup.end_epoch(epoch, logs, source, steps)
        if _agree_to_stop(model, strategy):
            break
    if hasattr(model.optimizer, "finalize_variable_values"):
        model.optimizer.finalize_variable_values(model.trainable_variables)
    called.on_train_end(logs)
    return history


def evaluate(
    model: Any,
    strategy: tf.distribute.Strategy | None,
    dataset: Any,
    *,
    steps: int | None = None,
    callbacks: Sequence[Any] = (),
) -> dict[str, float]:
    """The loss and metrics of a model over a dataset, on one worker or many.

    Args:
        model, strategy: as `fit` takes them.
        dataset: as `fit` takes `validation`.
        steps: batches to take. None: all.
        callbacks: of the model's Keras.

    Returns:
        Each metric by its name, the same on all workers.

    Raises:
        ConfigError, DatasetError: as `fit`.
    """
    strategy = strategy or model.distribute_strategy
    called = keras_of(model).callbacks.CallbackList(list(callbacks), model=model, verbose=0)
    return _Evaluation(ModelSteps(model, strategy), dataset, strategy, steps).run(called)


class _Evaluation:
    """A dataset to evaluate a model on, as often as one likes."""

    def __init__(
        self, steps: ModelSteps, dataset: Any, strategy: tf.distribute.Strategy, count: int | None
    ) -> None:
        self._steps = steps
        self._source = BatchSource(dataset, strategy, count)
        self._test = steps.make_test_function(
            self._source.element_spec, drops_padding=_masks_padding(dataset)
        )

    def run(self, called: Any) -> dict[str, float]:
        """Loss and metrics over the dataset, and tells Keras's list of callbacks.

        Raises:
            DatasetError: it is empty.
        """
        self._steps.build(self._source.peek("validation"), self._source.element_spec)
        called.on_test_begin()
        self._steps.reset()
        logs: dict[str, Any] = {}
        for step, batch in self._source.epoch(0):
            called.on_test_batch_begin(step)
            logs = self._test(batch)
            called.on_test_batch_end(step, logs)
        results = self._steps.results(logs)
        called.on_test_end(results)
        return results


class _Run:
    """The steps of a model over its training data."""

    def __init__(
        self,
        model: Any,
        strategy: tf.distribute.Strategy,
        steps: ModelSteps,
        source: BatchSource,
        called: Any,
        backup: RunBackup,
    ) -> None:
        self._model, self._steps, self._source = model, steps, source
        self._called, self._backup = called, backup
        self._is_alone = num_workers(strategy) == 1
        self._train = steps.make_train_function(source.element_spec)

    def train_epoch(self, epoch: int, first_step: int) -> dict[str, float]:
        """Loss and metrics of an epoch, from one of its steps on; tells Keras's callbacks."""
        if not first_step:
            self._steps.reset()
        self._called.on_epoch_begin(epoch)
        logs: dict[str, Any] = {}
        for step, batch in self._source.epoch(first_step):
            self._called.on_train_batch_begin(step)
            logs = self._train(batch)
            self._called.on_train_batch_end(step, logs)
            self._backup.end_step(epoch, step, self._source, self._steps)
            if self._model.stop_training and self._is_alone:
                break
        return self._steps.results(logs)


def _make_callbacks(
    model: Any,
    strategy: tf.distribute.Strategy,
    callbacks: Sequence[Any],
    epochs: int,
    steps: int | None,
    verbose: int | str,
) -> tuple[Any, Any]:
    """Keras's History, and the list of all callbacks, which it is one of."""
    package = keras_of(model).callbacks
    history = package.History()
    shows = verbose != 0 and is_chief(strategy)
    return history, package.CallbackList(
        [*callbacks, history],
        add_progbar=shows,
        model=model,
        verbose=(1 if verbose == "auto" else verbose) if shows else 0,
        epochs=epochs,
        steps=steps,
    )


def _agree_to_stop(model: Any, strategy: tf.distribute.Strategy) -> bool:
    """Whether a callback of any worker wants training to end; all have to ask."""
    if num_workers(strategy) == 1:
        return bool(model.stop_training)
    wants = tf.constant(int(model.stop_training))
    votes = strategy.run(lambda: tf.identity(wants))
    return int(strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None)) > 0


def _masks_padding(dataset: Any) -> bool:
    """Whether the third part of a batch is 0 in the rows that fill it up, and nothing else."""
    pipeline = getattr(dataset, "input_pipeline", None)
    return pipeline is not None and pipeline.yields_mask


def _check_settings(backup_every: int | str, **counts: int | None) -> None:
    if backup_every != "epoch" and not (is_int(backup_every) and int(backup_every) >= 1):
        raise ConfigError.of("backup_every", backup_every, allowed="'epoch', or a number of steps")
    for name, value in counts.items():
        may_lack = name in ("steps_per_epoch", "validation_steps")
        if not (value is None and may_lack) and not (is_int(value) and int(value or 0) >= 1):
            rule = "an int of at least 1" + ", or None" * may_lack
            raise ConfigError.of(name, value, allowed=rule)
