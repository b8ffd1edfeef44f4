"""What goes from one step of a conversion to the next: what is decided, and what became of it."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

from components.common.entry import Column
from components.common.rejects import Reject
from components.common.settings import Sharding
from trainer_utils.format import Feature, Shard, shard_bounds
from trainer_utils.format.json_text import JsonObject


@dataclasses.dataclass(frozen=True)
class SplitShards:
    """The shards of one split; `bounds`: the first place of each, and the number of records."""

    name: str
    bounds: tuple[int, ...]

    @property
    def num_records(self) -> int:
        """How many records it has."""
        return self.bounds[-1]

    @property
    def num_shards(self) -> int:
        """How many shards it has."""
        return len(self.bounds) - 1

    @property
    def spans(self) -> Iterator[tuple[int, int]]:
        """The first place of each shard, and that after its last."""
        return itertools.pairwise(self.bounds)


def lay_out_shards(
    splits: Iterable[tuple[str, int, int]], settings: Sharding
) -> tuple[SplitShards, ...]:
    """Which places are which shard's, of splits with the records and bytes of each."""
    shards = []
    for name, num_records, num_bytes in splits:
        num_shards = settings.shards_of(name, num_records=num_records, num_bytes=num_bytes)
        bounds = shard_bounds(num_records=num_records, num_shards=num_shards)
        shards.append(SplitShards(name, tuple(bounds.tolist())))
    return tuple(shards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is decided before anything is written."""

    split_shards: tuple[SplitShards, ...]
    columns: tuple[Column, ...]  # that become features, with what they are
    # Values by feature, sorted or as given; a value's place is its id
    vocabularies: Mapping[str, tuple[str, ...]]
    rejects: tuple[Reject, ...]  # inputs that are known to be left out
    skipped: Mapping[str, int]  # number of skipped inputs, by split
    found: int  # inputs in all
    is_shuffled: bool = True  # whether the order is random; False: as the inputs lie

    @property
    def splits(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(split.name for split in self.split_shards)

    @property
    def num_records(self) -> int:
        """How many examples there will be, if none is rejected while it is read."""
        return sum(split.num_records for split in self.split_shards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a plan."""

    shards: tuple[Shard, ...]  # all of them, read back, by split and number
    features: Mapping[str, Feature]
    label_counts: Mapping[str, Mapping[int, int]]  # examples by split and class, an id or a number
    fingerprint: str
    # Inputs that were found to be bad only while they were read for their shard
    rejects: tuple[Reject, ...] = ()
    # Inputs that are not kept byte for byte, by what was done to them
    conversions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inputs: str = ""  # what `inputs.json` says of the records; empty: nothing
    # Of a base dataset, what was added, changed, removed and kept
    update: JsonObject = dataclasses.field(default_factory=dict)

    @property
    def num_records(self) -> int:
        """How many examples there are."""
        return sum(shard.records for shard in self.shards)


def sum_label_counts(counts: Iterable[tuple[str, Mapping[int, int]]]) -> dict[str, dict[int, int]]:
    """How often each class occurs by split, of counts of parts of splits."""
    sums: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for split, labels in counts:
        sums[split].update(labels)
    return {split: dict(of_split) for split, of_split in sums.items()}
