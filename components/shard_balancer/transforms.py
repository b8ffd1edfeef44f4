"""The Beam side of balancing: which move runs as which element.

pipeline | balance_splits(plans, Move(uri=uri, settings=settings, infer=frozenset({0})))
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.side_by_side import ByElement
from components.common.summaries import check_shared, working_folder, write_summary
from components.common.worker_errors import report_errors
from components.shard_balancer.changes import Changes, load_changes
from components.shard_balancer.kept_shards import KeptShard, KeptSplit, keep_shard
from components.shard_balancer.layout import Task
from components.shard_balancer.planning import SplitPlan
from components.shard_balancer.scatter_gather import (
    Reading,
    RunPart,
    gather_task,
    read_groups,
    read_part,
    scatter_records,
)
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.format import Shard

__all__ = ["STEPS", "Move", "balance_splits", "keep_shards"]

STEPS = ("survey", "scatter", "gather")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Move:
    """What all workers of a run know.

    Args:
        uri: of the new dataset.
        settings: of the component.
        infer: the numbers of the inputs whose features are to be found out on the way.
        changes_key: of what is to be changed of the records; None: nothing.
    """

    uri: str
    settings: BalancerSettings
    infer: frozenset[int] = frozenset()
    changes_key: str | None = None

    def changes(self) -> Changes | None:
        """What is to be changed of the records."""
        return load_changes(working_folder(self.uri), self.changes_key)

    def report(self, name: str, split: str, **found: Any) -> None:
        """Keeps shards as entries of the manifest, and what was read as numbers and facts."""
        summary: dict[str, Any] = {"split": split}
        if "shards" in found:
            summary["shards"] = [shard.to_entry() for shard in found["shards"]]
        if "reading" in found:
            summary |= dataclasses.asdict(found["reading"])
        write_summary(working_folder(self.uri), name, summary)


def balance_splits(plans: Sequence[SplitPlan], move: Move) -> beam.PTransform[Any, Any]:
    """What writes the new shards of all splits, with a summary of each move.

    Args:
        plans: of the splits.
        move: what all workers know.
    """
    in_one_pass = ByElement(_GatherSplitFn(move), [plan for plan in plans if plan.is_one_pass])
    if len(in_one_pass.elements) == len(plans):
        return in_one_pass
    return _BalanceSplits(plans, move, in_one_pass)


class _BalanceSplits(beam.PTransform[PBegin, PCollection[None]]):
    def __init__(self, plans: Sequence[SplitPlan], move: Move, in_one_pass: ByElement) -> None:
        super().__init__()
        self._in_one_pass = in_one_pass
        self._groups = [
            (place, number)
            for place, plan in enumerate(plans)
            if not plan.is_one_pass
            for number in range(len(plan.groups))
        ]
        self._scatter = _ScatterFn(plans, move)
        self._gather = _GatherFn(plans, move)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The shards and their summaries are side effects; the output holds nothing.

        Both ways end in one collection: DaskRunner computes the last of a pipeline alone, and what
        that one does not depend on is never run.
        """
        scattered = (
            begin
            | "CreateGroups" >> beam.Create(self._groups)
            | "SpreadLots" >> beam.Reshuffle()
            | "ScatterLots" >> beam.ParDo(self._scatter)
            | "GroupByTask" >> beam.GroupByKey()
            | "GatherTasks" >> beam.ParDo(self._gather)
        )
        done: PCollection[None] = (
            scattered,
            begin | "GatherSplits" >> self._in_one_pass,
        ) | "Finish" >> beam.Flatten()
        return done


class _ScatterFn(beam.DoFn):
    # Plans come with the function: they would be too large to cross a shuffle with each part.

    def __init__(self, plans: Sequence[SplitPlan], move: Move) -> None:
        self._plans, self._move = plans, move

    def process(
        self, element: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, int], tuple[int, RunPart]]]:
        move = self._move
        check_shared(move.uri)
        place, number = element
        plan = self._plans[place]
        group = plan.groups[number]
        name = f"scatter-{group.key}"
        reading = Reading.of(move.infer)
        with report_errors(move.uri, name):
            for task, bucket, part in scatter_records(
                group,
                plan.tasks,
                reading,
                uri=move.uri,
                memory_bytes=move.settings.held_bytes,
                changes=move.changes(),
                block_bytes=move.settings.block_bytes,
            ):
                yield (place, task), (bucket, part)
            move.report(name, group.layout.split, reading=reading)


class _WritingFn(beam.DoFn):
    """Writes shards, and counts their records."""

    def __init__(self, move: Move) -> None:
        self._move = move
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_balanced")

    def _gather(self, task: Task, parts: Any) -> list[Shard]:
        settings = self._move.settings
        shards = gather_task(
            task,
            parts,
            uri=self._move.uri,
            gzip=settings.compression == "gzip",
            block_bytes=settings.block_bytes,
        )
        self._records.inc(sum(shard.records for shard in shards))
        return shards


class _GatherFn(_WritingFn):
    def __init__(self, plans: Sequence[SplitPlan], move: Move) -> None:
        super().__init__(move)
        self._plans = plans

    def process(self, element: tuple[tuple[int, int], Iterable[tuple[int, RunPart]]]) -> None:
        move = self._move
        check_shared(move.uri)
        (place, number), found = element
        task = self._plans[place].tasks[number]
        parts: dict[int, list[RunPart]] = collections.defaultdict(list)
        for bucket, part in found:
            parts[bucket].append(part)
        name = f"gather-{task.key}"
        with report_errors(move.uri, name):
            read = functools.partial(read_part, block_bytes=move.settings.block_bytes)
            blocks = {
                bucket: itertools.chain.from_iterable(map(read, group))
                for bucket, group in parts.items()
            }
            shards = self._gather(task, blocks)
            move.report(name, task.layout.split, shards=shards)


class _GatherSplitFn(_WritingFn):
    def process(self, plan: SplitPlan) -> None:
        move = self._move
        check_shared(move.uri)
        (task,) = plan.tasks
        name = f"gather-{task.key}"
        reading = Reading.of(move.infer)
        with report_errors(move.uri, name):
            blocks = read_groups(
                plan.groups,
                reading,
                changes=move.changes(),
                block_bytes=move.settings.block_bytes,
            )
            shards = self._gather(task, {0: blocks})
            move.report(name, task.layout.split, shards=shards, reading=reading)


def keep_shards(plans: Sequence[KeptSplit], move: Move) -> beam.PTransform[Any, Any]:
    """What links shards that stay, and writes those with changed records, with summaries.

    Args:
        plans: of the splits.
        move: what all workers know.
    """
    return ByElement(_KeepFn(move), [step for plan in plans for step in plan.steps])


class _KeepFn(_WritingFn):
    def process(self, step: KeptShard) -> None:
        move = self._move
        check_shared(move.uri)
        reading = Reading.of(move.infer)
        with report_errors(move.uri, step.part):
            shards = keep_shard(
                step,
                reading,
                uri=move.uri,
                changes=move.changes(),
                block_bytes=move.settings.block_bytes,
            )
            self._records.inc(step.records)
            move.report(step.part, step.split, shards=shards, reading=reading)
