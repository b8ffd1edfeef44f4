"""What goes from one step of a conversion to the next: what is decided, and what became of it.

FilePlan and RowPlan are Plans; workers get them, so nothing here imports TFX.
"""

import dataclasses
from collections.abc import Mapping

from components.common.listing import Column
from components.common.rejects import Reject
from trainer_utils.format import Feature, Shard

__all__ = ["Plan", "Written"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is decided before anything is written.

    Args:
        splits: their names, in order.
        columns: that become features, with what they are.
        vocabularies: values by feature, sorted or as given; a value's place is its id.
        rejects: inputs that are known to be left out.
        skipped: number of skipped inputs, by split.
        found: inputs in all.
    """

    splits: tuple[str, ...]
    columns: tuple[Column, ...]
    vocabularies: Mapping[str, tuple[str, ...]]
    rejects: tuple[Reject, ...]
    skipped: Mapping[str, int]
    found: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a plan.

    Args:
        shards: all of them, read back, by split and number.
        features: of the examples, by name.
        label_counts: examples by split and class, an id or a number.
        rejects: inputs that were found to be bad only while they were read for their shard.
        conversions: inputs that are not kept byte for byte, by what was done to them.
        fingerprint: of the inputs, hexadecimal.
    """

    shards: tuple[Shard, ...]
    features: Mapping[str, Feature]
    label_counts: Mapping[str, Mapping[int, int]]
    fingerprint: str
    rejects: tuple[Reject, ...] = ()
    conversions: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def num_records(self) -> int:
        """How many examples there are."""
        return sum(shard.records for shard in self.shards)
