"""Large arrays that are used again when nobody holds them any more.

    buffers = Buffers()
    batch = buffers.take((64, 224, 224, 3), np.uint8)

A new array of some MB is made of pages that the system fills with zeros first, which costs a batch
of floats 5% of what decoding it does. An array that is given to TensorFlow as it is comes back when
the last tensor that shares its memory is gone.
"""

import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Buffers"]

_ALIGNMENT = 64  # bytes; TensorFlow copies what lies otherwise
_MOST_KEPT = 4  # that nobody holds


class Buffers:
    """Gives out arrays, from several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: list[npt.NDArray[np.uint8]] = []

    def take(self, shape: Sequence[int], dtype: Any) -> npt.NDArray[Any]:
        """An array of whatever values."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._spare_of(num_bytes)
        if memory is None:
            memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT
        array = memory[begin : begin + num_bytes].view(dtype).reshape(shape)
        # Weakly, so that what is out at the end does not keep what is not.
        weakref.finalize(array, _give_back, weakref.ref(self), memory).atexit = False
        return array

    def _spare_of(self, num_bytes: int) -> npt.NDArray[np.uint8] | None:
        with self._lock:
            for place, memory in enumerate(self._spare):
                if memory.size == num_bytes + _ALIGNMENT:
                    return self._spare.pop(place)
        return None

    def give_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keeps memory that nobody holds any more, the last few."""
        with self._lock:
            self._spare.append(memory)
            del self._spare[:-_MOST_KEPT]


def _give_back(buffers: "weakref.ref[Buffers]", memory: npt.NDArray[np.uint8]) -> None:
    if (owner := buffers()) is not None:
        owner.give_back(memory)
