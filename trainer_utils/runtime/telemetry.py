"""Export metrics of inputs and runs through OpenTelemetry, if the program uses it.

    set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    export_metrics()

Inputs are observed when an exporter collects. So exporting costs an input nothing in between.
OpenTelemetry is imported by `export_metrics` only. A program that has imported its SDK need not
call it: the first input or run does.
"""

import dataclasses
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainer_utils.core.errors import ConfigError

Attributes = Mapping[str, str | int]
Amounts = Mapping[str, Mapping[str, float]]
"""Values by metric, and by stage; the stage of a metric without stages is an empty string."""

STAGE_TIME = "tfx_shards.input.stage.time"
_SDK = "opentelemetry.sdk.metrics"
_UNITS_OF_INPUTS = {
    STAGE_TIME: ("s", "Seconds of an input by stage, summed over threads and processes"),
    "tfx_shards.input.batches": ("{batch}", "Batches that the trainer got"),
    "tfx_shards.input.records": ("{record}", "Records that were read"),
    "tfx_shards.input.io": ("By", "Bytes of the records that were read"),
    "tfx_shards.input.cache.hits": ("{range}", "Ranges that the cache folder held when needed"),
    "tfx_shards.input.cache.misses": ("{range}", "Ranges that had to be fetched when needed"),
    "tfx_shards.input.substituted": ("{record}", "Unreadable records replaced by others"),
}
_UNITS_OF_RUNS = {
    "tfx_shards.run.records": ("{record}", "Records written by conversions and balancing"),
    "tfx_shards.run.io": ("By", "Bytes of the shards written"),
    "tfx_shards.run.rejects": ("{input}", "Bad inputs that were left out"),
}
_DURATION = "tfx_shards.run.duration"
_DURATION_BOUNDS = [1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400]  # seconds
METRICS = (*_UNITS_OF_INPUTS, *_UNITS_OF_RUNS, _DURATION)
"""The names of all metrics."""


@dataclasses.dataclass
class _Input:
    """An input that is observed.

    Attributes:
        attributes: its attributes.
        amounts: returns its amounts since it was opened. It must not refer to the input.
        latest: the amounts that were observed last.
    """

    attributes: Attributes
    amounts: Callable[[], Amounts]
    latest: Amounts = dataclasses.field(default_factory=dict)


class InputRegistry:
    """The inputs of this process, and the sums of collected inputs.

    Counters must never fall, so the amounts of an input stay when it is garbage-collected.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        """Start empty; a forked process opens other inputs."""
        self._lock, self._process = threading.RLock(), os.getpid()
        self._inputs: dict[int, _Input] = {}
        self._gone: list[tuple[Attributes, Amounts]] = []
        self._next = self._num_gone = 0

    def add(
        self,
        owner: object,
        attributes: Attributes,
        amounts: Callable[[], Amounts],
        *,
        is_read_at_end: bool = True,
    ) -> None:
        """Observe an input until its owner is garbage-collected.

        Args:
            owner: the object that the program holds.
            attributes: the attributes of all its metrics.
            amounts: returns its amounts. It must not refer to the owner.
            is_read_at_end: whether `amounts` may be called while garbage is collected. Otherwise
                the amounts of the last observation stay.
        """
        if self._process != os.getpid():
            self._start()
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._inputs[number] = _Input(attributes, amounts)
        weakref.finalize(owner, self._retire, number, is_read_at_end).atexit = False

    def _retire(self, number: int, is_read_at_end: bool) -> None:
        if self._process != os.getpid():  # the parent's input
            return
        with self._lock:
            if number not in self._inputs:  # the parent's input, after this process opened others
                return
            source = self._inputs.pop(number)
            latest = source.amounts() if is_read_at_end else source.latest
            self._gone = _summed([*self._gone, (source.attributes, latest)])
            self._num_gone += 1

    def observe(self) -> list[tuple[Attributes, Amounts]]:
        """Return attributes and amounts of all inputs, equal attributes once."""
        if self._process != os.getpid():  # a loader's process reports to its parent
            return []
        with self._lock:
            while True:
                before, gone = self._num_gone, self._gone
                present = [*self._inputs.values()]
                for source in present:
                    source.latest = source.amounts()
                # Otherwise an input was collected meanwhile, in this thread.
                if before == self._num_gone:
                    return _summed(
                        [*gone, *((source.attributes, source.latest) for source in present)]
                    )


def _summed(measured: Iterable[tuple[Attributes, Amounts]]) -> list[tuple[Attributes, Amounts]]:
    """Return the sums of the amounts that have equal attributes."""
    sums: dict[tuple[tuple[str, str | int], ...], dict[str, dict[str, float]]] = {}
    for attributes, amounts in measured:
        total = sums.setdefault(tuple(attributes.items()), {})
        for metric, values in amounts.items():
            of_metric = total.setdefault(metric, {})
            for stage, value in values.items():
                of_metric[stage] = of_metric.get(stage, 0) + value
    return [(dict(key), total) for key, total in sums.items()]


inputs = InputRegistry()
"""The inputs of this process."""


class _Exporter:
    """The instruments of one meter provider.

    Args:
        metrics: the module `opentelemetry.metrics`.
        provider: the meter provider; None for the global one, which may be set later.
    """

    def __init__(self, metrics: Any, provider: Any) -> None:
        self._observation = metrics.Observation
        meter = metrics.get_meter("tfx_shards", meter_provider=provider)
        for name, (unit, description) in _UNITS_OF_INPUTS.items():
            meter.create_observable_counter(name, [self._callback(name)], unit, description)
        self._counters = {
            name: meter.create_counter(name, unit, description)
            for name, (unit, description) in _UNITS_OF_RUNS.items()
        }
        self._duration = meter.create_histogram(
            _DURATION,
            "s",
            "Seconds of conversions and balancing",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDS,
        )

    def _callback(self, name: str) -> Callable[[Any], list[Any]]:
        def observe(_: Any) -> list[Any]:
            return [
                self._observation(value, {**attributes, **({"stage": stage} if stage else {})})
                for attributes, amounts in inputs.observe()
                for stage, value in amounts.get(name, {}).items()
            ]

        return observe

    def count(self, name: str, amount: int, attributes: Attributes) -> None:
        """Add to a counter of runs."""
        self._counters[name].add(amount, dict(attributes))

    def record_duration(self, seconds: float, attributes: Attributes) -> None:
        """Add the duration of a run."""
        self._duration.record(seconds, dict(attributes))


_exporters: dict[int, _Exporter] = {}  # by identity of the provider; 0 is the global one
_lock = threading.Lock()


def export_metrics(meter_provider: Any = None) -> None:
    """Export the metrics of all inputs, conversions and balancing runs of this process.

    Inputs that are already open are included. A further call with the same provider does nothing.

    Args:
        meter_provider: the `MeterProvider` of OpenTelemetry. None: the global one, which the
            program may set before or after this call.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ConfigError(
            "export_metrics: expected OpenTelemetry, found none. Install it: pip install "
            "'tfx-shards[metrics]'. The stats() of an input needs nothing."
        ) from error
    with _lock:
        key = 0 if meter_provider is None else id(meter_provider)
        if key not in _exporters:
            _exporters[key] = _Exporter(metrics, meter_provider)


def export_if_used() -> None:
    """Export metrics if the program has imported OpenTelemetry's SDK, and does not export yet."""
    if not _exporters and _SDK in sys.modules:
        export_metrics()


def count_run(name: str, amount: int, attributes: Attributes) -> None:
    """Add to a counter of runs.

    Args:
        name: a metric of `METRICS`.
        amount: the amount to add.
        attributes: the attributes of the run.
    """
    for exporter in [*_exporters.values()]:
        exporter.count(name, amount, attributes)


def record_duration(seconds: float, attributes: Attributes) -> None:
    """Add the duration of a run in seconds."""
    for exporter in [*_exporters.values()]:
        exporter.record_duration(seconds, attributes)
