"""`TrainingBackup`: all that a training run needs to go on, in one file that is whole or not there.

    backup = TrainingBackup("gs://bucket/run-7")
    backup.save(position, steps.variables(), keras=steps.keras, writes=True)
    saved = backup.load()           # None where there is none
    saved.restore(steps.variables(), steps.keras)

The file, `training.npz`, holds the position as JSON and each variable as its bytes: numpy's format
has no bfloat16. It is written beside and renamed, so that a kill leaves the one before.
"""

import dataclasses
import io
import itertools
import json
import zipfile
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.order import InputState
from trainer_utils.storage import exists, join, make_folder, read_bytes, write_atomically

__all__ = ["Position", "SavedTraining", "TrainingBackup", "Variables"]

Variables: TypeAlias = Sequence[tuple[str, Any]]

_FILE = "training.npz"
_META = "training.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run is.

    Attributes:
        epoch: of the next step, from 0.
        step: of that within its epoch.
        input_state: the token that the input goes on from.
        history: for each finished epoch, its number and its logs.
        ledger: which records the run saw, as JSON.
    """

    epoch: int
    step: int
    input_state: InputState
    history: Sequence[tuple[int, dict[str, float]]]
    ledger: str

    def to_json(self) -> dict[str, Any]:
        """What the file holds of it."""
        return {**dataclasses.asdict(self), "input_state": self.input_state.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Position":
        """What `to_json` gave."""
        return cls(
            epoch=value["epoch"],
            step=value["step"],
            input_state=InputState.from_json(value["input_state"]),
            history=[(epoch, logs) for epoch, logs in value["history"]],
            ledger=value["ledger"],
        )


@dataclasses.dataclass(frozen=True)
class SavedTraining:
    """What a backup holds.

    Attributes:
        path: of the file.
        position: where the run was.
        arrays: the value of each variable, with its name, in the order of `ModelSteps.variables`.
        keras: that wrote it, `keras` or `tf_keras`.
    """

    path: str
    position: Position
    arrays: Sequence[tuple[str, npt.NDArray[Any]]]
    keras: str

    def restore(self, variables: Variables, keras: str) -> None:
        """Sets the variables to what was saved.

        Raises:
            ConfigError: they are those of another model, or of the other Keras, which has them in
                another order.
        """
        if self.keras != keras:
            raise ConfigError(
                f"backup_dir: expected the backup of a model of {keras}, as this one is, got one "
                f"of {self.keras} in {self.path}. Train on with that (TF_USE_LEGACY_KERAS), or "
                "give another folder.",
                setting="backup_dir",
                value=self.keras,
            )
        found = [(tuple(variable.shape), _dtype_of(variable)) for _, variable in variables]
        saved = [(array.shape, array.dtype.name) for _, array in self.arrays]
        if found != saved:
            pairs = enumerate(itertools.zip_longest(found, saved))
            differs = next(n for n, (one, other) in pairs if one != other)
            raise ConfigError(
                f"backup_dir: expected the backup of this model, whose {len(found)} variables are "
                f"otherwise than the {len(saved)} in {self.path}, first at "
                f"{_describe(variables, found, differs)}, there "
                f"{_describe(self.arrays, saved, differs)}. "
                "Give another folder, or remove that file.",
                setting="backup_dir",
            )
        for (_, variable), (_, array) in zip(variables, self.arrays, strict=True):
            variable.assign(array)


class TrainingBackup:
    """The backup of one run in a folder, which all of its workers can reach.

    Args:
        folder: local or of any scheme that `trainer_utils.storage` knows.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.path = join(folder, _FILE)

    def load(self) -> SavedTraining | None:
        """What was saved last; None where nothing was.

        Raises:
            DatasetError: the file is damaged.
        """
        if not exists(self.path):
            return None
        try:
            with zipfile.ZipFile(io.BytesIO(read_bytes(self.path))) as archive:
                meta = json.loads(archive.read(_META))
                arrays = [
                    (name, np.frombuffer(archive.read(str(number)), _dtype(dtype)).reshape(shape))
                    for number, (name, dtype, shape) in enumerate(meta["variables"])
                ]
                position = Position.from_json(meta["position"])
                return SavedTraining(self.path, position, arrays, meta["keras"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"backup {self.path!r}: expected a whole file that fit wrote, got {error}. "
                "Remove it to begin anew."
            ) from error

    def save(self, position: Position, variables: Variables, *, keras: str, writes: bool) -> None:
        """Saves a run.

        Args:
            position: where it is.
            variables: all that training changes. Every worker has to call, since reading some of
                them takes all workers.
            keras: that the model is of.
            writes: whether this worker writes the file.
        """
        described, arrays = [], []
        for name, variable in variables:
            array = tf.convert_to_tensor(variable).numpy()
            described.append((name, array.dtype.name, array.shape))
            arrays.append(array if writes else None)
        if not writes:
            return
        make_folder(self._folder)
        with (
            write_atomically(self.path, temporary_folder=self._folder, is_durable=True) as stream,
            zipfile.ZipFile(stream, "w") as archive,
        ):
            meta = {"position": position.to_json(), "variables": described, "keras": keras}
            archive.writestr(_META, json.dumps(meta))
            for number, array in enumerate(arrays):
                archive.writestr(str(number), np.ascontiguousarray(array).tobytes())


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(tf.as_dtype(name).as_numpy_dtype)


def _dtype_of(variable: Any) -> str:
    return str(tf.as_dtype(variable.dtype).name)


def _describe(items: Sequence[tuple[str, Any]], kinds: Sequence[Any], number: int) -> str:
    if number >= len(items):
        return "none"
    shape, dtype = kinds[number]
    return f"{items[number][0]} {tuple(shape)} {dtype}"
