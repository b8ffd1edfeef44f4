"""`RunBackup`: what a run of `fit` keeps in one file that is whole or not there, and goes on from.

The file, `training.npz`, holds JSON and each variable as its bytes: numpy's format has no bfloat16,
and TensorFlow's own checkpoints reach no object store but gs://.
"""

import io
import itertools
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.order import InputState
from trainer_utils.order.ledger import InputLedger
from trainer_utils.recording import InputRecorder
from trainer_utils.storage import exists, join, make_folder, read_bytes, write_atomically
from trainer_utils.training.model_steps import BatchSource, ModelSteps

_FILE, _META = "training.npz", "training.json"


class RunBackup:
    """What a run saves of itself and goes on from. Every worker calls all of it, one writes.

    Attributes:
        epoch, step: where the run goes on, from 0.
        history: for each finished epoch, its number and its logs.
    """

    def __init__(self, folder: str | None, *, every: int | str, train: Any, writes: bool) -> None:
        if folder is not None and not hasattr(train, "resumed_at"):
            raise ConfigError(
                "train: expected the dataset of input_fn or distribute itself where there is a "
                f"backup_dir, got {train!r}. Change its examples in a post_batching_callback.",
                setting="train",
            )
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
        """The dataset from where the run goes on, whose ledger is kept from now on."""
        if self._is_saved and self.epoch < epochs:
            train = train.resumed_at(self._input_state)
        if self._folder is not None:
            self._recorder.begin(train)
        return train

    def restore(self, steps: ModelSteps) -> None:
        """Sets the variables to what was saved, if anything was, of the same model and Keras."""
        if not self._is_saved:
            return
        if self._keras != steps.keras:
            rule = f"one of {steps.keras}, as the model is, not of {self._keras} in {self._path}"
            cure = "Train on with that (TF_USE_LEGACY_KERAS), or give another folder"
            raise ConfigError.of("backup_dir", self._keras, allowed=rule, advice=cure)
        variables = steps.variables()
        for own, saved in itertools.zip_longest(variables, self._arrays, fillvalue=("none", None)):
            kinds = [
                (tuple(one.shape), tf.as_dtype(one.dtype))
                for _, one in (own, saved)
                if one is not None
            ]
            if kinds[1:] != kinds[:1]:
                raise ConfigError(
                    f"backup_dir: expected the backup of this model, whose {len(variables)} "
                    f"variables are otherwise than the {len(self._arrays)} in {self._path}, first "
                    f"at {own[0]}, there {saved[0]}: {kinds}. Give another folder, or remove it.",
                    setting="backup_dir",
                )
        for (_, variable), (_, array) in zip(variables, self._arrays, strict=True):
            variable.assign(array)

    def end_step(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        """Counts a step, and saves the run where it is time."""
        if self._folder is None:
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

    def _load(self) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(read_bytes(self._path))) as archive:
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
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"backup {self._path!r}: expected a whole file that fit wrote, got {error}. "
                "Remove it to begin anew."
            ) from error

    def _save(self, epoch: int, step: int, source: BatchSource, steps: ModelSteps) -> None:
        if self._folder is None:
            return
        self._recorder.save()
        # Every worker reads them all, since reading some takes all workers.
        arrays = [(name, tf.convert_to_tensor(one).numpy()) for name, one in steps.variables()]
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
