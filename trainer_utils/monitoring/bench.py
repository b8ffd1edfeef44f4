"""How fast each stage of an input is on this machine, and what bounds it.

    report = measure_input(uri, "train", batch_size=64, features="image", image_size=(224, 224))
    print(report.render())

A stage is measured with all before it, so that each line is what the trainer would get if the rest
cost nothing; a stage's own share is what it adds to the time of the one before.
"""

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.dataset import Dataset, open_dataset
from trainer_utils.dataset.merging import merged
from trainer_utils.format import ConfigError, DatasetError, Feature, resolve_slices
from trainer_utils.input_pipeline import input_fn
from trainer_utils.machine import usable_cores
from trainer_utils.reading.decoding import DecodeOptions
from trainer_utils.reading.parsing import ExampleParser
from trainer_utils.reading.randomness import with_epoch_seed
from trainer_utils.text_output import Part, as_text, make_table, quantity

__all__ = ["InputReport", "Stage", "measure_input", "report_of"]

_READ_BYTES = 1 << 20
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

    def to_dict(self) -> dict[str, Any]:
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
    artifact_uri: Any,
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
        raise ConfigError(f"seconds: expected a number above 0, got {seconds!r}")
    options = {"shuffle": False, **options}  # the first batch would wait for a full buffer
    settings = {**options, "batch_size": batch_size, "repeat": True}
    whole = input_fn(artifact_uri, split, **settings)
    uris = artifact_uri if isinstance(artifact_uri, (list, tuple)) else [artifact_uri]
    datasets = [open_dataset(uri) for uri in uris]
    paths, mean_bytes = _shards(datasets, split)
    parser = ExampleParser(_features(datasets, options), _decoding(options))
    records = _records(paths).batch(batch_size)
    pipelines = {
        "read": records,
        "parse": records.map(_nothing_of(parser.undecoded), usable_cores()),
        "decode": _decoded(paths, parser, batch_size),
        "batch": whole,
    }
    measured = {name: _measure(data, batch_size, seconds) for name, data in pipelines.items()}
    return report_of(measured, batch_size=batch_size, mean_bytes=mean_bytes, cores=usable_cores())


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


def _shards(datasets: Sequence[Dataset], split: str) -> tuple[list[str], float]:
    """The files of a split, and the mean bytes of a record."""
    paths, total_bytes, records = [], 0, 0
    for dataset in datasets:
        slices = resolve_slices(split, dataset.records)
        wanted = {part.split for part in slices if part.start < part.stop}
        for shard in itertools.chain.from_iterable(dataset.shards[name] for name in wanted):
            if shard.records:
                paths.append(shard.path)
                total_bytes, records = total_bytes + shard.bytes, records + shard.records
    if not records:
        raise DatasetError(f"split {split!r}: expected records to measure with, got none")
    return paths, total_bytes / records


def _features(datasets: Sequence[Dataset], options: Mapping[str, Any]) -> dict[str, Feature]:
    asked, label = options.get("features"), options.get("label")
    names = list(datasets[0].features) if asked is None else asked
    names = [names] if isinstance(names, str) else [*names]
    if label is not None and label not in names:
        names.append(label)
    return {name: merged([dataset.features[name] for dataset in datasets]) for name in names}


def _decoding(options: Mapping[str, Any]) -> DecodeOptions:
    fields = {field.name for field in dataclasses.fields(DecodeOptions)}
    return DecodeOptions(**{name: value for name, value in options.items() if name in fields})


def _records(paths: Sequence[str]) -> tf.data.Dataset:
    """Serialized records, without end."""
    compression = "GZIP" if paths[0].endswith(".gz") else ""
    at_once = min(len(paths), usable_cores())
    records = tf.data.TFRecordDataset(list(paths), compression, _READ_BYTES, at_once)
    return records.repeat()


def _decoded(paths: Sequence[str], parser: ExampleParser, batch_size: int) -> tf.data.Dataset:
    """Decoded tensors that are not put together: batches of nothing."""
    records = _records(paths)
    if parser.is_vectorised:
        batches = records.batch(batch_size)
        batches = with_epoch_seed(batches, 0) if parser.is_random else batches
        return batches.map(_nothing_of(parser.batch), usable_cores())
    if parser.is_random:
        records = with_epoch_seed(records, 0)
    return records.map(_nothing_of(parser.example), usable_cores() + 2).batch(batch_size)


def _nothing_of(work: Callable[..., Any]) -> Callable[..., tf.Tensor]:
    """Work whose results are made, and let go."""

    def run(*element: tf.Tensor) -> tf.Tensor:
        made = tf.nest.flatten(work(*element), expand_composites=True)
        with tf.control_dependencies(made):
            return tf.zeros((), tf.uint8)

    return run


def _measure(dataset: tf.data.Dataset, batch_size: int, seconds: float) -> tuple[float, float]:
    """Records per second, and the share of all cores that was busy."""
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread would count, and hold up the end
    options.threading.private_threadpool_size = usable_cores()
    options.threading.max_intra_op_parallelism = 1
    batches = iter(dataset.prefetch(2).with_options(options))
    for _ in itertools.islice(batches, _WARM_UP):
        pass
    started, cpu = time.perf_counter(), _cpu_seconds()
    taken = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        next(batches)
        taken += 1
    busy = (_cpu_seconds() - cpu) / elapsed / usable_cores()
    return taken * batch_size / elapsed, min(busy, 1.0)


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system
