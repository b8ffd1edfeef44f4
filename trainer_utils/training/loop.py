"""Train a Keras model under any strategy, like `model.fit` where that works.

    train = trainer_utils.distribute(strategy, uri, "train", batch_size=256, label="label")
    trainer_utils.fit(model, strategy, train, epochs=3, backup_dir="gs://bucket/run-7")

Keras 3's own `fit` fails under MultiWorkerMirroredStrategy (keras-team/keras#20585).
"""

import io
import itertools
import json
import os
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.core.errors import ConfigError, reading
from trainer_utils.core.settings import NumberRule, is_int
from trainer_utils.frameworks.tensorflow import is_chief, num_workers
from trainer_utils.ledger.input_ledger import InputLedger
from trainer_utils.ledger.recorder import InputRecorder
from trainer_utils.order import InputState
from trainer_utils.storage import exists, join, make_folder, read_bytes, write_atomically
from trainer_utils.training.model_steps import BatchSource, ModelSteps, keras_of
from trainer_utils.training.saved_input import check_counted

_FILE, _META = "training.npz", "training.json"


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
    backup_dir: str | os.PathLike[str] | None = None,
    backup_every: int | str = "epoch",
    verbose: int | str = "auto",
) -> Any:
    """Train a model on one worker or many, and resume a run that was killed.

    On one worker the losses equal `model.fit`'s to the last bit. (tf-keras's dropout draws other
    masks each time it traces a step.) Several workers give the losses of one worker, except for the
    order of additions. This needs equally many rows on all replicas: full batches,
    `remainder="drop"` or `"pad"`. For a smaller last batch, each replica's mean has the same
    weight, as in Keras.

    Args:
        model: a model of Keras 3 or tf-keras, made and compiled within `strategy.scope()`. Its
            `train_step` and `test_step` are run.
        strategy: the strategy of the model. None: taken from the model.
        train: a dataset of `distribute` or `input_fn`; without `backup_dir` any dataset. It yields
            `(features, label)` or `(features, label, weights)`. An epoch is one pass over it, or
            `steps_per_epoch`.
        validation: a dataset to evaluate after each epoch. With `remainder="pad"` the filler rows
            of its last batch count in no metric.
        epochs: the number of the last epoch, from 1.
        steps_per_epoch: the steps of an epoch. None: all of the dataset.
        validation_steps: the steps of a validation. None: all of the dataset.
        validation_freq: epochs between validations.
        callbacks: callbacks of the model's Keras, such as `trainer_utils.monitoring.StepTimer`.
            They run on every worker.
        backup_dir: a folder, local or in an object store, that all workers can reach. The run
            resumes from its contents: variables of model, optimizer and metrics, the input's token
            and the history, but not the state of callbacks. `tfx-shards ledger` reads the records
            of each step from it. None: nothing is saved.
        backup_every: `"epoch"`, or a number of steps.
        verbose: as in `model.fit`; of several workers, only the first prints.

    Returns:
        Keras's History, including the epochs before an interruption.

    Raises:
        ConfigError: a setting is invalid, the model is not of this strategy, or the backup is of
            another model or input.
        DatasetError: there is nothing to train on, or the backup is damaged.
    """
    if backup_every != "epoch" and not (is_int(backup_every) and int(backup_every) >= 1):
        raise ConfigError.of("backup_every", backup_every, allowed="'epoch', or a number of steps")
    NumberRule(1)("epochs", epochs)
    NumberRule(1)("validation_freq", validation_freq)
    for name, count in (
        ("steps_per_epoch", steps_per_epoch),
        ("validation_steps", validation_steps),
    ):
        if count is not None:
            NumberRule(1)(name, count)
    strategy = strategy or model.distribute_strategy
    steps, writes = ModelSteps(model, strategy), is_chief(strategy)
    folder = None if backup_dir is None else os.fspath(backup_dir)
    backup = _RunBackup(folder, every=backup_every, train=train, writes=writes)
    source = BatchSource(backup.begin(train, epochs), strategy, steps_per_epoch)
    shows, package = verbose != 0 and writes, keras_of(model).callbacks
    history = package.History()
    callback_list = package.CallbackList(
        [*callbacks, history],
        add_progbar=shows,
        model=model,
        verbose=(1 if verbose == "auto" else verbose) if shows else 0,
        epochs=epochs,
        steps=source.steps,
    )
    steps.build(source.peek("train"), source.element_spec)
    training = _Training(model, strategy, steps, source, backup, callback_list)
    if validation is not None:
        training.evaluation = _Evaluation(steps, validation, strategy, validation_steps)
        training.validation_freq = validation_freq
    model.stop_training = False
    callback_list.on_train_begin()
    backup.restore(steps)
    logs: dict[str, Any] = {}
    for epoch, logs in backup.history:
        history.on_epoch_end(epoch, logs)
    for epoch in range(backup.epoch, epochs):
        logs = training.train_epoch(epoch)
        if _agree_to_stop(model, strategy):
            break
    if hasattr(model.optimizer, "finalize_variable_values"):
        model.optimizer.finalize_variable_values(model.trainable_variables)
    callback_list.on_train_end(logs)
    return history


class _Training:
    """The epochs of a run.

    Args:
        model: the model, whose variables are built.
        strategy: its strategy.
        steps: the steps of the model.
        source: the batches to train on.
        backup: saves the run.
        callbacks: Keras's list of callbacks.

    Attributes:
        evaluation: the evaluation after an epoch, or None.
        validation_freq: epochs between evaluations.
    """

    def __init__(
        self,
        model: Any,
        strategy: tf.distribute.Strategy,
        steps: ModelSteps,
        source: BatchSource,
        backup: "_RunBackup",
        callbacks: Any,
    ) -> None:
        self._model, self._steps, self._source = model, steps, source
        self._backup, self._callbacks = backup, callbacks
        self._train_step = steps.make_train_function(source.element_spec)
        # Several workers must take the same number of steps.
        self._may_stop_within_epoch = num_workers(strategy) == 1
        self.evaluation: _Evaluation | None = None
        self.validation_freq = 1

    def train_epoch(self, epoch: int) -> dict[str, Any]:
        """Train for one epoch, or the rest of it after a resumed step; return its logs.

        Every worker calls this.
        """
        first_step = self._backup.step if epoch == self._backup.epoch else 0
        if not first_step:
            self._steps.reset()
        self._callbacks.on_epoch_begin(epoch)
        logs = self._steps.results(self._train_steps(epoch, first_step))
        if self.evaluation is not None and (epoch + 1) % self.validation_freq == 0:
            measured = self.evaluation.run(self._callbacks)
            logs |= {f"val_{name}": value for name, value in measured.items()}
        self._callbacks.on_epoch_end(epoch, logs)
        self._backup.end_epoch(epoch, logs, self._source, self._steps)
        return logs

    def _train_steps(self, epoch: int, first_step: int) -> dict[str, Any]:
        """Train on the batches of an epoch from a step on; return the logs of the last step."""
        logs: dict[str, Any] = {}
        for step, batch in self._source.epoch(first_step):
            self._callbacks.on_train_batch_begin(step)
            logs = self._train_step(batch)
            self._callbacks.on_train_batch_end(step, logs)
            self._backup.end_step(epoch, step, self._source, self._steps)
            if self._model.stop_training and self._may_stop_within_epoch:
                break
        return logs


def evaluate(
    model: Any,
    strategy: tf.distribute.Strategy | None,
    dataset: Any,
    *,
    steps: int | None = None,
    callbacks: Sequence[Any] = (),
) -> dict[str, float]:
    """Evaluate the loss and metrics of a model over a dataset, on one worker or many.

    Args:
        model: the model, as in `fit`.
        strategy: the strategy, as in `fit`.
        dataset: the dataset, as `validation` in `fit`.
        steps: the number of batches to take. None: all.
        callbacks: callbacks of the model's Keras.

    Returns:
        Each metric by its name, the same on all workers.

    Raises:
        ConfigError: as in `fit`.
        DatasetError: as in `fit`.
    """
    strategy = strategy or model.distribute_strategy
    called = keras_of(model).callbacks.CallbackList(list(callbacks), model=model, verbose=0)
    return _Evaluation(ModelSteps(model, strategy), dataset, strategy, steps).run(called)


class _Evaluation:
    """A dataset to evaluate a model on, any number of times."""

    def __init__(
        self, steps: ModelSteps, dataset: Any, strategy: tf.distribute.Strategy, count: int | None
    ) -> None:
        self._steps = steps
        self._source = BatchSource(dataset, strategy, count)
        pipeline = getattr(dataset, "input_pipeline", None)
        drops_padding = pipeline is not None and pipeline.yields_mask
        spec = self._source.element_spec
        self._test = steps.make_test_function(spec, drops_padding=drops_padding)

    def run(self, called: Any) -> dict[str, float]:
        """Return loss and metrics over the dataset, and run Keras's callbacks."""
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


def _agree_to_stop(model: Any, strategy: tf.distribute.Strategy) -> bool:
    """Return whether a callback of any worker wants to stop; all workers must call this."""
    if num_workers(strategy) == 1:
        return bool(model.stop_training)
    wants = tf.constant(int(model.stop_training))
    votes = strategy.run(lambda: tf.identity(wants))
    return int(strategy.reduce(tf.distribute.ReduceOp.SUM, votes, axis=None)) > 0


class _RunBackup:
    """The saved state of a run. Every worker calls all methods, and one writes.

    `training.npz` holds JSON and the bytes of each variable. numpy's format lacks bfloat16, and the
    only object store that TensorFlow's checkpoints reach is gs://.

    Attributes:
        epoch: the epoch to resume in, from 0.
        step: the step of that epoch to resume at, from 0.
        history: the number and the logs of each finished epoch.
    """

    def __init__(self, folder: str | None, *, every: int | str, train: Any, writes: bool) -> None:
        if folder is not None:
            check_counted(train, "train")
        self._folder, self._every, self._writes = folder, every, writes
        self._path = "" if folder is None else join(folder, _FILE)
        self._recorder = InputRecorder(folder)
        self._input_state: InputState | None = None
        self.epoch = self.step = 0
        self.history: list[tuple[int, dict[str, float]]] = []
        self._is_saved = folder is not None and exists(self._path)
        if self._is_saved:
            self._load()

    def begin(self, train: Any, epochs: int) -> Any:
        """Return the dataset from the resumed step on, and start to keep its ledger."""
        if self._is_saved and self.epoch < epochs:
            train = train.resumed_at(self._input_state)
        if self._folder is not None:
            self._recorder.begin(train)
        return train

    def restore(self, steps: ModelSteps) -> None:
        """Restore the saved variables, if any; raise if they are of another model or Keras."""
        if not self._is_saved:
            return
        if self._keras != steps.keras:
            rule = f"a backup of {steps.keras}, like the model, not {self._keras} in {self._path}"
            cure = "Resume with that version (TF_USE_LEGACY_KERAS), or pass another folder"
            raise ConfigError.of("backup_dir", self._keras, allowed=rule, advice=cure)
        variables = steps.variables()
        for current, saved in itertools.zip_longest(
            variables, self._arrays, fillvalue=("none", None)
        ):
            kinds = [
                (tuple(tensor.shape), tf.as_dtype(tensor.dtype))
                for _, tensor in (current, saved)
                if tensor is not None
            ]
            if kinds[1:] != kinds[:1]:
                rule = f"a backup of this model, whose {len(variables)} variables differ from the "
                rule += f"{len(self._arrays)} saved ones, first {current[0]}, saved as {saved[0]}"
                cure = f"They are {kinds}. Pass another folder, or remove it"
                raise ConfigError.of("backup_dir", self._path, allowed=rule, advice=cure)
        for (_, variable), (_, array) in zip(variables, self._arrays, strict=True):
            variable.assign(array)

    def end_step(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        """Count a step, and save the run if it is time."""
        if self._folder is None:
            return
        self._recorder.count_steps()
        if isinstance(self._every, int) and source.taken % self._every == 0:
            self._save(epoch, step + 1, source, steps)

    def end_epoch(
        self, epoch: int, logs: dict[str, float], source: BatchSource, steps: ModelSteps
    ) -> None:
        """Store the logs of an epoch, and save the run."""
        self.history.append((epoch, {name: float(value) for name, value in logs.items()}))
        self._save(epoch + 1, 0, source, steps)

    def _load(self) -> None:
        """Read the backup: variables, position of the input, history and ledger."""
        content = io.BytesIO(read_bytes(self._path))
        with (
            reading(
                self._path, "a complete file written by fit", advice="Remove it to start over."
            ),
            zipfile.ZipFile(content) as archive,
        ):
            meta = json.loads(archive.read(_META))
            self._arrays: list[tuple[str, npt.NDArray[Any]]] = []
            for number, (name, dtype, shape) in enumerate(meta["variables"]):
                kind = tf.as_dtype(dtype).as_numpy_dtype
                values = np.frombuffer(archive.read(str(number)), kind).reshape(shape)
                self._arrays.append((name, values))
            self.epoch, self.step = meta["epoch"], meta["step"]
            self.history = [(epoch, logs) for epoch, logs in meta["history"]]
            self._keras: str = meta["keras"]
            self._input_state = InputState.from_json(meta["input_state"])
            self._recorder.restore(InputLedger.from_json(meta["ledger"]))

    def _save(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        """Write the backup, on the worker that writes; all workers call this."""
        if self._folder is None:
            return
        self._recorder.save()
        # Every worker reads all variables, since reading some of them takes all workers.
        arrays = [
            (name, tf.convert_to_tensor(tensor).numpy()) for name, tensor in steps.variables()
        ]
        if not self._writes:
            return
        meta = {
            "epoch": epoch,
            "step": step,
            "input_state": source.state().to_json(),
            "history": self.history,
            "ledger": self._recorder.ledger.to_json(),
            "variables": [(name, array.dtype.name, array.shape) for name, array in arrays],
            "keras": steps.keras,
        }
        make_folder(self._folder)
        with (
            write_atomically(self._path, temporary_folder=self._folder, is_durable=True) as stream,
            zipfile.ZipFile(stream, "w") as archive,
        ):
            archive.writestr(_META, json.dumps(meta))
            for number, (_, array) in enumerate(arrays):
                archive.writestr(str(number), np.ascontiguousarray(array).tobytes())
