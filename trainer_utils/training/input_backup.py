"""Save the position of an input next to its model, as Keras's `BackupAndRestore` saves the model.

model.fit(train, epochs=9, steps_per_epoch=train.input_steps, callbacks=[
    keras.callbacks.BackupAndRestore(backup, save_freq=500),
    trainer_utils.InputBackup(train, backup, save_freq=500),     # after it
])

Keras may have any backend. TensorFlow is imported only by Keras.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.ledger.recorder import InputRecorder
from trainer_utils.storage import join, write_text
from trainer_utils.training.saved_input import (
    STATE_FILE,
    SavedInput,
    check_counted,
    read_saved_input,
)

_KERAS = ("tf_keras", "keras")  # the packages that a model may belong to


def _callback_class() -> Any:
    """Return the base class of Keras's callbacks, which the other Keras's models accept too."""
    is_legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    for package in _KERAS if is_legacy else reversed(_KERAS):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"{package}.callbacks").Callback
    raise ImportError("InputBackup needs Keras: run pip install keras, and one of its backends.")


class InputBackup(_callback_class()):  # type: ignore[misc]
    """A callback that saves the input's token when Keras's `BackupAndRestore` saves the model.

    List it after `BackupAndRestore`, with the same folder and the same `save_freq`, and make the
    dataset with `state=load_state(backup_dir)`. If `save_freq` is a number and the dataset is one
    of `input_fn`, make it with `repeat=epochs` and pass `steps_per_epoch` to `fit`; one of
    `keras_dataset` needs neither. Keras 3 then starts the interrupted epoch from its first step,
    while the input continues within its own; `fit` stops after as many steps as without the
    interruption. It also leaves the run's ledger in the folder, for `tfx-shards ledger`.

    Training is refused, before its first step, if the input and the model resume at different
    steps. This happens when the backup was written under the other Keras (tf-keras, Keras 3), which
    then restores nothing.

    Args:
        dataset: the dataset returned by `input_fn`, `distribute` or `keras_dataset`.
        backup_dir: the folder, the same on all workers.
        save_freq: `"epoch"`, or a number of batches.

    Raises:
        ConfigError: the dataset has no position, or `save_freq` is invalid.
    """

    def __init__(
        self, dataset: Any, backup_dir: str | os.PathLike[str], *, save_freq: str | int = "epoch"
    ) -> None:
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ConfigError.of("save_freq", save_freq, allowed="'epoch' or a number")
        check_counted(dataset)
        self._dataset = dataset
        self._folder = backup_dir = os.fspath(backup_dir)
        self._save_freq = save_freq
        start = dataset.input_start
        self._step = start.epoch * dataset.input_steps + start.step  # counted over all epochs
        self._since_saved = 0
        self._first_batch = self._last_batch = 0
        self._recorder = InputRecorder(backup_dir)
        self._saved = read_saved_input(backup_dir)
        self._package: str | None = (
            None  # of the model; to read `self.model` costs JAX a step's time
        )
        self._is_begun = False
        if self._saved.ledger is not None and self._resumes_as_saved:
            self._recorder.restore(self._saved.ledger)

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Raise if the model was not restored, or Keras would cut the first epoch short."""
        if self._step % max(self._dataset.input_steps, 1) and not self.params.get("steps"):
            rule = f"{self._dataset.input_steps} in fit, and repeat=epochs in input_fn, since the "
            rule += "input resumes within an epoch"
            raise ConfigError.of("steps_per_epoch", None, allowed=rule)
        self._package = _package_of(self.model)
        self._check_restored()
        self._is_begun = False

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Set the dataset's epoch."""
        if self._dataset.input_steps:
            self._dataset.input_pipeline.next_epoch = self._dataset.state(self._step).epoch
        if not self._is_begun:
            self._recorder.begin(self._dataset)
            self._is_begun = True

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Keep the first batch of an execution, which may run several steps."""
        self._first_batch = int(batch)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Count the steps, save when `BackupAndRestore` does, and stop when the input ends."""
        last = int(batch)
        # The last execution before the end of the input may run fewer steps than its number
        # implies.
        ran = min(last - self._first_batch + 1, self._steps_left)
        self._step += ran
        self._recorder.count_steps(ran)
        if self._package == "tf_keras":
            self._since_saved += 1
        else:  # Keras 3 may count n - 1 for an epoch's first n steps
            is_new = last <= self._last_batch
            self._since_saved += last + 1 if is_new else last - self._last_batch
        self._last_batch = last
        if isinstance(self._save_freq, int) and self._since_saved >= self._save_freq:
            self._since_saved = 0
            self._save()
        if not self._steps_left:  # Keras 3 may count more epochs after a second restore
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Save if `save_freq` is `"epoch"`."""
        self._last_batch = 0
        if self._save_freq == "epoch":
            self._save()

    def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
        """Save the ledger of all steps, also if `BackupAndRestore` removed its folder."""
        if self._is_begun:
            self._recorder.save()

    # tf-keras calls these methods on each callback, including callbacks of Keras 3.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    @property
    def _steps_left(self) -> int:
        """Number of steps until an iterator over the dataset, or `fit`, ends."""
        if hasattr(self._dataset, "steps_before"):  # of `keras_dataset`, whose end is that of `fit`
            total = self._dataset.steps_before(self.params["epochs"], self.params.get("steps"))
            return int(total) - int(self._step)
        repeat = self._dataset.input_pipeline.options.repeat
        steps = int(self._dataset.input_steps)
        if repeat is False:
            return steps - int(self._step) % max(steps, 1)
        return sys.maxsize if repeat is True else int(repeat) * steps - int(self._step)

    @property
    def _resumes_as_saved(self) -> bool:
        """Whether the dataset starts at the token in the folder."""
        start, saved = self._dataset.input_start, self._saved.state
        return saved is not None and (saved.epoch, saved.step) == (start.epoch, start.step)

    def _check_restored(self) -> None:
        """Raise if either the model or the input was restored, but not both."""
        saved, updates = self._saved, _updates_of(self.model)
        if saved.state is None or not saved.updates or updates is None:
            return
        path = join(self._folder, STATE_FILE)
        steps = self._dataset.input_steps
        saved_step = saved.state.epoch * steps + saved.state.step
        if not self._resumes_as_saved:
            if updates == saved.updates:
                rule = f"that of step {saved_step}, at which the model resumes ({path})"
                cure = f"Pass state=trainer_utils.load_state({self._folder!r})"
                token = self._dataset.state(self._step).to_json()
                raise ConfigError.of("state", token, allowed=rule, advice=cure)
            return
        if updates == saved.updates:
            return
        package = self._package
        message = (
            f"backup_dir: the input resumes at step {saved_step} of the run, when the model had "
            f"been updated {saved.updates} times ({path}), but this model has been updated "
            f"{updates} times. "
        )
        if package != saved.package:
            message += (
                f"The model was saved by {saved.package} and this one is a model of {package}, "
                f"which cannot restore it. Train with {saved.package} (TF_USE_LEGACY_KERAS), or "
                "begin again in an empty folder."
            )
        elif updates < saved.updates:
            message += (
                "List BackupAndRestore before InputBackup, with the same folder and save_freq. If "
                "its files are gone, begin again in an empty folder."
            )
        else:
            step = saved_step + updates - saved.updates
            message += (
                "The run was killed after BackupAndRestore had saved and before InputBackup had. "
                f"Pass state={self._dataset.state(step).to_json()!r}."
            )
        raise ConfigError(message, setting="backup_dir", value=self._folder)

    def _save(self) -> None:
        self._recorder.save()
        content = SavedInput(
            self._dataset.state(self._step),
            self._recorder.ledger,
            _updates_of(self.model),
            self._package,
        )
        path = join(self._folder, STATE_FILE)
        write_text(path, content.to_json(), temporary_folder=self._folder)


def _package_of(model: Any) -> str | None:
    """Return the name of a model's package, `keras` or `tf_keras`, or None for another."""
    for name in _KERAS:
        package = sys.modules.get(name)
        if package is not None and isinstance(model, package.Model):
            return name
    return None


def _updates_of(model: Any) -> int | None:
    """Return the number of steps that a model's optimizer counted, or None if it does not count."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # a LossScaleOptimizer's
    # Keras 3 divides `iterations` by gradient_accumulation_steps; the variable counts each step.
    iterations = getattr(optimizer, "_iterations", None)
    iterations = getattr(optimizer, "iterations", None) if iterations is None else iterations
    return None if iterations is None else int(iterations.numpy())
