"""Arrays of rows that differ in length: filled up, or end to end."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format import DatasetError
from trainer_utils.format.example_columns import Column

Array = npt.NDArray[Any]


class ArraySpec(NamedTuple):
    """What is known of an array before it is read.

    Attributes:
        shape: None where it is not known.
        dtype: a name that numpy knows, or `bfloat16`, or `bytes` of arrays of objects.
        is_ragged: whether it is a `Ragged`, whose rows have lengths of their own.
    """

    shape: tuple[int | None, ...]
    dtype: str
    is_ragged: bool = False


class Ragged(NamedTuple):
    """Values of all rows, end to end, which may be rows again, and `(rows + 1,)` splits of them."""

    values: Any
    row_splits: npt.NDArray[np.int64]


def stack(values: Sequence[Array], name: str, *, pads: bool = True) -> Array:
    """Arrays of one rank as one; of unequal ones the shorter are filled up, if `pads`.

    Raises:
        DatasetError: they cannot be one array; the message names the feature.
    """
    arrays = [np.asarray(value) for value in values]
    if not arrays:
        return np.zeros(0)
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        return np.stack(arrays)
    if not pads or len({len(shape) for shape in shapes}) > 1:
        raise DatasetError(
            f"feature {name!r}: expected values of one shape in a batch, got {sorted(shapes)[:3]}. "
            "Set image_size, or read them one by one, with batch_size=None."
        )
    most = np.max([array.shape for array in arrays], axis=0)
    filler = b"" if arrays[0].dtype == object else 0
    batch = np.full((len(arrays), *most), filler, arrays[0].dtype)
    for row, array in zip(batch, arrays, strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return batch


def end_to_end(values: Sequence[Array]) -> Ragged:
    """Arrays as the rows of one."""
    return Ragged(np.concatenate(values), splits_of(np.array([*map(len, values)], np.int64)))


def splits_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where rows of so many values begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def array_of(values: list[Any], dtype: Any) -> Array:
    """`(values,)`; bytes keep the zeros at their end in an array of objects."""
    array = np.empty(len(values), dtype)
    array[:] = values
    return array


def padded(column: Column, dtype: Any, start: int, stop: int) -> Array:
    """`(batch, longest of it)` for some of the records."""
    values, splits = ragged(column, dtype, start, stop)
    counts = np.diff(splits)
    most = int(counts.max(initial=0))
    batch = np.full((len(counts), most), b"" if dtype is object else 0, dtype)
    batch[np.arange(most) < counts[:, np.newaxis]] = values
    return batch


def ragged(column: Column, dtype: Any, start: int, stop: int) -> Ragged:
    """The values of some of the records, end to end."""
    splits = splits_of(column.counts)[start : stop + 1]
    values = column.values[splits[0] : splits[-1]].astype(dtype, copy=False)
    return Ragged(values, splits - splits[0])
