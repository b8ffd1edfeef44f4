"""How fast each stage of an input is on this machine, and what bounds it.

    print(measure_input(uri, "train", batch_size=64, image_size=(224, 224)))

One stage is measured with all before it; its own share is what it adds to the time of that.
"""

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.selection import mean_bytes
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.frameworks.numpy import Input
from trainer_utils.machine import cpu_seconds, machine_seconds, run_ahead, usable_cores
from trainer_utils.options import choose_options
from trainer_utils.text_output import Part, Shown, make_table, quantity

BUSY = 0.8
"""Of the cores' time that others leave: from there on the processor bounds an input."""
CURES = {
    "storage": "Set cache= to a fast disk, put the shards nearer, or write more, smaller ones.",
    "processor": "Decode less: ImageExampleGen(resize_shorter_side=…) or encoding='raw'.",
    "copying": (
        "Cores are idle while one thread hands on. Ask for less: uint8 in place of normalize=…, "
        "fewer features, a smaller image_size; or take a larger batch_size."
    ),
}
"""What to change, by what bounds an input."""

_WARM_UP = 5  # batches: opening of files
_NOISE = 0.15  # of the cores' time: of other processes, to be told


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage with all before it.

    Args:
        name: `read`, `decode` or `batch`: what comes out in order, as `iterate` has it.
        records_per_second: that come out of it.
        megabytes_per_second: of serialized records that go into it, 1 MB being 10^6 bytes.
        busy: the share of all cores' time that it takes, in [0, 1].
        added_milliseconds: that it adds to a record, beyond the stages before it.
    """

    name: str
    records_per_second: float
    megabytes_per_second: float
    busy: float
    added_milliseconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputReport(Shown):
    """What `measure_input` found.

    Args:
        stages: in the order of the work.
        batch_size: records of a step.
        cores: that this process may use.
        bound: `processor` where the cores are busy; else `storage`, or `copying` of examples from
            stage to stage and into batches, on one thread that the others wait for.
        slowest: the name of the stage that adds most.
        step_seconds: what a training step may cost at least, so that it never
            waits for the input.
        others: the share of these cores that other processes took meanwhile, in [0, 1].
    """

    stages: tuple[Stage, ...]
    batch_size: int
    cores: int
    bound: str
    slowest: str
    step_seconds: float
    others: float = 0.0

    def to_dict(self) -> JsonObject:
        """All of it as JSON takes it."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """What a person sees: a table and two sentences."""
        header = ["stage", "records/s", "MB/s", "cores busy", "ms/record"]
        rows = [
            [name, round(rate), round(megabytes), f"{busy:.0%}", f"{added:.3f}"]
            for name, rate, megabytes, busy, added in map(dataclasses.astuple, self.stages)
        ]
        noise = (
            f"Other processes took {self.others:.0%} of the cores meanwhile: without them it "
            "is faster. Measure again when they have ended."
        )
        return [
            make_table(header, rows, right=header[3:]),
            *([noise] if self.others >= _NOISE else []),
            f"Bound by: {self.bound}, mostly in {self.slowest}, on "
            f"{quantity(self.cores, 'core')}. {CURES[self.bound]}",
            f"A step of {quantity(self.batch_size, 'record')} that takes the accelerator at least "
            f"{self.step_seconds * 1000:,.1f} ms never waits for this input.",
        ]


def measure_input(
    artifact_uri: Inputs,
    split: str = "train",
    *,
    batch_size: int = 64,
    seconds: float = 2.0,
    **options: Any,
) -> InputReport:
    """Measures each stage of an input for some time.

    Args:
        artifact_uri, split, options: as `input_fn` takes them.
        batch_size: of one step, in records.
        seconds: that each of the three stages is measured for; a dataset that is shorter is gone
            through again.

    Raises:
        DatasetError, ConfigError: as `input_fn`; or there are no records.
    """
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ConfigError.of("seconds", seconds, allowed="a number above 0")
    # In the order of the files unless asked, so that a disk is measured by what it reads in a row.
    settings = {"shuffle": False, **options, "batch_size": batch_size, "repeat": True}
    source = Input.open(artifact_uri, split, choose_options(None, settings, of=measure_input))
    if not source.input_steps:
        raise DatasetError(f"split {split!r}: expected records to measure with, got none")
    before = machine_seconds() - cpu_seconds(), time.perf_counter()
    measured = {name: _measure(steps, seconds) for name, steps in _stages(source).items()}
    others = machine_seconds() - cpu_seconds() - before[0]
    idle = (os.cpu_count() or 1) - usable_cores()  # cores that are not ours: others' in any case
    share = (others / (time.perf_counter() - before[1]) - idle) / usable_cores()
    return report_of(
        measured,
        batch_size=batch_size,
        mean_bytes=mean_bytes(source.sources),
        cores=usable_cores(),
        others=min(max(share, 0.0), 1.0),
    )


def report_of(
    measured: Mapping[str, tuple[float, float]],
    *,
    batch_size: int,
    mean_bytes: float,
    cores: int,
    others: float = 0.0,
) -> InputReport:
    """Draws conclusions: pure, from records per second and the share of busy cores by stage."""
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
    )


def _stages(source: Input) -> dict[str, Iterator[int]]:
    """The work of an input without end, up to each stage: the rows of one step after the other."""
    steps, cores = source.input_steps, usable_cores()
    rows = [source.order.layout.size(step) for step in range(steps)]

    def side_by_side(work: Callable[[int, int], Any]) -> Iterator[int]:
        def make(number: int) -> int:
            work(*divmod(number, steps))
            return rows[number % steps]

        return run_ahead(make, itertools.count(), threads=cores, most=2 * cores)

    return {
        "read": side_by_side(source.records),
        "decode": side_by_side(source.batch),
        "batch": (rows[step] for _, step, _ in source.made_ahead(itertools.count())),
    }


def _measure(steps: Iterator[int], seconds: float) -> tuple[float, float]:
    """Records per second, and the share of all cores that was busy."""
    for _ in itertools.islice(steps, _WARM_UP):
        pass
    started, cpu = time.perf_counter(), cpu_seconds()
    records = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        records += next(steps)
    busy = (cpu_seconds() - cpu) / elapsed / usable_cores()
    return records / elapsed, min(busy, 1.0)
