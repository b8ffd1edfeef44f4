"""Parts of files as columns, which a graph reads one after the other.

columns_of(ranges)                            # {"path": …, "compression": …, "skip": …, …}
pieces, numbers = planned(plan, epoch, step)  # the same of what `plan` says when the graph runs

Plans are made in Python, since TensorFlow looks through every operation of a graph again for each
new iterator, which would take longer than to start reading.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.opening import FileRange

__all__ = ["Piece", "columns_of", "planned"]

Piece = dict[str, tf.Tensor]
"""`path` and `compression` (string), `skip`, `take` and `limit` (int64), each `()`.

`limit` is `take`, or -1 where all to the end of the file are to be read, so that a file with more
records than it should have is found.
"""

_COLUMNS = {
    "path": tf.string,
    "compression": tf.string,
    "skip": tf.int64,
    "take": tf.int64,
    "limit": tf.int64,
}


def columns_of(ranges: Sequence[FileRange]) -> dict[str, npt.NDArray[Any]]:
    """What `Piece` lists, `(parts,)` each, for `tf.data.Dataset.from_tensor_slices`."""
    gzip = [b"GZIP" if part.path.endswith(".gz") else b"" for part in ranges]
    return {
        "path": np.array([part.path.encode() for part in ranges], object),
        "compression": np.array(gzip, object),
        "skip": np.array([part.skip for part in ranges], np.int64),
        "take": np.array([part.take for part in ranges], np.int64),
        "limit": np.array([-1 if part.to_end else part.take for part in ranges], np.int64),
    }


def planned(
    plan: Callable[..., tuple[Sequence[FileRange], npt.NDArray[np.int64]]], *arguments: tf.Tensor
) -> tuple[Piece, tf.Tensor]:
    """Calls a plan when the graph runs.

    Args:
        plan: of the arguments as numbers, to parts of files and some numbers.
        arguments: `()` each.

    Returns:
        The parts' columns, and the numbers, `(any,) int64`.
    """

    def call(*values: Any) -> list[Any]:
        ranges, numbers = plan(*map(int, values))
        return [*columns_of(ranges).values(), np.asarray(numbers, np.int64)]

    columns = tf.numpy_function(call, list(arguments), [*_COLUMNS.values(), tf.int64])
    *columns, numbers = [tf.ensure_shape(column, [None]) for column in columns]
    return dict(zip(_COLUMNS, columns, strict=True)), numbers
