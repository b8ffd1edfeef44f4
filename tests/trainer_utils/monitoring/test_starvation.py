"""A trainer that waits for data is warned once, with the stage and the setting to change."""

import logging

import pytest

import trainer_utils
from trainer_utils.reading import starvation
from trainer_utils.reading.input_stats import InputStats
from trainer_utils.reading.starvation import StarvationCheck, find_starvation

LOGGER = "trainer_utils.reading.starvation"


def window(data=5.0, trainer=5.0, batches=100, **seconds):
    stages = {f"{name}_seconds": value for name, value in seconds.items()}
    return InputStats(
        batches=batches,
        wait_for_data_seconds=data,
        wait_for_trainer_seconds=trainer,
        **stages,
    )


@pytest.mark.parametrize(
    ("seconds", "busy", "stage", "cure"),
    [
        ({"read": 9, "decode": 1}, 0.1, "read", "cache=CacheOptions"),
        ({"read": 1, "check": 9}, 0.9, "check", "fewer features"),
        ({"read": 1, "parse": 9}, 0.9, "parse", "features="),
        ({"read": 1, "decode": 9}, 0.9, "decode", "resize_shorter_side"),
        ({"decode": 1, "augment": 9}, 0.9, "augment", "augment="),
        ({"read": 1, "decode": 9}, 0.2, "decode", "more processes, num_workers=4"),
    ],
)
def test_the_slowest_stage_has_its_cure(seconds, busy, stage, cure):
    reason = find_starvation(window(**seconds), busy=busy, parallel="num_workers=4")
    assert reason.startswith("the trainer waited for data 50% of the time of 100 batches (10 s). ")
    assert f"is to {stage} (90%)" in reason
    assert cure in reason


@pytest.mark.parametrize(
    "stats",
    [
        window(data=1, trainer=9, decode=10),
        window(data=10, trainer=0.09, decode=10),  # a loop that trains nothing
        window(data=1000, trainer=1, decode=10),  # likewise
        window(data=0, trainer=0, batches=0),
    ],
)
def test_a_trainer_that_is_busy_or_absent_is_no_finding(stats):
    assert find_starvation(stats, busy=0.5, parallel="processes=4") is None


def test_it_warns_once_and_not_of_the_warm_up(monkeypatch, caplog):
    now, total = [0.0], [window(data=100, trainer=1, decode=100)]
    monkeypatch.setattr(starvation, "perf_counter", lambda: now[0])
    check = StarvationCheck(lambda: total[0], parallel="processes=4")

    def pass_time(seconds, **more):
        now[0] += seconds
        total[0] += window(**more)
        check()

    with caplog.at_level(logging.WARNING, LOGGER):
        check()  # the warm-up ends
        pass_time(60, data=0, trainer=60, decode=10)
        assert not caplog.messages
        pass_time(5, data=4, trainer=1, decode=4)  # too short
        pass_time(60, data=1, trainer=1, batches=1, decode=4)
        assert len(caplog.messages) == 1
        pass_time(60, data=50, trainer=10, decode=50)
    assert len(caplog.messages) == 1


@pytest.fixture
def always_warns(monkeypatch):
    for name, value in {"MAX_WAIT_SHARE": -1, "MIN_BATCHES": 1, "MIN_SECONDS": -1}.items():
        monkeypatch.setattr(starvation, name, value)
    monkeypatch.setattr(starvation, "_MIN_STEP_SECONDS", -1)
    monkeypatch.setattr(starvation, "_MIN_STEP_SHARE", -1)


@pytest.mark.parametrize("function", [trainer_utils.iterate, trainer_utils.input_fn])
def test_inputs_are_checked_while_they_are_read(always_warns, uneven, caplog, function):
    with caplog.at_level(logging.WARNING, LOGGER):
        source = function(uneven, "train", batch_size=2, remainder="drop", repeat=True)
        batches = iter(source)
        for _ in range(2000):
            next(batches)
    assert [record.levelname for record in caplog.records if record.name == LOGGER] == ["WARNING"]
