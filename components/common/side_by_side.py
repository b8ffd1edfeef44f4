"""Beam's part of work on files of one machine: an element a call, or one for all calls at once.

    cost = Cost(seconds=8.0, process_bytes=1 << 29)
    pipeline | SideBySide(write, names, cost=cost, paths=[uri])

Beam's in-process runner has one thread, so there all calls go to the processes of `worker_pool`,
where that pays. On every other runner, and where threads or processes were asked of Beam, each
call is an element, which Beam gives to whom it likes.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.pvalue import PBegin, PCollection

from components.common.worker_pool import count_processes, run_all
from trainer_utils.storage.paths import is_remote

__all__ = ["Cost", "InProcessPipeline", "SideBySide"]

Work = Callable[[Any], dict[str, int]]


class InProcessPipeline(beam.Pipeline):
    """A pipeline of the in-process runner, whose work may go to processes of this machine.

    Args:
        argv: Beam's arguments.
        processes: the most that may work at a time; `ALL`: one a core.
    """

    def __init__(self, argv: list[str], *, processes: int) -> None:
        super().__init__(argv=argv)
        is_single = self.options.view_as(DirectOptions).direct_running_mode == "in_memory"
        self.processes = processes if is_single else 1


@dataclasses.dataclass(frozen=True)
class Cost:
    """What some work takes.

    Args:
        seconds: of one core, about.
        process_bytes: the memory that a process needs for one call, at the most.
    """

    seconds: float
    process_bytes: int


class SideBySide(beam.PTransform[PBegin, PCollection[None]]):
    """Calls `work` for each argument, by as many processes as the pipeline has.

    Args:
        work: can be pickled; returns counts, which are added to Beam's counters of these names.
        arguments: of the calls.
        cost: of all calls together.
        paths: what the calls read and write. Other processes see local files alone for certain.
    """

    def __init__(
        self, work: Work, arguments: Sequence[Any], *, cost: Cost, paths: Sequence[str]
    ) -> None:
        super().__init__()
        self._work, self._arguments, self._cost = work, list(arguments), cost
        self._is_local = not any(map(is_remote, paths))

    def expand(self, begin: PBegin) -> PCollection[None]:
        """What the calls do is a side effect; the output holds nothing."""
        processes = self._processes(begin.pipeline)
        groups = [self._arguments] if processes > 1 else [[one] for one in self._arguments]
        done: PCollection[None] = (
            begin
            | "Create" >> beam.Create(groups)
            | "Call" >> beam.ParDo(_CallFn(self._work, processes))
        )
        return done

    def _processes(self, pipeline: beam.Pipeline) -> int:
        if not isinstance(pipeline, InProcessPipeline) or not self._is_local:
            return 1
        return count_processes(
            pipeline.processes,
            tasks=len(self._arguments),
            seconds=self._cost.seconds,
            process_bytes=self._cost.process_bytes,
        )


@beam.typehints.with_input_types(list[Any])
class _CallFn(beam.DoFn):
    def __init__(self, work: Work, processes: int) -> None:
        self._work, self._processes = work, processes

    def process(self, arguments: list[Any]) -> None:
        for counts in run_all(self._work, arguments, processes=self._processes):
            for name, count in counts.items():
                beam.metrics.Metrics.counter("tfx_shards", name).inc(count)
