"""Work on files of one machine: by its processes, or an element of Beam a call.

    cost = Cost(calls=9, seconds=8.0, process_bytes=1 << 29)
    call_side_by_side(make_pipeline, write, names, cost=cost, paths=[uri])

Beam's in-process runner has one thread, and takes half a second to begin and to end. So where it
would run, calls are made without it, by the processes of `worker_pool` where that pays. On every
other runner, and where threads or processes were asked of Beam, each call is an element, which Beam
gives to whom it likes.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.tasks import Runner
from components.common.worker_pool import count_processes, run_all
from trainer_utils.storage import is_seen_by_others

__all__ = [
    "ByElement",
    "CallFn",
    "Cost",
    "InProcessPipeline",
    "call_side_by_side",
    "run_elements",
    "runner_of",
]

Work = Callable[[Any], dict[str, int]]


class InProcessPipeline(beam.Pipeline):
    """A pipeline of the in-process runner, whose work may go to processes of this machine.

    Args:
        argv: Beam's arguments.
        processes: the most that may work at a time; `ALL`: one a core.
    """

    def __init__(self, argv: list[str], *, processes: int) -> None:
        super().__init__(argv=argv)
        self.processes = processes

    def count_processes(self, cost: "Cost", paths: Sequence[str]) -> int:
        """How many processes do some work, this one among them; as `call_side_by_side` has it."""
        return count_processes(
            self.processes if all(map(is_seen_by_others, paths)) else 1,
            tasks=cost.calls,
            seconds=cost.seconds,
            process_bytes=cost.process_bytes,
        )


@dataclasses.dataclass(frozen=True)
class Cost:
    """What some work takes.

    Args:
        calls: how many there are.
        seconds: of one core, about.
        process_bytes: the memory that a process needs for one call, at the most.
    """

    calls: int
    seconds: float
    process_bytes: int


def call_side_by_side(
    make_pipeline: Callable[[], beam.Pipeline],
    work: Work,
    arguments: Iterable[Any],
    *,
    cost: Cost,
    paths: Sequence[str],
) -> None:
    """Calls `work` for each argument, and waits.

    Args:
        make_pipeline: of the runner that was asked for.
        work: can be pickled; returns counts, which are added to Beam's counters of these names
            where Beam runs.
        arguments: of the calls; with processes, these start while the arguments are made.
        cost: of all calls together.
        paths: what the calls read and write. Where other processes do not see all of it for
            certain, the calls stay in this one.

    Raises:
        Exception: what a call raises; of another runner, as Beam raises it.
    """
    pipeline = make_pipeline()
    if isinstance(pipeline, InProcessPipeline):
        run_all(work, arguments, processes=pipeline.count_processes(cost, paths))
    else:
        run_elements(pipeline, ByElement(work, arguments))


def runner_of(make_pipeline: Callable[[], beam.Pipeline], module: str) -> Runner:
    """Who makes the calls of `map_tasks` where this would make a pipeline.

    Args:
        module: of `components`, where what is called comes from.
    """
    pipeline = make_pipeline()
    if isinstance(pipeline, InProcessPipeline):
        return Runner(processes=pipeline.processes, module=f"components.{module}")
    return Runner(make_pipeline=make_pipeline)


class ByElement(beam.PTransform[PBegin, PCollection[None]]):
    """Has workers call `work` for each element; all that comes of it are side effects."""

    def __init__(self, work: Work, elements: Iterable[Any]) -> None:
        super().__init__()
        self.work, self.elements = work, [*elements]

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The output holds nothing."""
        done: PCollection[None] = (
            begin
            | "Create" >> beam.Create(self.elements)
            | "Spread" >> beam.Reshuffle()
            | "Call" >> beam.ParDo(CallFn(self.work))
        )
        return done


def run_elements(pipeline: beam.Pipeline, transform: beam.PTransform[Any, Any]) -> None:
    """Runs a pipeline of one transform, and waits.

    In this process a `ByElement` runs without Beam, one element after the other.
    """
    if isinstance(pipeline, InProcessPipeline) and isinstance(transform, ByElement):
        for element in transform.elements:
            transform.work(element)
        return
    with pipeline:
        _ = pipeline | transform


class CallFn(beam.DoFn):
    """Calls `work`, and adds what it counts to Beam's counters."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def process(self, argument: Any) -> None:
        """One call."""
        for name, count in self._work(argument).items():
            beam.metrics.Metrics.counter("tfx_shards", name).inc(count)
