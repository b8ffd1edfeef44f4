"""Steps are read ahead once each, with any number of processes that take turns."""

import pytest

from trainer_utils.reading.step_window import StepWindow


@pytest.mark.parametrize("distance", [1, 2, 3, 8])
@pytest.mark.parametrize("rows_of_step", [1, 64, 4096])
def test_full_window_requests_each_step_once(distance, rows_of_step):
    window = StepWindow(rows_of_step=rows_of_step)
    requested = []
    for step in range(5, 500, distance):
        requested += window.coming(step, step, distance=distance, rows_ahead=256)
        ahead = requested[requested.index(step) :]
        assert len(ahead) * rows_of_step >= 256
    assert requested == [*range(5, requested[-1] + 1, distance)]


def test_full_window_starts_again_after_a_jump():
    window = StepWindow(rows_of_step=1)
    assert window.coming(0, 0, distance=1, rows_ahead=8) == range(9)
    assert window.coming(1, 1, distance=1, rows_ahead=8) == range(9, 10)
    assert window.coming(500, 500, distance=1, rows_ahead=8) == range(500, 509)
    assert window.coming(3, 3, distance=1, rows_ahead=8) == range(3, 12)


def test_threads_out_of_order_request_no_step_twice():
    window = StepWindow(rows_of_step=1)
    requested: list[int] = []
    for step in (1, 0, 3, 2, 4, 6, 5):
        requested += window.coming(step, step, distance=1, rows_ahead=8)
    assert len(requested) == len({*requested})


def test_empty_window_requests_steps_some_steps_later():
    window = StepWindow(rows_of_step=64)
    requested = [
        one for step in range(4) for one in window.coming(step, step, distance=3, rows_ahead=0)
    ]
    assert requested == [24, 25, 26, 27]
