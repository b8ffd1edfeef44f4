"""Count the records, bytes, rejects and seconds of conversions and balancing runs as metrics.

@measured("convert")
def convert(...) -> Converted: ...

Without OpenTelemetry it does nothing; see `trainer_utils/runtime/telemetry.py`.
"""

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from trainer_utils.format import Manifest
from trainer_utils.runtime import telemetry


class _Result(Protocol):
    """The result of a run that wrote a dataset."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the dataset."""


_Parameters = ParamSpec("_Parameters")
_Written = TypeVar("_Written", bound=_Result)


def measured(
    operation: str,
) -> Callable[[Callable[_Parameters, _Written]], Callable[_Parameters, _Written]]:
    """Return a decorator of a function that writes a dataset, which counts its runs.

    Args:
        operation: the attribute `operation` of the metrics.
    """

    def decorate(function: Callable[_Parameters, _Written]) -> Callable[_Parameters, _Written]:
        """Wrap a function so that its duration, error type and accounting are recorded."""

        @functools.wraps(function)
        def call(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Written:
            telemetry.export_if_used()
            started = time.perf_counter()
            attributes = {"operation": operation}
            try:
                written = function(*arguments, **named)
            except BaseException as error:
                attributes["error.type"] = type(error).__name__
                raise
            finally:
                telemetry.record_duration(time.perf_counter() - started, attributes)
            _count(operation, written.manifest)
            return written

        return call

    return decorate


def _count(operation: str, manifest: Manifest) -> None:
    """Add the counts of a written dataset to the metrics."""
    for split, accounting in manifest.accounting.items():
        attributes = {"operation": operation, "split": split}
        num_bytes = sum(shard.bytes for shard in manifest.shards_of(split))
        telemetry.count_run("tfx_shards.run.records", accounting.written, attributes)
        telemetry.count_run("tfx_shards.run.io", num_bytes, attributes)
    for code, count in manifest.reject_counts.items():
        attributes = {"operation": operation, "code": code}
        telemetry.count_run("tfx_shards.run.rejects", count, attributes)
