"""Save the position of an input in a `tf.train.Checkpoint`, for training loops of TensorFlow.

progress = trainer_utils.InputProgress(folder)
checkpoint = tf.train.Checkpoint(model=model, input=progress)
"""

import os
import sys
import types
from typing import Any

import tensorflow as tf

from trainer_utils.core.errors import ConfigError
from trainer_utils.ledger.input_ledger import InputLedger
from trainer_utils.ledger.recorder import InputRecorder
from trainer_utils.order import InputState
from trainer_utils.training.saved_input import SavedInput, check_counted


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

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, losses: bool = False
    ) -> None:
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
        return SavedInput(self.state, self.ledger).to_json()

    def deserialize(self, value: str | bytes) -> None:
        """Restore the token and the ledger of a checkpoint."""
        saved = SavedInput.from_json(value.decode() if isinstance(value, bytes) else value)
        self.state = saved.state
        self._restored_root[:] = _restoring_checkpoint()
        if saved.ledger is not None:
            self._recorder.restore(saved.ledger)

    def _check_restored(self) -> None:
        """Raise if a trainable variable was not restored by the checkpoint that restored this."""
        for root in self._restored_root:
            variables = _trainable_variables(root)
            # TensorFlow numbers its restores, and marks each restored object with the last number.
            lost = [name for name, variable in variables if variable._update_uid < self._update_uid]
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
    callers = []
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, tf.train.Checkpoint):
            callers = [caller]  # the outermost
        frame = frame.f_back
    return callers


def _trainable_variables(root: Any) -> list[tuple[str, Any]]:
    """Return the names and trainable variables below a trackable object."""
    variables = []
    for variable in tf.train.TrackableView(root).descendants():
        if getattr(variable, "trainable", False) and hasattr(variable, "assign"):
            variables.append(
                (str(getattr(variable, "path", getattr(variable, "name", variable))), variable)
            )
    return variables
