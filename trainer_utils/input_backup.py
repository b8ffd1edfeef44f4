"""Save the position of an input next to its model: with Keras or with `tf.train.Checkpoint`.

model.fit(train, epochs=9, steps_per_epoch=train.input_steps, callbacks=[
    keras.callbacks.BackupAndRestore(backup, save_freq=500),
    trainer_utils.InputBackup(train, backup, save_freq=500),     # after it
])
"""

import dataclasses
import json
import sys
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.order import InputState
from trainer_utils.order.ledger import InputLedger
from trainer_utils.recording import InputRecorder
from trainer_utils.storage import exists, join, read_text, write_text

STATE_FILE = "input_state.json"
_KERAS = ("tf_keras", "keras")  # the packages that a model may belong to


def load_state(folder: str) -> InputState | None:
    """Return the token that `InputBackup` saved in a folder, or None before the first save."""
    return _read(folder).state


class InputBackup(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """A callback that saves the input's token when Keras's `BackupAndRestore` saves the model.

    List it after `BackupAndRestore`, with the same folder and the same `save_freq`. If `save_freq`
    is a number, make the dataset with `repeat=epochs` and pass `steps_per_epoch` to `fit`. Keras 3
    then starts the interrupted epoch from its first step, while the input continues within its own.
    It also leaves the run's ledger in the folder, for `tfx-shards ledger`.

    Training is refused, before its first step, if the input and the model resume at different
    steps. This happens when the backup was written under the other Keras (tf-keras, Keras 3), which
    then restores nothing.

    Args:
        dataset: the dataset returned by `input_fn` or `distribute`.
        backup_dir: the folder, the same on all workers.
        save_freq: `"epoch"`, or a number of batches.

    Raises:
        ConfigError: the dataset has no position, or `save_freq` is invalid.
    """

    def __init__(self, dataset: Any, backup_dir: str, *, save_freq: str | int = "epoch") -> None:
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ConfigError.of("save_freq", save_freq, allowed="'epoch' or a number")
        check_counted(dataset)
        self._dataset = dataset
        self._folder = backup_dir
        self._save_freq = save_freq
        start = dataset.input_start
        self._step = start.epoch * dataset.input_steps + start.step  # counted over all epochs
        self._since_saved = 0
        self._first_batch = self._last_batch = 0
        self._recorder = InputRecorder(backup_dir)
        self._saved = _read(backup_dir)
        self._is_begun = False
        if self._saved.ledger is not None and self._resumes_as_saved:
            self._recorder.restore(self._saved.ledger)

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Raise if the model was not restored, or Keras would cut the first epoch short."""
        if self._step % max(self._dataset.input_steps, 1) and not self.params.get("steps"):
            rule = f"{self._dataset.input_steps} in fit, and repeat=epochs in input_fn, since the "
            rule += "input resumes within an epoch"
            raise ConfigError.of("steps_per_epoch", None, allowed=rule)
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
        if _package_of(self.model) == "tf_keras":
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
        """Number of steps until an iterator over the dataset ends."""
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
                given = self._dataset.state(self._step).to_json()
                raise ConfigError.of("state", given, allowed=rule, advice=cure)
            return
        if updates == saved.updates:
            return
        package = _package_of(self.model)
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
        content = _SavedInput(
            self._dataset.state(self._step),
            self._recorder.ledger,
            _updates_of(self.model),
            _package_of(self.model),
        )
        path = join(self._folder, STATE_FILE)
        write_text(path, content.to_json(), temporary_folder=self._folder)


class InputProgress(tf.train.experimental.PythonState):  # type: ignore[misc]
    """The position of an input, for `tf.train.Checkpoint` in a custom training loop.

    progress = trainer_utils.InputProgress(folder)
    checkpoint = tf.train.Checkpoint(model=model, input=progress)
    checkpoint.restore(tf.train.latest_checkpoint(folder))
    train = input_fn(uri, "train", repeat=True, state=progress.state)
    for batch in progress.follow(train):       # counts the steps
        train_step(batch)
        if …: checkpoint.save(f"{folder}/checkpoint")

    After a restore, `follow` and `save` raise a ConfigError if a trainable variable of the
    checkpoint got no value from it. This happens under the other Keras (tf-keras, Keras 3), whose
    variables have other names. To restore the input alone, restore
    `tf.train.Checkpoint(input=progress)`.

    Args:
        folder: the folder where each save leaves the run's ledger, for `tfx-shards ledger`; the
            same on all workers. None: the ledger is only in the checkpoint.
        losses: whether `keep_losses(losses)` is called in each step. Each save leaves them next to
            the ledger, for `tfx-shards ledger --spike`.
    """

    def __init__(self, folder: str | None = None, *, losses: bool = False) -> None:
        super().__init__()
        self.state: InputState | None = None
        self._recorder = InputRecorder(folder, losses=losses)
        self.keep_losses = self._recorder.keep_losses
        self._restored_root: list[tf.train.Checkpoint] = []  # a list, which is not tracked

    @property
    def ledger(self) -> InputLedger:
        """The records read at each step so far, over all restarts."""
        return self._recorder.ledger

    def follow(self, dataset: Any) -> Any:
        """Iterate over a dataset of `input_fn`, with `state` at the next step."""
        check_counted(dataset)
        step = self._recorder.begin(dataset)
        self.state = dataset.state(step)
        self._check_restored()
        for element in dataset:
            step += 1
            self._recorder.count_steps()
            self.state = dataset.state(step)
            yield element
            self._check_restored()  # the first step may build the model
            self._restored_root.clear()

    def serialize(self) -> str:
        """Return the token and the ledger as JSON, and write the ledger next to it."""
        if self.state is None:
            return ""
        self._check_restored()
        self._recorder.save()
        return _SavedInput(self.state, self.ledger).to_json()

    def deserialize(self, value: str | bytes) -> None:
        """Restore the token and the ledger of a checkpoint."""
        saved = _SavedInput.from_json(value.decode() if isinstance(value, bytes) else value)
        self.state = saved.state
        self._restored_root[:] = _restoring_checkpoint()
        if saved.ledger is not None:
            self._recorder.restore(saved.ledger)

    def _check_restored(self) -> None:
        """Raise if a trainable variable was not restored by the checkpoint that restored this."""
        for root in self._restored_root:
            variables = _trainable_variables(root)
            # TensorFlow numbers its restores, and marks each restored object with the last number.
            lost = [name for name, one in variables if one._update_uid < self._update_uid]
            if lost:
                raise ConfigError(
                    f"state: the input resumes from a checkpoint that has no value for {len(lost)} "
                    f"of {len(variables)} trainable variables, first {lost[0]!r}: they would be "
                    "trained from the start. If the checkpoint was written under the other Keras "
                    "(tf-keras, Keras 3), train with that (TF_USE_LEGACY_KERAS). If the model was "
                    "built after the restore, call it on a batch before. If it was changed on "
                    "purpose, restore the input by itself, in tf.train.Checkpoint(input=progress).",
                    setting="state",
                )


def _restoring_checkpoint() -> "list[tf.train.Checkpoint]":
    """Return the `tf.train.Checkpoint` that is being restored, from the stack: it has no API."""
    frame: types.FrameType | None = sys._getframe(1)
    found = []
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, tf.train.Checkpoint):
            found = [caller]  # the outermost
        frame = frame.f_back
    return found


def _trainable_variables(root: Any) -> list[tuple[str, Any]]:
    """Return the names and trainable variables below a trackable object."""
    found = []
    for one in tf.train.TrackableView(root).descendants():
        if getattr(one, "trainable", False) and hasattr(one, "assign"):
            found.append((str(getattr(one, "path", getattr(one, "name", one))), one))
    return found


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


@dataclasses.dataclass(frozen=True)
class _SavedInput:
    """The saved position of an input: its token, its ledger, and the model's number of updates."""

    state: InputState | None = None
    ledger: InputLedger | None = None
    updates: int | None = None  # counted by the model's optimizer
    package: str | None = None  # the package of the model

    def to_json(self) -> str:
        assert self.state is not None
        assert self.ledger is not None
        facts = {"state": self.state.to_json(), "ledger": self.ledger.to_json()}
        model = {"updates": self.updates, "package": self.package}
        return json.dumps({**facts, "model": model})

    @classmethod
    def from_json(cls, content: str) -> "_SavedInput":
        """Parse the output of `to_json`; an empty string is an input that was never saved."""
        if not content:
            return cls()
        try:
            facts = json.loads(content)
            state, ledger, model = facts["state"], facts["ledger"], facts.get("model", {})
            updates, package = model.get("updates"), model.get("package")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError.of("state", content, allowed="a token and its ledger") from error
        return cls(InputState.from_json(state), InputLedger.from_json(ledger), updates, package)


def _read(folder: str) -> _SavedInput:
    path = join(folder, STATE_FILE)
    return _SavedInput.from_json(read_text(path) if exists(path) else "")


def check_counted(dataset: Any, name: str = "dataset") -> None:
    """Raise a ConfigError if a dataset does not count its steps: it has no position to save."""
    if not hasattr(dataset, "input_start"):
        rule = "that of input_fn or distribute itself, before map and the like"
        cure = "Change its examples in a post_batching_callback"
        raise ConfigError.of(name, dataset, allowed=rule, advice=cure)
