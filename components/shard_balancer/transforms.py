"""The Beam side of balancing: which move runs as which element.

pipeline | balance_splits(plans, Move(uri=uri, settings=settings, infer=frozenset({0})))
"""

import collections
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.side_by_side import ByElement, CallFn
from components.shard_balancer.kept_shards import KeptSplit, keep_shard
from components.shard_balancer.move import Move
from components.shard_balancer.planning import SplitPlan
from components.shard_balancer.scatter_gather import (
    RunPart,
    gather_task,
    read_groups,
    read_part,
    scatter_records,
)

__all__ = ["balance_splits", "keep_shards"]

_TaskNumber = tuple[int, int]  # of a split's plan, and of a task in it
_NumberedPart = tuple[int, RunPart]  # with the number of its bucket


def keep_shards(plans: Sequence[KeptSplit], move: Move) -> beam.PTransform[Any, Any]:
    """What links shards that stay, and writes those with changed records, with summaries."""
    steps = [step for plan in plans for step in plan.steps]
    return ByElement(functools.partial(keep_shard, move), steps)


def balance_splits(plans: Sequence[SplitPlan], move: Move) -> beam.PTransform[Any, Any]:
    """What writes the new shards of all splits, with a summary of each move."""
    fitting = [plan for plan in plans if plan.is_one_pass]
    in_one_pass = ByElement(functools.partial(_gather_split, move), fitting)
    return in_one_pass if len(fitting) == len(plans) else _BalanceSplits(plans, move, in_one_pass)


class _BalanceSplits(beam.PTransform[PBegin, PCollection[None]]):
    # Plans come with the functions: they would be too large to cross a shuffle with each part.

    def __init__(self, plans: Sequence[SplitPlan], move: Move, in_one_pass: ByElement) -> None:
        super().__init__()
        self._plans, self._move, self._in_one_pass = plans, move, in_one_pass

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The shards and their summaries are side effects; the output holds nothing.

        Both ways end in one collection: DaskRunner computes the last of a pipeline alone, and what
        that one does not depend on is never run.
        """
        groups = [
            (place, number)
            for place, plan in enumerate(self._plans)
            if not plan.is_one_pass
            for number in range(len(plan.groups))
        ]
        gather = functools.partial(_gather_parts, self._plans, self._move)
        scattered = (
            begin
            | "CreateGroups" >> beam.Create(groups)
            | "SpreadLots" >> beam.Reshuffle()
            | "ScatterLots" >> beam.ParDo(_ScatterFn(self._plans, self._move))
            | "GroupByTask" >> beam.GroupByKey()
            | "GatherTasks" >> beam.ParDo(CallFn(gather))
        )
        done: PCollection[None] = (
            scattered,
            begin | "GatherSplits" >> self._in_one_pass,
        ) | "Finish" >> beam.Flatten()
        return done


class _ScatterFn(beam.DoFn):
    def __init__(self, plans: Sequence[SplitPlan], move: Move) -> None:
        self._plans, self._move = plans, move

    def process(self, element: tuple[int, int]) -> Iterator[tuple[_TaskNumber, _NumberedPart]]:
        place, number = element
        plan = self._plans[place]
        group = plan.groups[number]
        with self._move.report(f"scatter-{group.key}", plan.split) as moved:
            for task, bucket, part in scatter_records(group, plan.tasks, self._move, moved):
                yield (place, task), (bucket, part)


def _gather_parts(
    plans: Sequence[SplitPlan], move: Move, element: tuple[_TaskNumber, Iterable[_NumberedPart]]
) -> dict[str, int]:
    """Writes the shards of a task whose records were scattered."""
    (place, number), found = element
    task = plans[place].tasks[number]
    parts: dict[int, list[RunPart]] = collections.defaultdict(list)
    for bucket, part in found:
        parts[bucket].append(part)
    read = functools.partial(read_part, block_bytes=move.settings.block_bytes)
    blocks = {
        bucket: itertools.chain.from_iterable(map(read, group)) for bucket, group in parts.items()
    }
    with move.report(f"gather-{task.key}", task.layout.split) as moved:
        moved.shards += gather_task(task, blocks, move)
    return moved.counts


def _gather_split(move: Move, plan: SplitPlan) -> dict[str, int]:
    """Writes the shards of a split that fits into memory."""
    (task,) = plan.tasks
    with move.report(f"gather-{task.key}", plan.split) as moved:
        moved.shards += gather_task(task, {0: read_groups(plan.groups, move, moved)}, move)
    return moved.counts
