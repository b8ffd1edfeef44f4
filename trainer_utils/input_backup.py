"""Saves where an input is beside where a model is: with Keras, or with `tf.train.Checkpoint`.

model.fit(train, epochs=9, steps_per_epoch=train.input_steps, callbacks=[
    keras.callbacks.BackupAndRestore(backup, save_freq=500),
    trainer_utils.InputBackup(train, backup, save_freq=500),     # after it
])
"""

import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.order import InputState
from trainer_utils.order.ledger import InputLedger
from trainer_utils.recording import InputRecorder
from trainer_utils.storage import exists, join, read_text, write_text

STATE_FILE = "input_state.json"


def load_state(folder: str) -> InputState | None:
    """The token that `InputBackup` saved in a folder; None where there is none yet."""
    return _read(folder)[0]


class InputBackup(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Saves the input's token as often as Keras's `BackupAndRestore` saves the model.

    It stands after that in the list of callbacks, with the same folder and the same `save_freq`.
    With a number for that, make the dataset with `repeat=epochs` and give `fit` the
    `steps_per_epoch`: Keras then begins the broken epoch anew, while the input goes on within its
    own. It also leaves the run's ledger in the folder, for `tfx-shards ledger`.

    Args:
        dataset: of `input_fn` or `distribute`.
        backup_dir: the folder, the same on all workers.
        save_freq: `"epoch"`, or a number of batches.

    Raises:
        ConfigError: the dataset is not one of these, or `save_freq` is neither.
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
        self._step = start.epoch * dataset.input_steps + start.step  # of all epochs
        self._since_saved = 0
        self._last_batch = 0
        self._recorder = InputRecorder(backup_dir)
        saved, ledger = _read(backup_dir)
        if ledger is not None and saved and (saved.epoch, saved.step) == (start.epoch, start.step):
            self._recorder.restore(ledger)
        self._is_begun = False

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Refuses to go on within an epoch whose rest Keras would take for the length of all."""
        if self._step % max(self._dataset.input_steps, 1) and not self.params.get("steps"):
            rule = f"{self._dataset.input_steps} in fit, and repeat=epochs in input_fn, since the "
            rule += "input goes on within an epoch"
            raise ConfigError.of("steps_per_epoch", None, allowed=rule)
        self._is_begun = False

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Tells the dataset its epoch."""
        if self._dataset.input_steps:
            self._dataset.input_pipeline.next_epoch = self._dataset.state(self._step).epoch
        if not self._is_begun:
            self._recorder.begin(self._dataset)
            self._is_begun = True

    def on_train_batch_end(self, batch: int, logs: Mapping[str, object] | None = None) -> None:
        """Counts, as `BackupAndRestore` does, and saves with it."""
        taken = batch + 1 if batch <= self._last_batch else batch - self._last_batch
        self._last_batch = batch
        self._step += taken
        self._recorder.count_steps(taken)
        self._since_saved += taken
        if isinstance(self._save_freq, int) and self._since_saved >= self._save_freq:
            self._since_saved = 0
            self._save()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Saves, if it is to."""
        self._last_batch = 0
        if self._save_freq == "epoch":
            self._save()

    def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
        """Leaves the ledger of all steps, also where `BackupAndRestore` removed what it saved."""
        if self._is_begun:
            self._recorder.save()

    def _save(self) -> None:
        self._recorder.save()
        text = _render(self._dataset.state(self._step), self._recorder.ledger)
        write_text(join(self._folder, STATE_FILE), text, temporary_folder=self._folder)


class InputProgress(tf.train.experimental.PythonState):  # type: ignore[misc]
    """Where an input is, for `tf.train.Checkpoint`, in a training loop of one's own.

    progress = trainer_utils.InputProgress(folder)
    checkpoint = tf.train.Checkpoint(model=model, input=progress)
    checkpoint.restore(tf.train.latest_checkpoint(folder))
    train = input_fn(uri, "train", repeat=True, state=progress.state)
    for batch in progress.follow(train):       # counts the steps
        train_step(batch)
        if …: checkpoint.save(f"{folder}/checkpoint")

    Args:
        folder: where each save leaves the run's ledger, for `tfx-shards ledger`; the same on all
            workers. None: it is in the checkpoint alone.
        losses: whether `keep_losses(losses)` is called in each step; each save leaves them beside
            the ledger, for `tfx-shards ledger --spike`.
    """

    def __init__(self, folder: str | None = None, *, losses: bool = False) -> None:
        super().__init__()
        self.state: InputState | None = None
        self._recorder = InputRecorder(folder, losses=losses)
        self.keep_losses = self._recorder.keep_losses

    @property
    def ledger(self) -> InputLedger:
        """What was read in which order so far, over all restarts."""
        return self._recorder.ledger

    def follow(self, dataset: Any) -> Any:
        """Iterates over a dataset of ours, with `state` at the step that comes next."""
        check_counted(dataset)
        step = self._recorder.begin(dataset)
        self.state = dataset.state(step)
        for element in dataset:
            step += 1
            self._recorder.count_steps()
            self.state = dataset.state(step)
            yield element

    def serialize(self) -> str:
        """What the checkpoint holds; the ledger is written beside it."""
        if self.state is None:
            return ""
        self._recorder.save()
        return _render(self.state, self.ledger)

    def deserialize(self, value: str | bytes) -> None:
        """Takes what a checkpoint held."""
        self.state, ledger = _parse(value.decode() if isinstance(value, bytes) else value)
        if ledger is not None:
            self._recorder.restore(ledger)


def _read(folder: str) -> tuple[InputState | None, InputLedger | None]:
    path = join(folder, STATE_FILE)
    return _parse(read_text(path) if exists(path) else "")


def _render(state: InputState, ledger: InputLedger) -> str:
    return json.dumps({"state": state.to_json(), "ledger": ledger.to_json()})


def _parse(text: str) -> tuple[InputState | None, InputLedger | None]:
    """What `_render` made, or nothing."""
    if not text:
        return None, None
    try:
        facts = json.loads(text)
        state, ledger = facts["state"], facts["ledger"]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError.of("state", text, allowed="a token and its ledger") from error
    return InputState.from_json(state), InputLedger.from_json(ledger)


def check_counted(dataset: Any, name: str = "dataset") -> None:
    """Refuses what does not know its steps, where these are to be kept."""
    if not hasattr(dataset, "input_start"):
        rule = "that of input_fn or distribute itself, before map and the like"
        cure = "Change its examples in a post_batching_callback"
        raise ConfigError.of(name, dataset, allowed=rule, advice=cure)
