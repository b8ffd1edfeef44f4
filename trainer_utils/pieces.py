"""Parts of files as columns: cut, reordered, and handed to the graph.

pieces = Pieces.of(source.ranges)
pieces.take_rows([2, 0, 1]).cut(100, 500).columns()     # {"path": …, "skip": …, …}

In numpy, since TensorFlow looks through every operation of a graph again for each new iterator,
which would take longer than to start reading.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset import FileRange

__all__ = ["COLUMNS", "Piece", "Pieces", "planned"]

Piece = dict[str, tf.Tensor]
"""`path` and `compression` (string), `skip`, `take` and `limit` (int64), each `()`.

`limit` is `take`, or -1 where all to the end of the file are to be read, so that a file with more
records than it should have is found.
"""

COLUMNS = {
    "path": tf.string,
    "compression": tf.string,
    "skip": tf.int64,
    "take": tf.int64,
    "limit": tf.int64,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pieces:
    """Parts of files, in order; all columns are `(parts,)`.

    Args:
        path: of the files, as bytes.
        skip: records of the file that come before the part.
        take: records of the part.
        to_end: whether the file should end with the part.
    """

    path: npt.NDArray[Any]
    skip: npt.NDArray[np.int64]
    take: npt.NDArray[np.int64]
    to_end: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, ranges: Sequence[FileRange]) -> "Pieces":
        """Those of ranges."""
        return cls(
            path=np.array([part.path.encode() for part in ranges], object),
            skip=np.array([part.skip for part in ranges], np.int64),
            take=np.array([part.take for part in ranges], np.int64),
            to_end=np.array([part.to_end for part in ranges], bool),
        )

    def __len__(self) -> int:
        return len(self.path)

    def take_rows(self, rows: Any) -> "Pieces":
        """Some of them, or others of their order; `rows` is an index of numpy's."""
        return self._map(lambda column: column[rows])

    def cut(self, start: int, stop: int) -> "Pieces":
        """The parts that hold the records `start` to `stop` of all of theirs."""
        first = np.cumsum(self.take) - self.take
        begin = np.clip(start - first, 0, self.take)
        end = np.clip(stop - first, 0, self.take)
        cut = Pieces(
            path=self.path,
            skip=self.skip + begin,
            take=end - begin,
            to_end=self.to_end & (end == self.take),
        )
        return cut.take_rows(end > begin)

    @staticmethod
    def joined(groups: Sequence["Pieces"]) -> "Pieces":
        """All of the groups, one after the other."""
        return Pieces(
            **{
                field.name: np.concatenate([getattr(group, field.name) for group in groups])
                for field in dataclasses.fields(Pieces)
            }
        )

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What `COLUMNS` lists, for `tf.data.Dataset.from_tensor_slices`."""
        gzip = [b"GZIP" if path.endswith(b".gz") else b"" for path in self.path]
        return {
            "path": self.path,
            "compression": np.array(gzip, object),
            "skip": self.skip,
            "take": self.take,
            "limit": np.where(self.to_end, -1, self.take),
        }

    def _map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> "Pieces":
        fields = dataclasses.fields(self)
        return Pieces(**{field.name: change(getattr(self, field.name)) for field in fields})


def planned(
    plan: Callable[..., tuple[Pieces, npt.NDArray[np.int64]]], *arguments: tf.Tensor
) -> tuple[Piece, tf.Tensor]:
    """Calls a plan when the graph runs.

    Args:
        plan: of the arguments as numbers, to pieces and some int64 numbers.
        arguments: `()` each.

    Returns:
        The pieces' columns, and the numbers, `(any,) int64`.
    """

    def call(*values: Any) -> list[Any]:
        pieces, numbers = plan(*map(int, values))
        return [*pieces.columns().values(), numbers.astype(np.int64)]

    columns = tf.numpy_function(call, list(arguments), [*COLUMNS.values(), tf.int64])
    *columns, numbers = [tf.ensure_shape(column, [None]) for column in columns]
    return dict(zip(COLUMNS, columns, strict=True)), numbers
