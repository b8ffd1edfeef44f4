"""Large arrays that are used again when nobody holds them any more.

    buffers = Buffers()
    batch = buffers.take((64, 224, 224, 3), np.uint8)

A new array of some MB is made of pages that the system fills with zeros first, which costs a batch
of floats 5% of what decoding it does. An array that is given to TensorFlow as it is comes back when
the last tensor that shares its memory is gone.
"""

import collections
import math
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Buffers", "Scratch"]

_ALIGNMENT = 64  # bytes; TensorFlow copies what lies otherwise
_MOST_KEPT = 4  # that nobody holds


class Buffers:
    """Gives out arrays, from several threads at once."""

    def __init__(self) -> None:
        # No lock: what is dropped may come back in the midst of anything, on any thread. Of other
        # sizes, as of an epoch's last batch, none are kept for long.
        self._spare: collections.deque[npt.NDArray[np.uint8]] = collections.deque(maxlen=_MOST_KEPT)

    def take(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """An array of whatever values."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._any_spare()
        if memory is None or memory.size != num_bytes + _ALIGNMENT:
            memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
        # numpy has parts of parts hold on to the first array with no other array behind it. With a
        # memoryview behind it that is this one, which is so gone when all of them are.
        owner = np.frombuffer(memory.data, np.uint8)
        weakref.finalize(owner, self._spare.append, memory).atexit = False
        begin = -memory.ctypes.data % _ALIGNMENT
        array: npt.NDArray[np.generic] = owner[begin : begin + num_bytes].view(dtype).reshape(shape)
        return array

    def _any_spare(self) -> npt.NDArray[np.uint8] | None:
        try:
            return self._spare.pop()
        except IndexError:
            return None


class Scratch:
    """Memory for one thing at a time, which is used again for the next; of one thread."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """At least so many bytes, of whatever values."""
        if self._memory.size < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory
