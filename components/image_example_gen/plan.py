"""Decides the split, order and shard of every image before any is read.

plan = plan_shards(listing, partition=Partition((("train", 2), ("eval", 1))), settings=settings)
plan.tasks[0].entries      # the first shard's images, in their order
"""

import bisect
import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence

from components.common.rejects import Reject
from components.image_example_gen.layouts import Entry, LeftOut, Listing
from components.image_example_gen.settings import ImageSettings
from trainer_utils.format import (
    ConfigError,
    InputError,
    keyed_hash,
    num_shards_for,
    shard_bounds,
)

__all__ = ["PARTITION_FEATURES", "Partition", "Plan", "ShardTask", "plan_shards"]

PARTITION_FEATURES = ("filename", "label")
_SPLIT_ORDER = ("train", "eval", "test")


@dataclasses.dataclass(frozen=True)
class Partition:
    """The splits that a hash assigns.

    Args:
        buckets: split names with their share, as in TFX's `SplitConfig`.
        feature: what is hashed, `filename` or `label`; equal values share a split.
    """

    buckets: tuple[tuple[str, int], ...]
    feature: str = "filename"

    def __post_init__(self) -> None:
        if self.feature not in PARTITION_FEATURES:
            raise ConfigError(
                f"output_config partition_feature_name: expected one of "
                f"{', '.join(PARTITION_FEATURES)}, got {self.feature!r}"
            )

    def split_of(self, filename: str, label: str | None, *, seed: int) -> str:
        """The split of one input."""
        identity = filename if self.feature == "filename" else label or ""
        ends = list(itertools.accumulate(share for _, share in self.buckets))
        bucket = keyed_hash(os.fsencode(identity), seed=seed, purpose="split") % ends[-1]
        return self.buckets[bisect.bisect(ends, bucket)][0]


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """One shard to write: its place, and its images as (filename, size, label id or None)."""

    split: str
    shard_index: int
    num_shards: int
    entries: tuple[tuple[str, int, int | None], ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The whole of the work.

    Args:
        splits: their names, in order.
        tasks: one a shard, by split and shard index.
        vocabulary: the labels, sorted; a label's place is its id. Empty where there are none.
        rejects: inputs that are left out without being read.
        skipped: inputs left out on purpose, by split.
    """

    splits: tuple[str, ...]
    tasks: tuple[ShardTask, ...]
    vocabulary: tuple[str, ...]
    rejects: tuple[Reject, ...]
    skipped: dict[str, int]


def plan_shards(listing: Listing, *, partition: Partition | None, settings: ImageSettings) -> Plan:
    """Lays out all shards. A pure function: equal listings and settings give equal plans.

    Args:
        listing: every input.
        partition: the splits asked for; None for the layout's own, else train and eval 2:1.
        settings: seed and shard size.

    Raises:
        ConfigError: `partition` was asked for, but the inputs name splits themselves.
        InputError: a label cannot be kept in a vocabulary file.
    """
    own_splits = {entry.split for entry in listing.entries if entry.split is not None}
    own_splits |= {left.split for left in listing.left_out if left.split and left.code}
    if partition is not None and own_splits:
        raise ConfigError(
            f"output_config: expected no splits, since the inputs name their own "
            f"({', '.join(sorted(own_splits))}), got {', '.join(n for n, _ in partition.buckets)}"
        )
    hashed = partition or Partition((("train", 2), ("eval", 1)))
    vocabulary = _vocabulary(listing.entries)
    by_split: dict[str, list[Entry]] = {}
    for entry in listing.entries:
        split = entry.split or hashed.split_of(entry.filename, entry.label, seed=settings.seed)
        by_split.setdefault(split, []).append(entry)
    uses_hash = not own_splits or any(entry.split is None for entry in listing.entries)
    names = own_splits.union(n for n, _ in hashed.buckets if uses_hash)
    splits = _ordered(names, [n for n, _ in hashed.buckets])
    left_out = [
        (_split_of_left_out(left, splits, own_splits, hashed, settings.seed), left)
        for left in listing.left_out
    ]
    ids = {label: index for index, label in enumerate(vocabulary)}
    return Plan(
        splits=splits,
        tasks=tuple(
            task
            for split in splits
            for task in _split_tasks(split, by_split.get(split, []), ids, settings)
        ),
        vocabulary=vocabulary,
        rejects=tuple(
            Reject(split, left.filename, left.code, left.detail)
            for split, left in left_out
            if left.code is not None
        ),
        skipped={
            name: sum(split == name and left.code is None for split, left in left_out)
            for name in splits
        },
    )


def _vocabulary(entries: Iterable[Entry]) -> tuple[str, ...]:
    labels = sorted({entry.label for entry in entries if entry.label is not None}, key=os.fsencode)
    for label in labels:
        if "\n" in label or "\r" in label:
            raise InputError(f"label {label!r}: expected one line, since a vocabulary has one each")
    return tuple(labels)


def _ordered(names: set[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The splits asked for in their order, then TFX's usual three, then any others by name."""
    order = {name: place for place, name in enumerate([*_SPLIT_ORDER, *asked])}
    order.update({name: place - len(asked) for place, name in enumerate(asked)})
    return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))


def _split_of_left_out(
    left: LeftOut, splits: Sequence[str], own_splits: set[str], hashed: Partition, seed: int
) -> str:
    """Where an input that is left out counts. One beside the split folders counts in the first."""
    if left.split is not None and left.split in splits:
        return left.split
    if own_splits:
        return splits[0]
    return hashed.split_of(left.filename, None, seed=seed)


def _split_tasks(
    split: str, entries: list[Entry], ids: dict[str, int], settings: ImageSettings
) -> Iterable[ShardTask]:
    def order(entry: Entry) -> int:
        return keyed_hash(os.fsencode(entry.filename), seed=settings.seed, purpose="order")

    ordered = sorted(entries, key=order)
    num_shards = num_shards_for(
        num_records=len(ordered),
        num_bytes=sum(entry.size for entry in ordered),
        target_shard_bytes=settings.target_shard_bytes,
    )
    bounds = shard_bounds(num_records=len(ordered), num_shards=num_shards).tolist()
    for shard_index, (start, stop) in enumerate(itertools.pairwise(bounds)):
        yield ShardTask(
            split,
            shard_index,
            num_shards,
            tuple(
                (entry.filename, entry.size, None if entry.label is None else ids[entry.label])
                for entry in ordered[start:stop]
            ),
        )
