"""`fit`: trains a Keras model under any strategy, as `model.fit` does where that works.

    read = {"batch_size": 256, "features": "image", "label": "label", "image_size": (224, 224)}
    train = trainer_utils.distribute(strategy, uri, "train", **read)
    validation = trainer_utils.distribute(strategy, uri, "eval", shuffle=False, **read)
    trainer_utils.fit(model, strategy, train, validation, epochs=3, backup_dir="gs://bucket/run-7")

Keras 3's own `fit` fails under MultiWorkerMirroredStrategy (keras-team/keras#20585).
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.distribution import num_workers
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.settings import is_int
from trainer_utils.order.ledger import InputLedger
from trainer_utils.recording import InputRecorder
from trainer_utils.training.backup import Position, TrainingBackup
from trainer_utils.training.model_steps import ModelSteps, keras_of

__all__ = ["evaluate", "fit"]


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
        callbacks: of the model's Keras, `trainer_utils.StepTimer` among them; run on every worker.
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
    _check_settings(backup_every, epochs, steps_per_epoch, validation_steps, validation_freq)
    if backup_dir is not None and not hasattr(train, "resumed_at"):
        raise ConfigError(
            "train: expected the dataset of input_fn or distribute itself where there is a "
            f"backup_dir, got {train!r}. Change its examples in a post_batching_callback.",
            setting="train",
        )
    steps = ModelSteps(model, strategy)
    backup = TrainingBackup(backup_dir) if backup_dir is not None else None
    saved = backup.load() if backup is not None else None
    position = saved.position if saved is not None else None
    if position is not None and position.epoch < epochs:
        train = train.resumed_at(position.input_state)
    recorder = _begin_recording(backup_dir, train, position) if backup_dir is not None else None
    source = _Source(train, strategy, steps_per_epoch)
    history, called = _make_callbacks(model, strategy, callbacks, epochs, source.steps, verbose)

    steps.build(source.peek("train"), source.element_spec)
    train_step = steps.make_train_function(source.element_spec)
    check = (
        _Evaluation(steps, validation, strategy, validation_steps)
        if validation is not None
        else None
    )
    model.stop_training = False
    called.on_train_begin()
    first_epoch = first_step = 0
    if saved is not None and position is not None:
        saved.restore(steps.variables())
        first_epoch, first_step = position.epoch, position.step
        for epoch, logs in position.history:
            history.on_epoch_end(epoch, logs)

    def save(epoch: int, step: int) -> None:
        if backup is None or recorder is None:
            return
        recorder.save()
        reached = Position(
            epoch=epoch,
            step=step,
            input_state=source.state(),
            history=done,
            ledger=recorder.ledger.to_json(),
        )
        backup.save(reached, steps.variables(), writes=_is_first(strategy))

    done = list(position.history) if position is not None else []
    epoch_logs: dict[str, float] = done[-1][1] if done else {}
    for epoch in range(first_epoch, epochs):
        if not first_step:
            steps.reset()
        called.on_epoch_begin(epoch)
        logs = {}
        for step, batch in source.epoch(first_step):
            called.on_train_batch_begin(step)
            logs = train_step(batch)
            if recorder is not None:
                recorder.count_steps()
            called.on_train_batch_end(step, logs)
            if isinstance(backup_every, int) and source.taken % backup_every == 0:
                save(epoch, step + 1)
            if model.stop_training and num_workers(strategy) == 1:
                break
        first_step = 0
        epoch_logs = steps.results(logs)
        if check is not None and (epoch + 1) % validation_freq == 0:
            results = check.run(called)
            epoch_logs |= {f"val_{name}": value for name, value in results.items()}
        called.on_epoch_end(epoch, epoch_logs)
        done.append((epoch, {name: float(value) for name, value in epoch_logs.items()}))
        save(epoch + 1, 0)
        if _agree_to_stop(model, strategy):
            break
    if hasattr(model.optimizer, "finalize_variable_values"):
        model.optimizer.finalize_variable_values(model.trainable_variables)
    called.on_train_end(epoch_logs)
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
        self._source = _Source(dataset, strategy, count)
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


class _Source:
    """The batches of a dataset by epochs: passes over it, or so many steps each."""

    def __init__(
        self, dataset: Any, strategy: tf.distribute.Strategy, steps_per_epoch: int | None
    ) -> None:
        self._dataset = dataset
        is_distributed = isinstance(dataset, tf.distribute.DistributedDataset)
        self._batches = (
            dataset if is_distributed else strategy.experimental_distribute_dataset(dataset)
        )
        self.element_spec = self._batches.element_spec
        self._steps_per_epoch = steps_per_epoch
        passes = _cardinality(dataset)
        if steps_per_epoch is None and passes == tf.data.INFINITE_CARDINALITY:
            self._steps_per_epoch = getattr(dataset, "input_steps", None)
            if self._steps_per_epoch is None:
                raise ConfigError(
                    "steps_per_epoch: expected a number for a dataset without end, got None.",
                    setting="steps_per_epoch",
                )
        self.steps = self._steps_per_epoch or (passes if passes >= 0 else None)
        self.taken = 0
        self._iterator: Iterator[Any] | None = None

    def peek(self, name: str) -> Any:
        """The first batch, which `epoch` yields nevertheless.

        Raises:
            DatasetError: there is none.
        """
        batches = iter(self._batches)
        first = next(batches, None)
        if first is None:
            raise DatasetError(f"{name}: expected at least one batch, got none.")
        self._iterator = itertools.chain([first], batches)
        return first

    def epoch(self, first_step: int) -> Iterator[tuple[int, Any]]:
        """The batches of an epoch with their numbers, from that one on."""
        for step in itertools.count(first_step):
            if step == self._steps_per_epoch:
                return
            if self._iterator is None:
                self._iterator = iter(self._batches)
            batch = next(self._iterator, None)
            if batch is None:
                self._iterator = None
                if self._steps_per_epoch is None:
                    return
                self._iterator = iter(self._batches)
                batch = next(self._iterator, None)
                if batch is None:
                    return
            self.taken += 1
            yield step, batch

    def state(self) -> Any:
        """The token to go on from."""
        start, steps = self._dataset.input_start, self._dataset.input_steps
        return self._dataset.state(start.epoch * steps + start.step + self.taken)


def _begin_recording(folder: str, train: Any, position: Position | None) -> InputRecorder:
    """The ledger of a run, which goes on where the backup stops."""
    recorder = InputRecorder(folder)
    if position is not None and position.ledger is not None:
        recorder.restore(InputLedger.from_json(position.ledger))
    recorder.begin(train)
    return recorder


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
    shows = verbose != 0 and _is_first(strategy)
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


def _is_first(strategy: tf.distribute.Strategy) -> bool:
    resolver = strategy.cluster_resolver
    if num_workers(strategy) == 1 or resolver is None:
        return True
    has_chief = "chief" in resolver.cluster_spec().as_dict()
    return bool(resolver.task_type == "chief" if has_chief else resolver.task_id == 0)


def _masks_padding(dataset: Any) -> bool:
    """Whether the third part of a batch is 0 in the rows that fill it up, and nothing else."""
    pipeline = getattr(dataset, "input_pipeline", None)
    return pipeline is not None and pipeline.yields_mask


def _cardinality(dataset: Any) -> int:
    cardinality = getattr(dataset, "cardinality", tf.data.UNKNOWN_CARDINALITY)
    return int(cardinality() if callable(cardinality) else cardinality)


def _check_settings(
    backup_every: int | str,
    epochs: int,
    steps_per_epoch: int | None,
    validation_steps: int | None,
    validation_freq: int,
) -> None:
    for name, value, rule in (
        ("epochs", epochs, "an int of at least 1"),
        ("steps_per_epoch", steps_per_epoch, "an int of at least 1, or None"),
        ("validation_steps", validation_steps, "an int of at least 1, or None"),
        ("validation_freq", validation_freq, "an int of at least 1"),
        ("backup_every", backup_every, "'epoch', or an int of at least 1"),
    ):
        is_left = value is None and rule.endswith("None")
        is_word = name == "backup_every" and value == "epoch"
        if not is_left and not is_word and not (is_int(value) and int(value or 0) >= 1):
            raise ConfigError.of(name, value, allowed=rule)
