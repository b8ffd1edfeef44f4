"""`RunBackup`: what a run of `fit` keeps in its folder, and goes on from.

backup = RunBackup("gs://bucket/run-7", every="epoch", train=train, writes=True)
train = backup.begin(train, epochs=3)
backup.restore(steps)
backup.end_step(0, 1, source, steps)
backup.end_epoch(0, {"loss": 0.5}, source, steps)
"""

from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.order.ledger import InputLedger
from trainer_utils.recording import InputRecorder
from trainer_utils.training.backup import Position, TrainingBackup
from trainer_utils.training.batch_source import BatchSource
from trainer_utils.training.model_steps import ModelSteps

__all__ = ["RunBackup"]


class RunBackup:
    """What a run saves of itself and goes on from. Every worker calls all of it.

    Args:
        folder: which all workers can reach, local or of an object store. None: nothing is kept.
        every: `"epoch"`, or a number of steps, between two times that it is saved.
        train: the dataset of `input_fn` or `distribute`.
        writes: whether this worker writes.

    Attributes:
        epoch, step: where the run goes on, from 0.
        history: for each finished epoch, its number and its logs.

    Raises:
        ConfigError: the dataset cannot say where it is.
        DatasetError: what is in the folder is damaged.
    """

    def __init__(self, folder: str | None, *, every: int | str, train: Any, writes: bool) -> None:
        if folder is not None and not hasattr(train, "resumed_at"):
            raise ConfigError(
                "train: expected the dataset of input_fn or distribute itself where there is a "
                f"backup_dir, got {train!r}. Change its examples in a post_batching_callback.",
                setting="train",
            )
        self._every, self._writes = every, writes
        self._backup = TrainingBackup(folder) if folder is not None else None
        self._recorder = InputRecorder(folder)
        self._saved = self._backup.load() if self._backup is not None else None
        self.epoch = self.step = 0
        self.history: list[tuple[int, dict[str, float]]] = []
        if self._saved is not None:
            position = self._saved.position
            self.epoch, self.step = position.epoch, position.step
            self.history = list(position.history)

    def begin(self, train: Any, epochs: int) -> Any:
        """The dataset from where the run goes on, whose ledger is kept from now on."""
        if self._saved is not None:
            position = self._saved.position
            if position.epoch < epochs:
                train = train.resumed_at(position.input_state)
            self._recorder.restore(InputLedger.from_json(position.ledger))
        if self._backup is not None:
            self._recorder.begin(train)
        return train

    def restore(self, steps: ModelSteps) -> None:
        """Sets the variables to what was saved, if anything was.

        Raises:
            ConfigError: they are those of another model.
        """
        if self._saved is not None:
            self._saved.restore(steps.variables(), steps.keras)

    def end_step(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        """Counts a step, and saves the run where it is time."""
        if self._backup is None:
            return
        self._recorder.count_steps()
        if isinstance(self._every, int) and source.taken % self._every == 0:
            self._save(epoch, step + 1, source, steps)

    def end_epoch(
        self, epoch: int, logs: dict[str, float], source: BatchSource, steps: ModelSteps
    ) -> None:
        """Notes what an epoch came to, and saves the run."""
        self.history.append((epoch, {name: float(value) for name, value in logs.items()}))
        self._save(epoch + 1, 0, source, steps)

    def _save(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        if self._backup is None:
            return
        self._recorder.save()
        position = Position(
            epoch=epoch,
            step=step,
            input_state=source.state(),
            history=self.history,
            ledger=self._recorder.ledger.to_json(),
        )
        self._backup.save(position, steps.variables(), keras=steps.keras, writes=self._writes)
