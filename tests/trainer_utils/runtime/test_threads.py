"""Threads that make results ahead of their consumer."""

import os

import pytest

from trainer_utils.runtime.threads import prefetch_map


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_forked_process_continues_the_iterator(most):
    numbers = prefetch_map(lambda item: item * item, range(10), threads=2, most=most)
    assert [next(numbers) for _ in range(3)] == [0, 1, 4]
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sender, bytes(numbers))
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        assert [*stream.read()] == [9, 16, 25, 36, 49, 64, 81]
    assert os.waitpid(child, 0)[1] == 0
    assert [*numbers] == [9, 16, 25, 36, 49, 64, 81]
