"""Shards that stay as they are: linked or copied; only those with a changed record are rewritten.

    plan = plan_kept_split("train", shards, surveys, settings)
    for step in plan.steps: keep_shard(move, step)

The shards of a split come in the order of the inputs, and records in the order that they had. A
shard that loses all of its records is left out; the others get new numbers.
"""

import dataclasses
import functools
from collections.abc import Sequence

from components.common.progress import Work
from components.shard_balancer.inputs import InputShard
from components.shard_balancer.move import Move, Moved
from components.shard_balancer.scatter_gather import read_changed
from components.shard_balancer.settings import BalancerSettings
from components.shard_balancer.survey import ShardSurvey
from trainer_utils.format import Shard, ShardName, ShardWriter
from trainer_utils.storage import copy_file, join, make_folder
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import files_of_shard, verify_shard, write_shard

__all__ = ["KeptShard", "KeptSplit", "keep_shard", "plan_kept_split"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptShard:
    """What becomes of one input shard.

    Args:
        source: the input shard; None of the one empty shard of a split without any.
        name: of the new shard; None: no record of it stays.
    """

    split: str
    number: int
    source: InputShard | None
    name: ShardName | None
    records: int
    is_kept: bool

    @property
    def part(self) -> str:
        """The name of its summary."""
        return f"gather-{self.split}-{self.number:06d}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptSplit:
    """How one split is written with its shards as they are."""

    split: str
    steps: tuple[KeptShard, ...]

    @property
    def num_records(self) -> int:
        """Records that are written."""
        return sum(step.records for step in self.steps)

    @property
    def work(self) -> dict[str, Work]:
        """What each summary stands for."""
        return {
            step.part: Work(step.records, 0 if step.source is None else step.source.shard.bytes)
            for step in self.steps
        }


def plan_kept_split(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
) -> KeptSplit:
    """Plans one split.

    Args:
        surveys: of each of them; None where what the datasets say is enough.
    """
    gzip = settings.gzip
    if surveys is None:
        records = [given.shard.num_records for given in shards]
    else:
        records = [len(survey.index) for survey in surveys]
    staying = [number for number, count in enumerate(records) if count] or [0]
    names = {
        number: ShardName(split=split, shard_index=place, num_shards=len(staying), gzip=gzip)
        for place, number in enumerate(staying)
    }
    steps = [
        KeptShard(
            split=split,
            number=number,
            source=given,
            name=names.get(number),
            records=count,
            is_kept=bool(count)
            and _can_stay(given, None if surveys is None else surveys[number], gzip=gzip),
        )
        for number, (given, count) in enumerate(zip(shards, records, strict=True))
    ]
    if not shards:
        steps = [
            KeptShard(split=split, number=0, source=None, name=names[0], records=0, is_kept=False)
        ]
    return KeptSplit(split=split, steps=tuple(steps))


def _can_stay(given: InputShard, survey: ShardSurvey | None, *, gzip: bool) -> bool:
    """Whether a file stays: none of its records changes, and its sums are known."""
    entry, tally = given.shard.entry, None if survey is None else survey.tally
    is_unchanged = tally is None or tally.is_unchanged
    is_known = entry is not None and None not in (entry.content, entry.index_crc32c)
    return is_unchanged and is_known and given.shard.is_gzip == gzip


def keep_shard(move: Move, step: KeptShard) -> dict[str, int]:
    """Writes what becomes of one input shard, and its summary; returns counts.

    Raises:
        CorruptShardError: the input shard is damaged.
    """
    with move.report(step.part, step.split) as moved:
        if step.is_kept:
            moved.shards.append(_link(step, move, moved))
        elif step.name is not None:
            fill = functools.partial(_write_changed, step, move, moved)
            shard = write_shard(step.name, fill, uri=move.uri)
            verify_shard(shard, uri=move.uri, block_bytes=move.settings.block_bytes)
            moved.shards.append(shard)
        else:
            _write_changed(step, move, moved, None)
    return moved.counts


def _write_changed(step: KeptShard, move: Move, moved: Moved, writer: ShardWriter | None) -> None:
    """Reads an input shard, and writes the records that stay; None: none of them does."""
    for block in read_changed(step.source, move, moved) if step.source is not None else ():
        if writer is not None:
            writer.write_framed(block.data, block.lengths, block.payload_crcs)


def _link(step: KeptShard, move: Move, moved: Moved) -> Shard:
    """Puts the file itself, which is checked, under its new name."""
    assert step.source is not None
    assert step.name is not None
    given = step.source.shard
    entry = given.entry
    assert entry is not None
    assert entry.content is not None
    assert given.index_path is not None
    source_uri = given.path.removesuffix(entry.path).rstrip("/")
    block_bytes = move.settings.block_bytes
    verify_shard(entry, uri=source_uri, block_bytes=block_bytes)
    shard = dataclasses.replace(entry, path=step.name.path, split=step.split)
    working = working_folder(move.uri)
    make_folder(working)
    linked = []
    for old, new in zip(files_of_shard(entry), files_of_shard(shard), strict=True):
        target = join(move.uri, new)
        make_folder(target.rpartition("/")[0])
        linked.append(copy_file(join(source_uri, old), target, temporary_folder=working))
    if not all(linked):
        verify_shard(shard, uri=move.uri, block_bytes=block_bytes)
    moved.content[step.source.source] = moved.kept[step.source.source] = entry.content
    return shard
