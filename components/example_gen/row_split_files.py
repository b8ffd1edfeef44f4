"""Files with the split of each row of a piece, in the working folder."""

from typing import Any

import numpy as np
import numpy.typing as npt

from components.example_gen.split_rules import EXCLUDED, Numbers
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError

ASSIGNED = "splits/assigned"
"""The folder of the splits that `assign_pieces` writes, in the working folder."""

FINAL = "splits/final"
"""The folder of the splits after duplicates were left out."""

STRATIFIED = "splits/stratified"
"""The folder of the splits after each split got its share of each class."""


def hashes_path(folder: str, number: int) -> str:
    """Return the path of the hashes that decide the splits of a piece of similar texts."""
    return storage.join(folder, f"splits/hashes/{number:06d}")


def write_array(folder: str, path: str, values: npt.NDArray[np.generic]) -> None:
    """Write the bytes of an array to a file of the working folder."""
    storage.make_folder(path.rpartition("/")[0])
    with storage.write_atomically(path, temporary_folder=folder) as stream:
        stream.write(values.tobytes())


def write_splits(folder: str, kind: str, number: int, splits: Numbers) -> None:
    """Write the split numbers of a piece; `kind` is `ASSIGNED`, `FINAL` or `STRATIFIED`."""
    write_array(folder, storage.join(folder, f"{kind}/{number:06d}"), splits.astype(np.uint16))


def read_splits(folder: str, kind: str, number: int) -> Numbers:
    """Return the split number of each row of a piece, or `EXCLUDED`."""
    return read_array(storage.join(folder, f"{kind}/{number:06d}"), np.dtype(np.uint16))


def read_array(path: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the array that `write_array` wrote to a file."""
    data = storage.retry_transient(path, storage.read_bytes, path)
    if len(data) % dtype.itemsize:
        rule = f"whole numbers of {dtype.itemsize} bytes, which this run wrote"
        raise DatasetError.at(path, expected=rule, got=f"{len(data)} bytes", advice="Run it again")
    return np.frombuffer(data, dtype).copy()


def count_splits(splits: Numbers, number: int) -> list[int]:
    """Return the number of rows of each split."""
    counts: list[int] = np.bincount(splits[splits != EXCLUDED], minlength=number).tolist()
    return counts
