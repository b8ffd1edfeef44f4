"""Large arrays that are used again when nobody holds them any more.

    buffers = Buffers()
    batch = buffers.take((64, 224, 224, 3), np.float32)

Memory beyond 32 MiB comes from the system anew each time, as zeros: filling a batch of 38 MB takes
10.6 ms then, and 4.6 ms in memory that was used before (of uint8 there is no difference).
"""

import collections
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64  # bytes; TensorFlow copies what lies otherwise
_MOST_KEPT = 4  # that nobody holds


class Buffers:
    """Gives out arrays, from several threads at once; pickled without its memory."""

    def __init__(self) -> None:
        # No lock: what is dropped may come back in the midst of anything, on any thread. Of other
        # sizes, as of an epoch's last batch, none are kept for long.
        self._spare: collections.deque[npt.NDArray[np.uint8]] = collections.deque(maxlen=_MOST_KEPT)

    def __reduce__(self) -> tuple[object, ...]:
        return Buffers, ()

    def take(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of whatever values, whose memory nothing else has."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if memory.size != num_bytes + _ALIGNMENT:
            memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
        # numpy has parts of parts hold on to the first array with no other array behind it. With a
        # memoryview behind it that is this one, which is so gone when all of them are.
        owner = np.frombuffer(memory.data, np.uint8)
        weakref.finalize(owner, self._spare.append, memory).atexit = False
        begin = -memory.ctypes.data % _ALIGNMENT
        return owner[begin : begin + num_bytes].view(dtype).reshape(shape)
