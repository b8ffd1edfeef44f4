"""The Beam side of balancing: which move runs as which element.

pipeline | BalanceSplits(plans, uri=uri, settings=settings, infer=frozenset({0}))
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.summaries import check_shared, working_folder, write_summary
from components.common.worker_errors import report_errors
from components.shard_balancer.changes import load_changes
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

__all__ = ["STEPS", "BalanceSplits", "KeepShards"]

STEPS = ("survey", "scatter", "gather")


class BalanceSplits(beam.PTransform[PBegin, PCollection[None]]):
    """Writes the new shards of all splits, with a summary of each move.

    Args:
        plans: of the splits.
        uri: of the new dataset.
        settings: of the component.
        infer: the numbers of the inputs whose features are to be found out on the way.
        changes_key: of what is to be changed of the records; None: nothing.
    """

    def __init__(
        self,
        plans: Sequence[SplitPlan],
        *,
        uri: str,
        settings: BalancerSettings,
        infer: frozenset[int],
        changes_key: str | None = None,
    ) -> None:
        super().__init__()
        self._plans = plans
        self._gather_all = _GatherSplitFn(uri, settings, infer, changes_key)
        self._scatter = _ScatterFn(plans, uri, settings, infer, changes_key)
        self._gather = _GatherFn(plans, uri, settings)

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
        in_one_pass = self._gather_at_once(begin)
        if not groups:
            return in_one_pass
        done: PCollection[None] = (
            self._scatter_and_gather(begin, groups),
            in_one_pass,
        ) | "Finish" >> beam.Flatten()
        return done

    def _scatter_and_gather(
        self, begin: PBegin, groups: Sequence[tuple[int, int]]
    ) -> PCollection[None]:
        done: PCollection[None] = (
            begin
            | "CreateGroups" >> beam.Create(groups)
            | "SpreadLots" >> beam.Reshuffle()
            | "ScatterLots" >> beam.ParDo(self._scatter)
            | "GroupByTask" >> beam.GroupByKey()
            | "GatherTasks" >> beam.ParDo(self._gather)
        )
        return done

    def _gather_at_once(self, begin: PBegin) -> PCollection[None]:
        done: PCollection[None] = (
            begin
            | "CreateSplits" >> beam.Create([plan for plan in self._plans if plan.is_one_pass])
            | "SpreadSplits" >> beam.Reshuffle()
            | "GatherSplits" >> beam.ParDo(self._gather_all)
        )
        return done


class _ScatterFn(beam.DoFn):
    # Plans come with the function: they would be too large to cross a shuffle with each part.

    def __init__(
        self,
        plans: Sequence[SplitPlan],
        uri: str,
        settings: BalancerSettings,
        infer: frozenset[int],
        changes_key: str | None,
    ) -> None:
        self._plans, self._uri, self._settings, self._infer = plans, uri, settings, infer
        self._changes_key = changes_key

    def process(
        self, element: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, int], tuple[int, RunPart]]]:
        check_shared(self._uri)
        place, number = element
        plan = self._plans[place]
        group = plan.groups[number]
        name = f"scatter-{group.key}"
        reading = Reading.of(self._infer)
        with report_errors(self._uri, name):
            for task, bucket, part in scatter_records(
                group,
                plan.tasks,
                reading,
                uri=self._uri,
                memory_bytes=self._settings.held_bytes,
                changes=load_changes(working_folder(self._uri), self._changes_key),
                block_bytes=self._settings.block_bytes,
            ):
                yield (place, task), (bucket, part)
            _report(self._uri, name, group.layout.split, reading=reading)


class _GatherFn(beam.DoFn):
    def __init__(self, plans: Sequence[SplitPlan], uri: str, settings: BalancerSettings) -> None:
        self._plans, self._uri, self._settings = plans, uri, settings
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_balanced")

    def process(self, element: tuple[tuple[int, int], Iterable[tuple[int, RunPart]]]) -> None:
        check_shared(self._uri)
        (place, number), found = element
        task = self._plans[place].tasks[number]
        parts: dict[int, list[RunPart]] = collections.defaultdict(list)
        for bucket, part in found:
            parts[bucket].append(part)
        name = f"gather-{task.key}"
        with report_errors(self._uri, name):
            read = functools.partial(read_part, block_bytes=self._settings.block_bytes)
            blocks = {
                bucket: itertools.chain.from_iterable(map(read, group))
                for bucket, group in parts.items()
            }
            shards = _gather(task, blocks, self._uri, self._settings)
            self._records.inc(sum(shard.records for shard in shards))
            _report(self._uri, name, task.layout.split, shards=shards)


class _GatherSplitFn(beam.DoFn):
    def __init__(
        self,
        uri: str,
        settings: BalancerSettings,
        infer: frozenset[int],
        changes_key: str | None,
    ) -> None:
        self._uri, self._settings, self._infer = uri, settings, infer
        self._changes_key = changes_key
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_balanced")

    def process(self, plan: SplitPlan) -> None:
        check_shared(self._uri)
        (task,) = plan.tasks
        name = f"gather-{task.key}"
        reading = Reading.of(self._infer)
        with report_errors(self._uri, name):
            blocks = read_groups(
                plan.groups,
                reading,
                changes=load_changes(working_folder(self._uri), self._changes_key),
                block_bytes=self._settings.block_bytes,
            )
            shards = _gather(task, {0: blocks}, self._uri, self._settings)
            self._records.inc(sum(shard.records for shard in shards))
            _report(self._uri, name, task.layout.split, shards=shards, reading=reading)


class KeepShards(beam.PTransform[PBegin, PCollection[None]]):
    """Links shards that stay, and writes those with changed records, with a summary of each.

    Args:
        plans: of the splits.
        uri, settings, infer, changes_key: as `BalanceSplits` takes them.
    """

    def __init__(
        self,
        plans: Sequence[KeptSplit],
        *,
        uri: str,
        settings: BalancerSettings,
        infer: frozenset[int],
        changes_key: str | None = None,
    ) -> None:
        super().__init__()
        self._steps = [step for plan in plans for step in plan.steps]
        self._keep = _KeepFn(uri, settings, infer, changes_key)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The shards and their summaries are side effects; the output holds nothing."""
        done: PCollection[None] = (
            begin
            | "CreateSteps" >> beam.Create(self._steps)
            | "SpreadSteps" >> beam.Reshuffle()
            | "KeepShards" >> beam.ParDo(self._keep)
        )
        return done


class _KeepFn(beam.DoFn):
    def __init__(
        self,
        uri: str,
        settings: BalancerSettings,
        infer: frozenset[int],
        changes_key: str | None,
    ) -> None:
        self._uri, self._settings, self._infer = uri, settings, infer
        self._changes_key = changes_key
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_balanced")

    def process(self, step: KeptShard) -> None:
        check_shared(self._uri)
        reading = Reading.of(self._infer)
        with report_errors(self._uri, step.part):
            shards = keep_shard(
                step,
                reading,
                uri=self._uri,
                changes=load_changes(working_folder(self._uri), self._changes_key),
                block_bytes=self._settings.block_bytes,
            )
            self._records.inc(step.records)
            _report(self._uri, step.part, step.split, shards=shards, reading=reading)


def _gather(task: Task, parts: Any, uri: str, settings: BalancerSettings) -> list[Shard]:
    gzip = settings.compression == "gzip"
    return gather_task(task, parts, uri=uri, gzip=gzip, block_bytes=settings.block_bytes)


def _report(uri: str, name: str, split: str, **found: Any) -> None:
    """Keeps shards as entries of the manifest, and what was read as numbers and facts."""
    summary: dict[str, Any] = {"split": split}
    if "shards" in found:
        summary["shards"] = [shard.to_entry() for shard in found["shards"]]
    if "reading" in found:
        summary |= dataclasses.asdict(found["reading"])
    write_summary(working_folder(uri), name, summary)
