"""What was there before is not looked at by the garbage collector, and all of it is afterwards."""

import gc
import time

import pytest

from components.steps import spare_old_objects


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def rings() -> int:
    return sum(isinstance(one, Ring) for one in gc.get_objects())


def rings_after_collection() -> int:
    """Asked again: while another thread collects, a call does nothing."""
    for _ in range(100):
        gc.collect()
        if not rings():
            return 0
        time.sleep(0.05)
    return rings()


def test_only_new_garbage_is_collected_meanwhile_and_old_garbage_afterwards():
    gc.collect()
    gc.disable()
    try:
        Ring()
        with spare_old_objects():
            assert rings() == 0  # the collector knows nothing of it
            Ring()
            assert rings() == 1
            assert rings_after_collection() == 0
        assert rings() == 1
        assert rings_after_collection() == 0
    finally:
        gc.enable()


def test_after_an_error_nothing_is_spared():
    def fail() -> None:
        with spare_old_objects():
            raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        fail()
    assert gc.get_freeze_count() == 0
