"""Shards that stay as they are: linked or copied; only those with a changed record are rewritten.

    plan = plan_kept_split("train", shards, surveys, settings)
    for step in plan.steps: keep_shard(step, Reading(), uri=uri, changes=changes, infer=…)

The shards of a split come in the order of the inputs, and records in the order that they had. A
shard that loses all of its records is left out; the others get new numbers.
"""

import dataclasses
from collections.abc import Sequence

from components.shard_balancer.changes import Changes
from components.shard_balancer.inputs import InputShard
from components.shard_balancer.scatter_gather import Reading, read_changed
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
        split: which it is of.
        number: of the input shard in its split.
        source: the input shard; None of the one empty shard of a split without any.
        name: of the new shard; None: no record of it stays.
        records: that stay.
        is_kept: whether the file stays as it is.
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

    @property
    def bytes(self) -> int:
        """Of the input shard."""
        return 0 if self.source is None else self.source.shard.bytes


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
    def parts(self) -> list[str]:
        """The names of the parts of the work, each of which leaves a summary."""
        return [step.part for step in self.steps]


def plan_kept_split(
    split: str,
    shards: Sequence[InputShard],
    surveys: Sequence[ShardSurvey] | None,
    settings: BalancerSettings,
) -> KeptSplit:
    """Plans one split.

    Args:
        split: its name.
        shards: of the inputs, in order.
        surveys: of each of them; None where what the datasets say is enough.
        settings: of the component.
    """
    gzip = settings.compression == "gzip"
    records = [s.shard.num_records for s in shards] if surveys is None else _records(surveys)
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


def _records(surveys: Sequence[ShardSurvey]) -> list[int]:
    return [len(survey.index) for survey in surveys]


def _can_stay(given: InputShard, survey: ShardSurvey | None, *, gzip: bool) -> bool:
    """Whether a file stays: none of its records changes, and its sums are known."""
    entry, tally = given.shard.entry, None if survey is None else survey.tally
    is_unchanged = tally is None or tally.is_unchanged
    is_known = entry is not None and None not in (entry.content, entry.index_crc32c)
    return is_unchanged and is_known and given.shard.is_gzip == gzip


def keep_shard(
    step: KeptShard, reading: Reading, *, uri: str, changes: Changes | None, block_bytes: int
) -> list[Shard]:
    """Writes what becomes of one input shard.

    Args:
        step: of a plan.
        reading: what was read is added to it.
        uri: of the new dataset.
        changes: what is to be changed of the records.
        block_bytes: about how much is read at a time.

    Returns:
        What the manifest says of the new shard; nothing where there is none.

    Raises:
        CorruptShardError: the input shard is damaged.
    """
    if step.is_kept:
        return [_link(step, reading, uri=uri, block_bytes=block_bytes)]

    def fill(writer: ShardWriter) -> None:
        if step.source is not None:
            blocks = read_changed(step.source, reading, changes, block_bytes=block_bytes)
            for block in blocks:
                writer.write_framed(block.data, block.lengths, block.payload_crcs)

    if step.name is None:
        assert step.source is not None
        for _ in read_changed(step.source, reading, changes, block_bytes=block_bytes):
            pass
        return []
    shard = write_shard(step.name, fill, uri=uri)
    verify_shard(shard, uri=uri, block_bytes=block_bytes)
    return [shard]


def _link(step: KeptShard, reading: Reading, *, uri: str, block_bytes: int) -> Shard:
    """Puts the file itself, which is checked, under its new name."""
    assert step.source is not None
    assert step.name is not None
    given = step.source.shard
    entry = given.entry
    assert entry is not None
    assert entry.content is not None
    assert given.index_path is not None
    source_uri = given.path.removesuffix(entry.path).rstrip("/")
    verify_shard(entry, uri=source_uri, block_bytes=block_bytes)
    shard = dataclasses.replace(entry, path=step.name.path, split=step.split)
    working = working_folder(uri)
    make_folder(working)
    linked = []
    for old, new in zip(files_of_shard(entry), files_of_shard(shard), strict=True):
        target = join(uri, new)
        make_folder(target.rpartition("/")[0])
        linked.append(copy_file(join(source_uri, old), target, temporary_folder=working))
    if not all(linked):
        verify_shard(shard, uri=uri, block_bytes=block_bytes)
    reading.content[step.source.source] = reading.kept[step.source.source] = entry.content
    return shard
