"""Write the shards of files in parallel, also if there are fewer shards than processes.

    shards = ParallelShards(write_shard=write, runner=runner, cost=cost, paths=paths, …)
    results = shards.write(plan.tasks)  # `(shard, summary)` for each

With few shards, each is divided into parts. All parts are encoded first, and then joined into
shards without reading the files again. The bytes are the same either way.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from components.example_gen.file_examples import ShardSummary
from components.example_gen.file_shards import EncodedPart, ShardTask, WriteMediaShard
from components.inputs.rejects import Reject, RejectLimit
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Result, Task
from trainer_utils.format import Shard, ShardName, shard_bounds
from trainer_utils.storage import is_remote
from trainer_utils.writing.shards import remove_shard, rename_shard
from trainer_utils.writing.working_folder import working_folder

# Encoding records as parts and then joining them takes a quarter more time for photos.
_PART_RECORDS, _PARTS_A_PROCESS = 250, 3

_NO_PLACES = np.zeros(0, np.int64)

ShardResult = tuple[Shard, ShardSummary]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParallelShards:
    """Writes shards with the processes of a runner."""

    write_shard: WriteMediaShard
    runner: Runner
    cost: Cost  # of all shards together
    paths: Sequence[str]  # folders of the inputs
    unit: str  # name of the inputs in the progress display, such as `images`
    limit: RejectLimit

    def write(self, tasks: Sequence[Task[ShardTask]]) -> list[ShardResult]:
        """Write the shard of each task, and return the results in order.

        Raises:
            InputError: there are too many rejects.
        """
        parts = self._divide(tasks)
        shards = self._join(tasks, parts, self._encode(parts)) if parts else tasks
        rejects = _RejectCounter(self.limit)
        return self._map(
            self.write_shard,
            shards,
            unit="" if parts else self.unit,  # the progress display has shown the parts
            check=self.write_shard.check,
            on_result=lambda result: rejects.add(result[1]),
        )

    def _divide(self, tasks: Sequence[Task[ShardTask]]) -> list[list[Task[ShardTask]]]:
        """Return the parts of each shard, or an empty list if shards are written as a whole."""
        uri = self.write_shard.uri
        if self.write_shard.settings.gzip or is_remote(uri):
            return []
        num_records = sum(task.records for task in tasks)
        processes = self.runner.count(num_records, self.cost, [uri, *self.paths])
        if len(tasks) >= processes:
            return []
        parts = [divide_shard(task, num_shards=len(tasks), processes=processes) for task in tasks]
        return parts if any(parts) else []

    def _encode(self, parts: Sequence[Sequence[Task[ShardTask]]]) -> list[EncodedPart]:
        """Encode all parts, and return them in order."""
        rejects = _RejectCounter(self.limit)
        return self._map(
            self.write_shard.make_part,
            [*itertools.chain.from_iterable(parts)],
            unit=self.unit,
            noun="parts of shards",
            check=EncodedPart.read,
            on_result=lambda part: rejects.add(part.summary),
        )

    def _join(
        self,
        tasks: Sequence[Task[ShardTask]],
        parts: Sequence[Sequence[Task[ShardTask]]],
        encoded: Sequence[EncodedPart],
    ) -> list[Task[ShardTask]]:
        """Return tasks that join the encoded parts, and read no files of divided shards."""
        in_order, joined = iter(encoded), list[Task[ShardTask]]()
        for task, task_parts in zip(tasks, parts, strict=True):
            shard = task.argument
            if task_parts:
                shard = dataclasses.replace(
                    shard,
                    places=_NO_PLACES,
                    parts=tuple(itertools.islice(in_order, len(task_parts))),
                )
            joined.append(dataclasses.replace(task, argument=shard))
        return joined

    def _map(
        self,
        function: Callable[[ShardTask], Result],
        tasks: Sequence[Task[ShardTask]],
        *,
        unit: str,
        noun: str = "shards",
        check: Callable[[Result], object],
        on_result: Callable[[Result], None],
    ) -> list[Result]:
        """Run tasks with the workspace, the runner and the cost of these shards."""
        return map_tasks(
            function,
            tasks,
            workspace=working_folder(self.write_shard.uri),
            runner=self.runner,
            cost=self.cost,
            paths=self.paths,
            unit=unit,
            noun=noun,
            check=check,
            on_result=on_result,
        )


def parts_of_shard(records: int, *, shards: int, processes: int) -> int:
    """Return the number of parts of a shard: three per process, so that all end at about once."""
    return min(math.ceil(_PARTS_A_PROCESS * processes / shards), records // _PART_RECORDS)


def divide_shard(
    task: Task[ShardTask], *, num_shards: int, processes: int
) -> list[Task[ShardTask]]:
    """Return the parts of a shard to encode in parallel, or an empty list.

    A shard of an earlier dataset, which is usually copied, and a small shard have no parts.
    """
    shard = task.argument
    count = parts_of_shard(task.records, shards=num_shards, processes=processes)
    if count < 2 or shard.known is not None:
        return []
    assert shard.places is not None
    bounds = shard_bounds(num_records=task.records, num_shards=count).tolist()
    return [
        Task(
            f"{task.name}-part-{number:04d}-of-{count:04d}",
            dataclasses.replace(shard, places=shard.places[start:stop]),
            stop - start,
            task.bytes // count,
        )
        for number, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]


def keep_full_shards(written: Sequence[Shard], *, uri: str) -> tuple[Shard, ...]:
    """Remove shards whose inputs were all rejected, and renumber the others.

    A split without any record keeps one empty shard.
    """
    by_split: dict[str, list[Shard]] = collections.defaultdict(list)
    for shard in written:
        by_split[shard.split].append(shard)
    kept: list[Shard] = []
    for split, shards in by_split.items():
        full = [shard for shard in shards if shard.records] or shards[:1]
        for shard in {*shards}.difference(full):
            remove_shard(shard, uri=uri)
        for index, shard in enumerate(full):
            is_gzip = shard.path.endswith(".gz")
            name = ShardName(split=split, shard_index=index, num_shards=len(full), gzip=is_gzip)
            if name.path != shard.path:
                shard = rename_shard(shard, name, uri=uri)
            kept.append(shard)
    return tuple(kept)


class _RejectCounter:
    """Collects the rejects of finished shards or parts, and checks them against the limit."""

    def __init__(self, limit: RejectLimit) -> None:
        self._limit, self._rejects, self._seen = limit, list[Reject](), 0

    def add(self, summary: ShardSummary) -> None:
        """Add the rejects of one result; raise InputError if there are too many in total."""
        self._rejects += summary.rejects
        self._seen += len(summary.names) + len(summary.rejects)
        self._limit.check(self._rejects, seen=self._seen)
