"""Measure each stage of an input on this machine, and find the bottleneck.

    print(measure_input(uri, "train", batch_size=64, image_size=(224, 224)))

Each stage is measured together with all earlier ones. Its own cost is the time that it adds.
"""

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity
from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import mean_bytes
from trainer_utils.options import choose_options
from trainer_utils.reading.batch_iterator import BatchIterator
from trainer_utils.reading.input_stats import STAGES, InputStats
from trainer_utils.reading.starvation import advise
from trainer_utils.runtime.machine import cpu_seconds, machine_seconds, usable_cores
from trainer_utils.runtime.threads import prefetch_map

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

BUSY = 0.8
"""From this share of the available core time on, the processor is the bottleneck."""
CURES = {
    "storage": "Set cache= to a fast disk, store the shards closer, or write more, smaller ones.",
    "processor": "Decode less: ImageExampleGen(resize_shorter_side=…) or encoding='raw'.",
    "copying": (
        "Cores are idle while one thread copies batches. Copy less: uint8 in place of normalize=…, "
        "fewer features, a smaller image_size; or use a larger batch_size."
    ),
}
"""Advice for each bottleneck."""

_WARM_UP = 5  # batches that are not measured, since they open files
_NOISE = 0.15  # share of core time used by other processes that is worth reporting


@dataclasses.dataclass(frozen=True)
class Stage:
    """The measurement of one stage together with all earlier ones.

    Args:
        name: `read`, `decode`, or `batch` for the ordered batches that `iterate` yields.
        records_per_second: the output rate.
        megabytes_per_second: the input rate in serialized records; 1 MB is 10^6 bytes.
        busy: the share of the time of all cores that it uses, in [0, 1].
        added_milliseconds: the time that it adds to each record, beyond earlier stages.
    """

    name: str
    records_per_second: float
    megabytes_per_second: float
    busy: float
    added_milliseconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputReport(TextReport):
    """The result of `measure_input`.

    Args:
        stages: the stages in order.
        batch_size: records per step.
        cores: the cores that this process may use.
        bound: the bottleneck: `processor` if the cores are busy, else `storage`, or `copying` of
            examples between stages and into batches, on one thread that the others wait for.
        slowest: the name of the stage that adds most time.
        step_seconds: the shortest training step that never waits for this input.
        others: the share of these cores that other processes used meanwhile, in [0, 1].
        stats: the work of the threads while batches were measured, as `stats()` counts it; None if
            it was not counted.
    """

    stages: tuple[Stage, ...]
    batch_size: int
    cores: int
    bound: str
    slowest: str
    step_seconds: float
    others: float = 0.0
    stats: InputStats | None = None

    def to_dict(self) -> JsonObject:
        """Return the report as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the report as a table and sentences."""
        header = ["stage", "records/s", "MB/s", "cores busy", "ms/record"]
        rows = [
            [name, round(rate), round(megabytes), f"{busy:.0%}", f"{added:.3f}"]
            for name, rate, megabytes, busy, added in map(dataclasses.astuple, self.stages)
        ]
        noise = (
            f"Other processes took {self.others:.0%} of the cores during the "
            "measurement. Measure again when they have ended."
        )
        return [
            make_table(header, rows, right=header[3:]),
            *([noise] if self.others >= _NOISE else []),
            *self._shares(),
            f"Bound by: {self.bound}, mostly in {self.slowest}, on "
            f"{quantity(self.cores, 'core')}. {CURES[self.bound]}",
            f"A step of {quantity(self.batch_size, 'record')} that takes the accelerator at least "
            f"{self.step_seconds * 1000:,.1f} ms never waits for this input.",
        ]

    def _shares(self) -> list[str]:
        """Return the sentences about each stage's share of the threads' work, if it is known."""
        work = 0.0 if self.stats is None else sum(self.stats.seconds[name] for name in STAGES)
        if self.stats is None or not work:
            return []
        shares = [f"{name} {self.stats.seconds[name] / work:.0%}" for name in STAGES]
        stage, busy = self.stats.slowest_stage, self.stages[-1].busy
        cure = advise(stage, busy=busy, parallel="processes=…")
        return [f"Work of the threads: {', '.join(shares)}. If a trainer waits: {cure}"]


def measure_input(
    artifact_uri: Inputs,
    split: str = "train",
    *,
    seconds: float = 2.0,
    **settings: "Unpack[InputSettings]",
) -> InputReport:
    """Measure each stage of an input.

    Args:
        artifact_uri, split: the dataset and the slice to read, as in `input_fn`.
        seconds: the duration of each of the three measurements. A small dataset is repeated.
        settings: fields of `InputOptions`, as in `input_fn`. Records are read in the order of the
            files by default.

    Raises:
        DatasetError: as for `input_fn`, or there are no records.
        ConfigError: as for `input_fn`, or `seconds` is not positive.
    """
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ConfigError.of("seconds", seconds, allowed="a number above 0")
    # Read in the order of the files by default, to measure sequential reads of a disk.
    given = {"shuffle": False, **settings, "repeat": True, "convert_to": None}
    options = choose_options(None, given, of=measure_input)
    batch_size = options.batch_size
    if batch_size is None:
        rule = "a number, since steps are measured"
        raise ConfigError.of("batch_size", None, allowed=rule)
    source = BatchIterator.open(artifact_uri, split, options)
    if not source.input_steps:
        raise DatasetError(f"split {split!r}: expected records to measure with, got none")
    before = machine_seconds() - cpu_seconds(), time.perf_counter()
    measured = {}
    for name, steps in _stages(source).items():
        earlier = source.stats()
        measured[name] = _measure(steps, seconds)
    stats = source.stats() - earlier  # of the last stage: the batches that a trainer gets
    others = machine_seconds() - cpu_seconds() - before[0]
    idle = (os.cpu_count() or 1) - usable_cores()  # cores that this process may not use
    share = (others / (time.perf_counter() - before[1]) - idle) / usable_cores()
    return report_of(
        measured,
        batch_size=batch_size,
        mean_bytes=mean_bytes(source.sources),
        cores=usable_cores(),
        others=min(max(share, 0.0), 1.0),
        stats=stats,
    )


def report_of(
    measured: Mapping[str, tuple[float, float]],
    *,
    batch_size: int,
    mean_bytes: float,
    cores: int,
    others: float = 0.0,
    stats: InputStats | None = None,
) -> InputReport:
    """Derive a report from the records per second and the busy share of cores of each stage."""
    stages, before = [], 0.0
    for name, (rate, busy) in measured.items():
        added = max(0.0, 1000 / rate - before)
        stages.append(Stage(name, rate, rate * mean_bytes / 1e6, busy, added))
        before += added
    last = stages[-1]
    slowest = max(stages, key=lambda stage: stage.added_milliseconds)
    bound = "storage" if slowest.name == "read" else "copying"  # idle cores could decode more
    if max(last.busy, slowest.busy) >= BUSY * (1 - others):
        bound = "processor"
    return InputReport(
        stages=tuple(stages),
        batch_size=batch_size,
        cores=cores,
        bound=bound,
        slowest=slowest.name,
        step_seconds=batch_size / last.records_per_second,
        others=others,
        stats=stats,
    )


def _stages(source: BatchIterator) -> dict[str, Iterator[int]]:
    """Return, for each stage, an endless iterator that runs all work up to it.

    The iterators yield the number of rows of each step.
    """
    steps, cores = source.input_steps, usable_cores()
    rows = [source.order.layout.size(step) for step in range(steps)]

    def side_by_side(work: Callable[[int, int], Any]) -> Iterator[int]:
        def make(number: int) -> int:
            work(*divmod(number, steps))
            return rows[number % steps]

        return prefetch_map(make, itertools.count(), threads=cores, most=2 * cores)

    return {
        "read": side_by_side(source.records),
        "decode": side_by_side(source.batch),
        "batch": (rows[step] for _, step, _ in source.made_ahead(itertools.count())),
    }


def _measure(steps: Iterator[int], seconds: float) -> tuple[float, float]:
    """Return the records per second, and the busy share of all cores."""
    for _ in itertools.islice(steps, _WARM_UP):
        pass
    started, cpu = time.perf_counter(), cpu_seconds()
    records = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        records += next(steps)
    busy = (cpu_seconds() - cpu) / elapsed / usable_cores()
    return records / elapsed, min(busy, 1.0)
