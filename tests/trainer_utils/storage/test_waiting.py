"""What is said of requests that take long."""

import types

import pytest

from trainer_utils.storage import waiting
from trainer_utils.storage.waiting import asking, waiting_note


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(waiting, "_asked", {})
    return clock


def test_what_is_waited_for_longest_is_named(clock):
    with asking("s3://b/old"):
        clock.now += 2
        with asking("s3://b/new"):
            assert waiting_note() == ""
            clock.now += 5.4
            assert waiting_note() == "waiting for s3://b/old, 7 s"
        assert waiting_note() == "waiting for s3://b/old, 7 s"
    assert waiting_note() == ""


def test_an_error_ends_the_waiting(clock):
    with pytest.raises(OSError, match="cut"), asking("s3://b/x"):
        raise OSError("cut")
    clock.now += 99
    assert waiting_note() == ""
