"""Count the work of an input by stage: seconds, records, bytes, cache hits.

    stats = dataset.stats()
    stats.decode_seconds, stats.wait_for_data_seconds
    print(stats - earlier)                  # of the batches in between

It is always on: each stage adds its time once for a group of records, not for each record.
"""

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import Any, TypeVar

from trainer_utils.core.text_output import quantity

STAGES = ("read", "check", "parse", "decode", "augment")
"""The stages of making batches, in order."""
WAITS = ("wait_for_trainer", "wait_for_data")
"""The waits between an input and its trainer."""

_COUNTS = ("batches", "records", "raw_records", "record_bytes", "cache_hits", "cache_misses")
COUNTERS = (*STAGES, *WAITS, *_COUNTS)
"""The names of the values of `StageCounters`, in their order."""
_NANOSECONDS = 1e-9
_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class InputStats:
    """The work of an input since it was opened, all of its processes together.

    Seconds of stages are summed over threads and processes, so they may exceed the elapsed time.
    Batches that were made ahead count in the stages before the trainer gets them.

    Args:
        batches: batches that the trainer got; without a batch size, examples.
        records: records that were read, with those read again after damage.
        raw_records: records made from raw inputs, not read from shards.
        record_bytes: the bytes of all records as stored in uncompressed shards, with framing.
        cache_hits: ranges of files that were read from the cache folder; 0 without a cache.
        cache_misses: ranges that had to be fetched first.
        substituted: records that could not be read and were replaced by others.
        read_seconds: locating records and reading their bytes.
        check_seconds: verifying checksums.
        parse_seconds: parsing examples to columns of values.
        decode_seconds: making arrays: decoding images and audio, padding lists, cutting packs.
        augment_seconds: changing pixels as `augment` asks, and mixing rows.
        wait_for_trainer_seconds: the time between batches, while the input waits for the trainer.
        wait_for_data_seconds: the time that the trainer waits for batches.
    """

    batches: int = 0
    records: int = 0
    raw_records: int = 0
    record_bytes: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    substituted: int = 0
    read_seconds: float = 0.0
    check_seconds: float = 0.0
    parse_seconds: float = 0.0
    decode_seconds: float = 0.0
    augment_seconds: float = 0.0
    wait_for_trainer_seconds: float = 0.0
    wait_for_data_seconds: float = 0.0

    def __add__(self, other: "InputStats") -> "InputStats":
        return self._combined(other, 1)

    def __sub__(self, other: "InputStats") -> "InputStats":
        return self._combined(other, -1)

    def _combined(self, other: "InputStats", sign: int) -> "InputStats":
        names = [field.name for field in dataclasses.fields(self)]
        return InputStats(
            **{name: getattr(self, name) + sign * getattr(other, name) for name in names}
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by stage, in order, with both waits last."""
        return {stage: getattr(self, f"{stage}_seconds") for stage in (*STAGES, *WAITS)}

    @property
    def slowest_stage(self) -> str:
        """The stage that takes the most seconds of threads, without the waits."""
        return max(STAGES, key=self.seconds.__getitem__)

    def __repr__(self) -> str:
        """Return the counts, and the seconds of each stage, in three lines."""
        counts = [
            quantity(self.batches, "batch", "batches"),
            quantity(self.records, "record"),
            f"{self.record_bytes / 1e6:,.1f} MB",
        ]
        if self.raw_records:
            counts[1] += f" ({self.raw_records:,} of raw inputs)"
        if self.cache_hits or self.cache_misses:
            counts.append(f"cache: {self.cache_hits:,} hits, {self.cache_misses:,} misses")
        if self.substituted:
            counts.append(f"{quantity(self.substituted, 'record')} substituted")
        stages = ", ".join(f"{name} {self.seconds[name]:.3f}" for name in STAGES)
        return (
            f"InputStats: {', '.join(counts)}\n"
            f"  seconds of threads: {stages}\n"
            f"  seconds of waiting: for data {self.wait_for_data_seconds:.3f}, "
            f"for the trainer {self.wait_for_trainer_seconds:.3f}"
        )


class StageCounters:
    """Counters of all threads of a process; a forked process starts at zero.

    Attributes:
        waits: the clock of the thread that takes batches.
        unreadable: the records that others replaced.
    """

    def __init__(self) -> None:
        self.waits, self.unreadable = WaitClock(), dict[Any, str]()
        self._start()

    def _start(self) -> None:
        # A thread of the parent may have held the lock when this process was forked. Reentrant: a
        # collection of garbage within `add` may read the stats, in the same thread.
        self._lock, self._process = threading.RLock(), os.getpid()
        self._amounts = dict.fromkeys(COUNTERS, 0)
        self.waits.reset()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return arguments to rebuild this in another process, where it starts at zero."""
        return StageCounters, ()

    def start_in_process(self) -> None:
        """Start at zero if this process was forked since the last call."""
        if self._process != os.getpid():
            self._start()

    def add(self, **amounts: int) -> None:
        """Add nanoseconds of stages, and counts."""
        self.start_in_process()
        with self._lock:
            total = self._amounts
            for name, amount in amounts.items():
                total[name] += amount

    def values(self) -> list[int]:
        """Return the counters in the order of `COUNTERS`; times are in nanoseconds."""
        self.start_in_process()
        with self._lock:
            amounts = dict(self._amounts)
        amounts["wait_for_trainer"] += self.waits.for_trainer
        amounts["wait_for_data"] += self.waits.for_data
        amounts["batches"] += self.waits.batches
        return [*amounts.values()]

    def stats(self) -> InputStats:
        """Return the counters as stats."""
        return stats_of(self.values(), substituted=len(self.unreadable))

    def add_values(self, values: Sequence[int]) -> None:
        """Add the counters of another process."""
        self.add(**dict(zip(COUNTERS, values, strict=True)))


def stats_of(values: Sequence[int], *, substituted: int) -> InputStats:
    """Return values of `StageCounters` as stats."""
    amounts = dict(zip(COUNTERS, values, strict=True))
    times = {f"{name}_seconds": amounts[name] * _NANOSECONDS for name in (*STAGES, *WAITS)}
    counts = {name: amounts[name] for name in _COUNTS}
    return InputStats(substituted=substituted, **counts, **times)  # type: ignore[arg-type]


class WaitClock:
    """A clock of the thread that takes batches, which measures both waits in nanoseconds.

    It has no lock, since a lock would cost more than the rest of taking a small batch.

    Attributes:
        for_trainer: the time between batches.
        for_data: the time that the trainer waited for batches.
        batches: the number of batches taken.
        check: a function to call now and then after a batch was taken, or None.
    """

    _CHECK_EVERY = 32  # batches

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None
        self.reset()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return arguments to rebuild this in another process, where it starts at zero."""
        return WaitClock, ()

    def measure(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Yield items, and measure how long their consumer waits for them and in between."""
        asked = perf_counter_ns()  # `ask` and `take` inlined: calls would cost more than the rest
        for item in items:
            taken = perf_counter_ns()
            self.for_data += taken - asked
            self.batches += 1
            if not self.batches % self._CHECK_EVERY and self.check is not None:
                self.check()
            yield item
            asked = perf_counter_ns()
            self.for_trainer += asked - taken

    def as_fields(self) -> dict[str, Any]:
        """Return the counts as fields of `InputStats`."""
        return {
            "batches": self.batches,
            "wait_for_trainer_seconds": self.for_trainer * _NANOSECONDS,
            "wait_for_data_seconds": self.for_data * _NANOSECONDS,
        }

    def reset(self) -> None:
        """Set all counts to zero."""
        self.for_trainer = self.for_data = self.batches = 0
        self._asked = self._taken = 0

    def restart(self) -> None:
        """Start an iteration: the time since the last batch was not the trainer's."""
        self._taken = 0

    def ask(self) -> None:
        """Note that the consumer asks for a batch."""
        self._asked = perf_counter_ns()
        if self._taken:
            self.for_trainer += self._asked - self._taken

    def take(self, *, has_waited: bool = True) -> None:
        """Note that the consumer takes the batch that it asked for.

        Args:
            has_waited: whether the trainer waited meanwhile. In a loader's process, it did not.
        """
        self._taken = perf_counter_ns()
        self.batches += 1
        if has_waited:
            self.for_data += self._taken - self._asked
            if self.check is not None and not self.batches % self._CHECK_EVERY:
                self.check()
