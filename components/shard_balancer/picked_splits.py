"""Splits whose records are picked one by one: which they are, and how this machine writes them.

    plans = choose_picked(pipeline, plans, inputs, surveys, move)
    picked = [plan for plan in plans if isinstance(plan, PickedSplit)]
    write_picked(pipeline, picked, move)

Neither a split's records nor temporary files are held for it, and light processes share the work;
so a split goes this way also where it is larger than `memory_bytes`.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from components.common.progress import Work
from components.common.side_by_side import Cost, InProcessPipeline
from components.common.worker_pool import run_all
from components.shard_balancer.inputs import Inputs
from components.shard_balancer.kept_shards import KeptSplit
from components.shard_balancer.move import Move, Moved
from components.shard_balancer.picking import Picks, PickShard, UnlikeIndexError
from components.shard_balancer.planning import SplitPlan
from components.shard_balancer.scatter_gather import read_group
from components.shard_balancer.survey import ShardSurvey
from trainer_utils.dataset import read_index
from trainer_utils.format import DatasetError, RecordIndex
from trainer_utils.machine import free_memory
from trainer_utils.storage import file_size, is_remote, open_for_reading

__all__ = ["PickedSplit", "Plan", "can_pick", "choose_picked", "write_picked"]

Ints = npt.NDArray[np.int64]

_MEMORY_SHARE = 0.5  # of what is free: the system keeps the input there while it is picked from
_MOST_FILES = 200  # which each process opens all of
_LEAST_BYTES = 4 << 10  # a record: a read for each costs no more than copying that much
# What one core takes for a byte, and what a process needs beside its longest record.
_PLAIN_SECONDS, _GZIP_SECONDS = 1 / 500e6, 1 / 30e6
_PROCESS_BYTES = 128 << 20
_AHEAD_BYTES = 128 << 10  # Linux reads no more of a file ahead at a time unless it is told to


@dataclasses.dataclass(frozen=True, kw_only=True)
class PickedSplit(SplitPlan):
    """A split of which every new shard is written by itself.

    Args:
        surveys: of each input shard; None: its index says where its records lie.
    """

    surveys: Sequence[ShardSurvey] | None

    @property
    def work(self) -> dict[str, Work]:
        """What each summary stands for."""
        bounds = self.layout.bounds
        per_record = self.num_bytes / max(self.num_records, 1)
        return {
            f"gather-{self.split}-{index:05d}": Work(stop - start, int((stop - start) * per_record))
            for index, (start, stop) in enumerate(itertools.pairwise(bounds))
        }

    def picks(self, first_file: int, *, gzip: bool) -> Iterator[Picks]:
        """What each new shard is made of.

        Args:
            first_file: the number of the split's first file among all.
            gzip: whether shards are compressed.

        Raises:
            UnlikeIndexError: a file has another size than its index says.
        """
        layout = self.layout
        indices = [self._index(number) for number in range(len(self.items))]
        order = np.argsort(layout.places(0, layout.num_records), kind="stable")
        files = np.repeat(np.arange(first_file, first_file + len(indices)), [*map(len, indices)])
        offsets = np.concatenate([np.zeros(0, np.int64), *(i.offsets[:-1] for i in indices)])
        lengths = np.concatenate([np.zeros(0, np.int64), *(i.lengths for i in indices)])
        for shard, (start, stop) in enumerate(itertools.pairwise(layout.bounds)):
            own = order[start:stop]
            yield Picks(
                name=layout.shard_name(shard, gzip=gzip),
                files=files[own],
                offsets=offsets[own],
                lengths=lengths[own].astype(np.int64),
            )

    def _index(self, number: int) -> RecordIndex:
        shard = self.items[number].shard
        index = read_index(shard) if self.surveys is None else self.surveys[number].index
        if file_size(shard.path) != index.framed_bytes:
            raise UnlikeIndexError(shard.path)
        return index


Plan = SplitPlan | KeptSplit | PickedSplit
"""A split in any of the ways in which it is written."""


def can_pick(plan: SplitPlan, inputs: Inputs) -> bool:
    """Whether a split of which no record changes can be written by picking.

    Its records are large, lie in a few files on this machine that are not compressed, and it is
    known what their features are.
    """
    items = plan.items
    return (
        hasattr(os, "preadv")
        and 0 < len(items) <= _MOST_FILES
        and not any(item.source in inputs.without_features for item in items)
        and not any(is_remote(item.shard.path) or item.shard.is_gzip for item in items)
        and _LEAST_BYTES * max(plan.num_records, 1)
        <= plan.num_bytes
        <= _MEMORY_SHARE * free_memory()
    )


def choose_picked(
    pipeline: InProcessPipeline,
    plans: Sequence[Plan],
    inputs: Inputs,
    surveys: Mapping[str, Sequence[ShardSurvey]],
    move: Move,
) -> list[Plan]:
    """The plans, those in another way that gain by it: no record of them may change.

    With one process, a split that fits memory stays as it is: threads read and write at once there.

    Args:
        pipeline: says how many processes may work.
        surveys: of the shards of those splits that needed them.
    """
    can = {
        plan.split: PickedSplit(**vars(plan), surveys=surveys.get(plan.split))
        for plan in plans
        if isinstance(plan, SplitPlan) and can_pick(plan, inputs)
    }
    is_shared = _count_processes(pipeline, [*can.values()], move) > 1
    gaining = {n: split for n, split in can.items() if is_shared or not split.is_one_pass}
    return [gaining.get(plan.split, plan) for plan in plans]


def write_picked(pipeline: InProcessPipeline, splits: Sequence[PickedSplit], move: Move) -> None:
    """Writes the shards of splits, with a summary of each, by processes where that pays.

    Raises:
        CorruptShardError: an input or a new shard is damaged.
        DatasetError: an input has another number of records than was planned with.
    """
    items = [item for split in splits for item in split.items]
    pick = PickShard(
        files=tuple(item.shard.path for item in items),
        sources=tuple(item.source for item in items),
        uri=move.uri,
    )
    for path in pick.files:
        _read_ahead(path)
    firsts = itertools.accumulate((len(split.items) for split in splits), initial=0)
    picks = (
        picked
        for first, split in zip(firsts, splits, strict=False)
        for picked in split.picks(first, gzip=move.settings.gzip)
    )
    processes = _count_processes(pipeline, splits, move)
    try:
        run_all(pick, picks, processes=processes)
    except UnlikeIndexError as error:
        _raise_damage(splits, move, error)


def _count_processes(pipeline: InProcessPipeline, splits: Sequence[PickedSplit], move: Move) -> int:
    byte_seconds = _GZIP_SECONDS if move.settings.gzip else _PLAIN_SECONDS
    cost = Cost(
        calls=sum(split.layout.num_shards for split in splits),
        seconds=sum(split.num_bytes for split in splits) * byte_seconds,
        process_bytes=_PROCESS_BYTES,
    )
    return pipeline.count_processes(cost, [move.uri])


def _read_ahead(path: str) -> None:
    """Has the system read a file from its beginning to its end while other work is done.

    Records that are picked here and there would have a disk seek for each of them.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    with open_for_reading(path) as stream:
        descriptor = stream.fileno()
        for start in range(0, file_size(path), _AHEAD_BYTES):
            os.posix_fadvise(descriptor, start, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def _raise_damage(splits: Sequence[PickedSplit], move: Move, error: UnlikeIndexError) -> NoReturn:
    """Reads all in order, which says what is wrong where."""
    for split in splits:
        for group in split.groups:
            for _ in read_group(group, move, Moved()):
                pass
    raise DatasetError(
        f"examples: expected files that stay as they are while they are read, got one that was "
        f"changed meanwhile: {error}. Run it again."
    ) from error
