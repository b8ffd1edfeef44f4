"""Memory of batches is used again once nobody holds it."""

import gc
import pickle

import numpy as np

from trainer_utils.reading.images import Buffers


def test_memory_is_used_again_once_nobody_holds_it():
    buffers = Buffers()
    first = buffers.take((3, 5, 7), np.float32)
    address = first.ctypes.data
    assert address % 64 == 0
    part = first[1:]
    second = buffers.take((3, 5, 7), np.float32)
    del first
    assert part.base is not None
    assert second.ctypes.data != address
    del part
    gc.collect()
    assert buffers.take((3, 5, 7), np.float32).ctypes.data == address


def test_memory_that_a_part_still_shows_is_not_given_out():
    buffers = Buffers()
    part = buffers.take((4, 16), np.uint8)[1:]
    part[:] = 7
    for _ in range(8):
        pickle.loads(pickle.dumps(buffers)).take((4, 16), np.uint8)[:] = 0
        buffers.take((4, 16), np.uint8)[:] = 0
    assert (part == 7).all()
    view = memoryview(part)  # as a framework holds memory that it shares
    del part
    for _ in range(8):
        buffers.take((4, 16), np.uint8)[:] = 0
    assert set(view.tobytes()) == {7}
