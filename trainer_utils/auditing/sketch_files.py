"""Sketches of many inputs in temporary files, which are mapped to be compared.

    class WordSketches(SketchFiles):
        def __init__(self) -> None:
            super().__init__("words", num_files=1)

Each input has some values in each file; of one file their number differs from input to input.
"""

import array
import contextlib
import tempfile
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["SketchFiles"]

_Self = TypeVar("_Self", bound="SketchFiles")


class SketchFiles:
    """The files, and where each input's values begin and end.

    Args:
        kind: of the inputs, for the files' names.
        num_files: how many.
    """

    def __init__(self, kind: str, *, num_files: int) -> None:
        self._open_files = contextlib.ExitStack()
        self._streams = [self._open(kind) for _ in range(num_files)]
        self._ends = array.array("q", [0])

    def _open(self, kind: str) -> BinaryIO:
        return self._open_files.enter_context(tempfile.TemporaryFile(prefix=f"tfx-shards-{kind}-"))

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """`(inputs + 1,)`: where the values of each begin, and where those of the last one end."""
        return np.array(self._ends, np.int64)

    def _write(self, file: int, values: npt.NDArray[Any], dtype: str) -> None:
        self._streams[file].write(values.astype(dtype).tobytes())

    def _mapped(self, file: int, dtype: str, *shape: int) -> npt.NDArray[Any]:
        """All values of a file, which stay on the disk."""
        self._streams[file].flush()
        if not shape[0]:
            return np.empty(shape, dtype)
        return np.memmap(self._streams[file], dtype, "r", shape=shape)
