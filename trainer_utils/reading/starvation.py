"""Find out whether an input starves its trainer, and which stage and setting to change.

    counters.waits.check = StarvationCheck(counters.stats, parallel="processes=…")

It warns once, after enough batches to be sure, and not during warm-up.
"""

import logging
import os
from collections.abc import Callable
from time import perf_counter

from trainer_utils.reading.input_stats import STAGES, InputStats
from trainer_utils.runtime.machine import machine_seconds

MAX_WAIT_SHARE = 0.2
"""The share of a trainer's time above which its wait for data is reported."""
MIN_BATCHES = 96
"""The least number of batches to judge by, in addition to the first ones."""
MIN_SECONDS = 20.0
"""The least time to judge by."""
# A loop that spends less between batches, per batch and of the whole time, trains nothing.
_MIN_STEP_SECONDS, _MIN_STEP_SHARE = 1e-3, 0.01
_BUSY = 0.8  # share of all cores
_logger = logging.getLogger(__name__)

_CURES = {
    "read": "Set cache=CacheOptions(folder=…) to a fast disk, or store the shards closer.",
    "check": "Read fewer bytes: smaller images or fewer features in each record.",
    "parse": "Read fewer features, features=[…].",
    "decode": "Decode less: ImageExampleGen(resize_shorter_side=…) or encoding='raw'.",
    "augment": "Set fewer or cheaper operations in augment=….",
}


def advise(stage: str, *, busy: float, parallel: str) -> str:
    """Return the setting that helps an input that is bounded by a stage.

    Args:
        stage: the stage, of `STAGES`.
        busy: the share of the time of all cores that is used, in [0, 1].
        parallel: the setting that makes batches in more processes.
    """
    if stage != "read" and busy < _BUSY:
        return f"Cores are idle: make batches in more processes, {parallel}."
    return _CURES[stage]


def find_starvation(window: InputStats, *, busy: float, parallel: str) -> str | None:
    """Return the sentences that explain why a trainer waited for data, or None if it did not.

    Args:
        window: the stats of some batches.
        busy: the share of the time of all cores that was used meanwhile, in [0, 1].
        parallel: the setting that makes batches in more processes.
    """
    waited, computed = window.wait_for_data_seconds, window.wait_for_trainer_seconds
    total, work = waited + computed, sum(window.seconds[stage] for stage in STAGES)
    if computed <= max(_MIN_STEP_SECONDS * window.batches, _MIN_STEP_SHARE * total):
        return None
    if waited <= MAX_WAIT_SHARE * total or not work:
        return None
    stage = window.slowest_stage
    return (
        f"the trainer waited for data {waited / total:.0%} of the time of {window.batches:,} "
        f"batches ({total:,.0f} s). Most of the input's work is to {stage} "
        f"({window.seconds[stage] / work:.0%}), and the cores are {busy:.0%} busy. "
        f"{advise(stage, busy=busy, parallel=parallel)} See docs/metrics.md."
    )


class StarvationCheck:
    """A check to call now and then while batches are taken, which warns once.

    The batches before the first call are the warm-up: files are opened, caches filled.

    Args:
        stats: returns the stats of the input.
        parallel: the setting that makes batches in more processes.
    """

    def __init__(self, stats: Callable[[], InputStats], *, parallel: str) -> None:
        self._stats, self._parallel = stats, parallel
        self._has_warned = False
        self._begin: tuple[InputStats, float, float] | None = None

    def __call__(self) -> None:
        """Warn if the trainer waited too much since the window began, and begin another one."""
        if self._has_warned:
            return
        now = self._stats(), perf_counter(), machine_seconds()
        if self._begin is None:
            self._begin = now
            return
        window, elapsed = now[0] - self._begin[0], now[1] - self._begin[1]
        if window.batches < MIN_BATCHES or elapsed < MIN_SECONDS:
            return
        busy = min((now[2] - self._begin[2]) / elapsed / (os.cpu_count() or 1), 1.0)
        self._begin = now
        reason = find_starvation(window, busy=busy, parallel=self._parallel)
        if reason is not None:
            self._has_warned = True
            _logger.warning("%s", reason)
