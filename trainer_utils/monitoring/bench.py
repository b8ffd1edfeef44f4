"""How fast each stage of an input is on this machine, and what bounds it.

    report = measure_input(uri, "train", batch_size=64, features="image", image_size=(224, 224))
    print(report.render())

The stages are those of `input_fn`, in its order of records. One is measured with all before it, so
that each line is what the trainer would get if the rest cost nothing; a stage's own share is what
it adds to the time of the one before.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer_utils.dataset.location import Artifacts
from trainer_utils.dataset.selection import mean_bytes, open_sources
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.input_pipeline import InputPipeline
from trainer_utils.machine import cpu_seconds, usable_cores
from trainer_utils.options import choose_options
from trainer_utils.reading.decoding_threads import batches_at_once
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.raw_ops import flat_map, map_elements, unbatch
from trainer_utils.text_output import Part, as_text, make_table, quantity

__all__ = ["InputReport", "Stage", "measure_input", "report_of"]

_WARM_UP = 5  # batches: tracing, opening of files
_BUSY = 0.8  # of the cores' time: the processor bounds it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage with all before it.

    Args:
        name: `read`, `parse`, `decode` or `batch`.
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
class InputReport:
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
    """

    stages: tuple[Stage, ...]
    batch_size: int
    cores: int
    bound: str
    slowest: str
    step_seconds: float

    def to_dict(self) -> JsonObject:
        """All of it as JSON takes it."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """What a person sees: a table and two sentences."""
        header = ["stage", "records/s", "MB/s", "cores busy", "ms/record"]
        rows = [
            [
                stage.name,
                round(stage.records_per_second),
                round(stage.megabytes_per_second),
                f"{stage.busy:.0%}",
                f"{stage.added_milliseconds:.3f}",
            ]
            for stage in self.stages
        ]
        return [
            make_table(header, rows, right=header[3:]),
            f"Bound by: {self.bound}, mostly in {self.slowest}, on "
            f"{quantity(self.cores, 'core')}. {_CURES[self.bound]}",
            f"A step of {quantity(self.batch_size, 'record')} that takes the accelerator at least "
            f"{self.step_seconds * 1000:,.1f} ms never waits for this input.",
        ]

    def render(self) -> str:
        """All of it as a table and two sentences."""
        return as_text(self.parts())


_CURES = {
    "storage": "Set cache='disk' or cache='memory', or put the shards nearer.",
    "processor": (
        "Decode less: ImageExampleGen(resize_shorter_side=…) or encoding='raw'; or let other "
        "machines do it: data_service=…"
    ),
    "copying": (
        "Cores are idle while one thread hands on. Ask for less: uint8 in place of normalize=…, "
        "fewer features, a smaller image_size; or take a larger batch_size."
    ),
}


def measure_input(
    artifact_uri: Artifacts,
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
        seconds: that each of the four stages is measured for; a dataset that is shorter is gone
            through again.

    Returns:
        The report.

    Raises:
        DatasetError, ConfigError: as `input_fn`; or there are no records.
    """
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ConfigError.of("seconds", seconds, allowed="a number above 0")
    # With `shuffle` the first batch would wait for a full window.
    settings = {"shuffle": False, **options, "batch_size": batch_size, "repeat": True}
    chosen = choose_options(
        None, settings, of="measure_input", arguments=("split", "batch_size", "seconds")
    )
    sources = open_sources(artifact_uri, split)
    pipeline = InputPipeline(sources, chosen)
    if not pipeline.order.layout.steps:
        raise DatasetError(f"split {split!r}: expected records to measure with, got none")
    measured = {name: _measure(dataset, seconds) for name, dataset in _stages(pipeline).items()}
    return report_of(
        measured, batch_size=batch_size, mean_bytes=mean_bytes(sources), cores=usable_cores()
    )


def report_of(
    measured: Mapping[str, tuple[float, float]], *, batch_size: int, mean_bytes: float, cores: int
) -> InputReport:
    """Draws conclusions: pure, from records per second and the share of busy cores by stage."""
    stages = []
    before = 0.0
    for name, (rate, busy) in measured.items():
        milliseconds = 1000 / rate
        stages.append(
            Stage(
                name=name,
                records_per_second=rate,
                megabytes_per_second=rate * mean_bytes / 1e6,
                busy=busy,
                added_milliseconds=max(0.0, milliseconds - before),
            )
        )
        before = max(before, milliseconds)
    last = stages[-1]
    slowest = max(stages, key=lambda stage: stage.added_milliseconds)
    if max(last.busy, slowest.busy) >= _BUSY:
        bound = "processor"
    else:  # there are idle cores, which more decoding at a time would use
        bound = "storage" if slowest.name == "read" else "copying"
    return InputReport(
        stages=tuple(stages),
        batch_size=batch_size,
        cores=cores,
        bound=bound,
        slowest=slowest.name,
        step_seconds=batch_size / last.records_per_second,
    )


def _stages(pipeline: InputPipeline) -> dict[str, tf.data.Dataset]:
    """The work of an input without end, up to each stage: an element a step."""
    batches, rows = pipeline.batches, _rows(pipeline)
    parser, direct = batches.parser, batches.direct
    if direct is not None:  # one call does it all, as many at a time as there
        size = pipeline.order.layout.rows_per_replica
        works = {
            "read": lambda _, positions: direct.read(positions),
            "parse": lambda _, positions: direct.undecoded(positions),
            "decode": lambda epoch, positions: direct.batch(positions, epoch),
        }
        stages = {
            name: map_elements(rows, _nothing_of(work), parallel=batches_at_once(size))
            for name, work in works.items()
        }
        return {**stages, "batch": pipeline.dataset}
    return {
        "read": rows,
        "parse": map_elements(
            rows,
            _nothing_of(lambda _, records: parser.undecoded(records)),
            parallel=usable_cores(),
        ),
        "decode": _decoded(rows, parser, pipeline.order.layout.batch_size),
        "batch": pipeline.dataset,
    }


def _rows(pipeline: InputPipeline) -> tf.data.Dataset:
    """The epoch, `() int64`, and the records of a step, or their positions where that is read."""

    def of_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        elements = pipeline.batches.rows(epoch, tf.constant(0, tf.int64))
        if isinstance(elements.element_spec, tuple):  # a mask beside them
            elements = map_elements(elements, lambda records, mask: records)
        return map_elements(elements, lambda records: (epoch, records))

    return flat_map(tf.data.Dataset.range(tf.int64.max), of_epoch)


def _decoded(
    serialized: tf.data.Dataset, parser: ExampleParser, batch_size: int
) -> tf.data.Dataset:
    """Decoded tensors that are not put together: batches of nothing."""
    if parser.is_vectorised:
        decode = _nothing_of(lambda epoch, records: parser.batch(records, epoch))
        return map_elements(serialized, decode, parallel=usable_cores())
    pairs = map_elements(
        serialized, lambda epoch, records: (tf.repeat(epoch, tf.size(records)), records)
    )
    decode = _nothing_of(lambda epoch, record: parser.example(record, epoch))
    return map_elements(unbatch(pairs), decode, parallel=usable_cores() + 2).batch(batch_size)


def _nothing_of(work: Callable[..., Any]) -> Callable[..., tf.Tensor]:
    """Work whose results are made, and let go: a zero for each record."""

    def run(epoch: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        made = tf.nest.flatten(work(epoch, records), expand_composites=True)
        with tf.control_dependencies(made):
            return tf.zeros(tf.shape(records), tf.uint8)

    return run


def _measure(dataset: tf.data.Dataset, seconds: float) -> tuple[float, float]:
    """Records per second, and the share of all cores that was busy."""
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread would count, and hold up the end
    options.threading.private_threadpool_size = usable_cores()
    options.threading.max_intra_op_parallelism = 1
    batches = iter(dataset.prefetch(2).with_options(options))
    for _ in itertools.islice(batches, _WARM_UP):
        pass
    started, cpu = time.perf_counter(), cpu_seconds()
    records = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        records += int(tf.nest.flatten(next(batches))[-1].shape[0])
    busy = (cpu_seconds() - cpu) / elapsed / usable_cores()
    return records / elapsed, min(busy, 1.0)
