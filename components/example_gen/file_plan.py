"""Decides the split, order and shard of every input before any is read.

plan = plan_shards(listing, partition=Partition((("train", 2), ("eval", 1))), settings=settings)
plan.tasks[0].entries      # the first shard's inputs, in their order
"""

import collections
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from components.common.listing import BlobColumn, Entry, ExcludedInput, Listing, Value
from components.common.rejects import Reject
from components.example_gen.file_tasks import ShardTask
from components.example_gen.media_settings import MediaSettings
from components.example_gen.partition import Partition, check_partition, order_splits
from components.example_gen.plan import Plan
from components.tables.vocabularies import label_column, make_vocabularies
from trainer_utils.format import keyed_hash, num_shards_for, shard_bounds
from trainer_utils.format.naming import check_feature_names

__all__ = ["FilePlan", "plan_shards"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilePlan(Plan):
    """The whole of the work on examples that hold files.

    Args:
        tasks: one a shard, by split and shard index.
        blobs: as in the listing.
    """

    tasks: tuple[ShardTask, ...]
    blobs: tuple[BlobColumn, ...]


def plan_shards(
    listing: Listing, *, partition: Partition | None, settings: MediaSettings
) -> FilePlan:
    """Lays out all shards. A pure function: equal listings and settings give equal plans.

    Args:
        listing: every input.
        partition: the splits that output_config asks for, or None for those that the inputs name,
            or else train and eval, 2:1.
        settings: seed, size of shards, vocabularies, grouping.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a label cannot be kept in a vocabulary file.
    """
    check_feature_names([*(c.name for c in listing.columns), *(b.name for b in listing.blobs)])
    own_splits = {entry.split for entry in listing.entries if entry.split is not None}
    own_splits |= {left.split for left in listing.excluded if left.split and left.code}
    hashed = check_partition(
        partition,
        own_splits,
        listing.columns,
        group_by=settings.group_by,
        stratify=settings.stratify,
    )
    vocabularies = make_vocabularies(_labels_of(listing), given=settings.vocabularies)
    entries, unknown = _with_ids(listing, vocabularies)
    split_of = _assign(listing, hashed, settings)
    by_split: dict[str, list[Entry]] = collections.defaultdict(list)
    for entry in entries:
        by_split[split_of[entry.name]].append(entry)
    uses_hash = not own_splits or any(entry.split is None for entry in listing.entries)
    names = own_splits.union(hashed.names if uses_hash else ())
    splits = order_splits(names, hashed.names)
    excluded = [
        (
            hashed.split_of_excluded(
                left, splits, inputs_decide=bool(own_splits), seed=settings.seed
            ),
            left,
        )
        for left in listing.excluded
    ]
    excluded += [(split_of[left.name], left) for left in unknown]
    return FilePlan(
        splits=splits,
        found=listing.found,
        tasks=tuple(
            task for split in splits for task in _split_tasks(split, by_split[split], settings)
        ),
        columns=listing.columns,
        blobs=listing.blobs,
        vocabularies=vocabularies,
        rejects=tuple(
            Reject(split, left.name, left.code, left.detail)
            for split, left in excluded
            if left.code is not None
        ),
        skipped={
            name: sum(split == name and left.code is None for split, left in excluded)
            for name in splits
        },
    )


def _labels_of(listing: Listing) -> dict[str, set[str]]:
    """The labels that occur, by column of labels."""
    return {
        column.name: {label for entry in listing.entries for label in _labels(entry.values[place])}
        for place, column in enumerate(listing.columns)
        if column.kind == "label"
    }


def _labels(value: Value) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _with_ids(
    listing: Listing, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[list[Entry], list[ExcludedInput]]:
    """The entries with ids for labels, and those whose label a given vocabulary does not hold."""
    ids = {
        place: {label: number for number, label in enumerate(vocabularies[column.name])}
        for place, column in enumerate(listing.columns)
        if column.kind == "label"
    }
    entries, unknown = [], []
    for entry in listing.entries:
        values = list(entry.values)
        try:
            for place, known in ids.items():
                values[place] = _ids(values[place], known)
        except KeyError as error:
            name = listing.columns[place].name
            detail = f"{name} {error.args[0]!r} is not in the vocabulary"
            unknown.append(ExcludedInput(entry.name, entry.split, "UNKNOWN_LABEL", detail))
        else:
            entries.append(entry._replace(values=tuple(values)) if ids else entry)
    return entries, unknown


def _ids(value: Value, known: Mapping[str, int]) -> Value:
    if isinstance(value, tuple):
        return tuple(known[cast(str, label)] for label in value)
    return None if value is None else known[cast(str, value)]


def _assign(listing: Listing, hashed: Partition, settings: MediaSettings) -> dict[str, str]:
    """The split of each entry by name: its own, by class and hash rank, or by hash."""
    if settings.stratify:
        return _stratified(listing, hashed, settings)
    place = next(
        (place for place, column in enumerate(listing.columns) if column.name == hashed.feature),
        None,
    )
    splits = {}
    for entry in listing.entries:
        identity = entry.name
        if place is not None:
            value = entry.values[place]
            # An input without a value has nothing to share a split for.
            identity = entry.name if value is None else str(value)
        splits[entry.name] = entry.split or hashed.split_of(identity, seed=settings.seed)
    return splits


def _stratified(listing: Listing, hashed: Partition, settings: MediaSettings) -> dict[str, str]:
    """Gives each class to the splits in their shares, to within one, by the rank of its hashes."""
    place = cast(int, label_column(listing.columns))
    number_of: dict[Value, int] = {}
    classes = [
        number_of.setdefault(entry.values[place], len(number_of)) for entry in listing.entries
    ]
    hashes = [
        keyed_hash(os.fsencode(entry.name), seed=settings.seed, purpose="split") >> 64
        for entry in listing.entries
    ]
    labels = list(number_of)
    places = hashed.stratified(
        np.array(classes, np.int64),
        np.array(hashes, np.uint64),
        key_of=lambda number: repr(labels[number]).encode(),
        seed=settings.seed,
    )
    return {
        entry.name: hashed.names[number]
        for entry, number in zip(listing.entries, places.tolist(), strict=True)
    }


def _split_tasks(
    split: str, entries: Iterable[Entry], settings: MediaSettings
) -> Iterator[ShardTask]:
    ordered = sorted(entries, key=lambda entry: _place(entry, settings.seed))
    num_shards = num_shards_for(
        num_records=len(ordered),
        num_bytes=sum(blob.size for entry in ordered for blob in entry.blobs),
        target_shard_bytes=settings.target_shard_bytes,
    )
    bounds = shard_bounds(num_records=len(ordered), num_shards=num_shards).tolist()
    for shard_index, (start, stop) in enumerate(itertools.pairwise(bounds)):
        yield ShardTask(split, shard_index, num_shards, tuple(ordered[start:stop]))


def _place(entry: Entry, seed: int) -> tuple[str, int]:
    """What entries are ordered by: a hash; rows of a table as they lie, to be read in one go."""
    first = entry.blobs[0]
    if first.row is not None:
        return first.path, first.row
    return "", keyed_hash(os.fsencode(entry.name), seed=seed, purpose="order")
