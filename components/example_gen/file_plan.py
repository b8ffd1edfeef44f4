"""Decides the split, order and shard of every input before any is read.

plan = plan_shards(listing, partition=Partition((("train", 2), ("eval", 1))), settings=settings)
next(plan.tasks).entries     # the first shard's inputs, in their order
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entries import Entries, values_of
from components.common.entry import BlobColumn, Entry, ExcludedInput, Value, label_column
from components.common.file_table import encode_path
from components.common.listing import Listing
from components.example_gen.assignment import EXCLUDED, Numbers, SplitRules
from components.example_gen.file_tasks import ShardTask
from components.example_gen.partition import NEAR_DUPLICATES, OWN_NAME, Partition
from components.example_gen.plan import Plan, lay_out_shards
from components.example_gen.settings import MediaSettings
from components.tables.vocabularies import make_vocabularies
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.planning import keyed_digests, remainders

__all__ = ["FilePlan", "plan_shards"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilePlan(Plan):
    """The whole of the work on examples that hold files.

    Args:
        blobs: as in the listing.
        entries: all of them, labels as ids.
        order: of each split after the other, the places in `entries` of its inputs in their order.
    """

    blobs: tuple[BlobColumn, ...]
    entries: Entries
    order: npt.NDArray[np.int64]

    @property
    def tasks(self) -> Iterator[ShardTask]:
        """One a shard, by split and shard index, each made when it is asked for."""
        for task, places in self._places():
            yield dataclasses.replace(task, entries=tuple(self.entries.take(places)))

    def sizes(self) -> Iterator[tuple[ShardTask, int, int]]:
        """Each task without its entries, how many these are, and the bytes of their files."""
        sizes = self.entries.total_bytes()
        for task, places in self._places():
            yield task, len(places), int(sizes[places].sum())

    def _places(self) -> Iterator[tuple[ShardTask, npt.NDArray[np.int64]]]:
        first = 0
        for split in self.split_shards:
            for shard_index, (start, stop) in enumerate(split.spans):
                task = ShardTask(split.name, shard_index, split.num_shards, ())
                yield task, self.order[first + start : first + stop]
            first += split.num_records

    def unread(self) -> Entries:
        """The entries that are in no shard."""
        taken = np.zeros(len(self.entries), np.bool_)
        taken[self.order] = True
        return self.entries.take(np.flatnonzero(~taken))


def plan_shards(
    listing: Listing,
    *,
    partition: Partition | None,
    settings: MediaSettings,
    find_groups: Callable[[], Mapping[str, str]] | None = None,
) -> FilePlan:
    """Lays out all shards. A pure function: equal listings and settings give equal plans.

    Args:
        listing: every input.
        partition: the splits that output_config asks for, or None for those that the inputs name,
            or else train and eval, 2:1.
        settings: seed, size of shards, vocabularies, grouping.
        find_groups: gives what entries are known by that share a split, by name, where copies are
            to; None where there are no images or sounds.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a label cannot be kept in a vocabulary file.
    """
    check_feature_names([*(c.name for c in listing.columns), *(b.name for b in listing.blobs)])
    own_codes, own_names = listing.entries.coded_splits()
    own_splits = {*own_names}
    own_splits |= {left.split for left in listing.excluded if left.split and left.code}
    rules = SplitRules(
        own_splits,
        listing.columns,
        some_have_none=bool((own_codes < 0).any()),
        partition=partition,
        settings=settings,
        groups=[NEAR_DUPLICATES] if find_groups else [],
    )
    columns = {column.name for column in listing.columns}
    by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in columns
    groups = find_groups() if find_groups and by_copies else {}
    vocabularies = make_vocabularies(_labels_of(listing), given=settings.vocabularies)
    own = np.array([*map(rules.number_of, own_names), EXCLUDED], np.uint16)[own_codes]
    numbers = _split_numbers(listing, own, rules, settings, groups)
    entries, unknown = _with_ids(listing, vocabularies)
    excluded = [
        *listing.excluded,
        *(
            _unknown_label(entry, rules.splits[number], listing, vocabularies)
            for entry, number in zip(
                listing.entries.take(unknown), numbers[unknown].tolist(), strict=True
            )
        ),
    ]
    rejects, skipped = rules.count_excluded(excluded)
    numbers[unknown] = EXCLUDED
    order = _order(entries, numbers, settings.seed)
    sizes = entries.total_bytes()
    return FilePlan(
        split_shards=lay_out_shards(
            (
                (name, int((numbers == n).sum()), int(sizes[numbers == n].sum()))
                for n, name in enumerate(rules.splits)
            ),
            target_shard_bytes=settings.target_shard_bytes,
        ),
        found=listing.found,
        entries=entries,
        order=order,
        columns=listing.columns,
        blobs=listing.blobs,
        vocabularies=vocabularies,
        rejects=tuple(rejects),
        skipped=dict(skipped),
    )


def _labels_of(listing: Listing) -> dict[str, set[str]]:
    """The labels that occur, by column of labels."""
    return {
        column.name: {*values_of(pc.unique(_single(array)))} - {None}
        for column, array in zip(listing.columns, listing.entries.values, strict=True)
        if column.kind == "label"
    }


def _single(array: pa.Array) -> pa.Array:
    """The labels of an array one by one, where each value is a list of them."""
    return pc.list_flatten(array) if pa.types.is_large_list(array.type) else array


def _with_ids(
    listing: Listing, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[Entries, npt.NDArray[np.int64]]:
    """The entries with ids for labels, and which have a label that a given vocabulary lacks."""
    values = list(listing.entries.values)
    is_unknown = np.zeros(len(listing.entries), np.bool_)
    for place, column in enumerate(listing.columns):
        if column.kind == "label" and not pa.types.is_null(values[place].type):
            known = [encode_path(label) for label in vocabularies[column.name]]
            values[place], unknown = _ids(values[place], pa.array(known, pa.large_binary()))
            is_unknown |= unknown
    entries = dataclasses.replace(listing.entries, values=tuple(values))
    return entries, np.flatnonzero(is_unknown)


def _ids(labels: pa.Array, known: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The places of labels in a vocabulary, and which entries have one that it lacks."""
    if pa.types.is_dictionary(labels.type):
        by_code = pc.index_in(labels.dictionary, value_set=known).cast(pa.int64())
        ids = by_code.take(labels.indices)
        return ids, _mask(pc.and_(labels.is_valid(), ids.is_null()))
    ids = pc.index_in(labels.values, value_set=known).cast(pa.int64())
    owners = pc.list_parent_indices(labels).to_numpy()
    unknown = np.zeros(len(labels), np.bool_)
    unknown[owners[_mask(ids.is_null())]] = True
    is_missing = np.append(_mask(labels.is_null()), False)
    offsets = pa.array(labels.offsets.to_numpy(), mask=is_missing)
    return pa.LargeListArray.from_arrays(offsets, ids), unknown


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _unknown_label(
    entry: Entry, split: str, listing: Listing, vocabularies: Mapping[str, Sequence[str]]
) -> ExcludedInput:
    """An entry that is left out for its first label that a given vocabulary lacks."""
    name, label = next(
        (column.name, label)
        for column, value in zip(listing.columns, entry.values, strict=True)
        if column.kind == "label" and value is not None
        for label in (value if isinstance(value, tuple) else (value,))
        if label not in vocabularies[column.name]
    )
    detail = f"{name} {label!r} is not in the vocabulary"
    return ExcludedInput(entry.name, split, "UNKNOWN_LABEL", detail)


def _split_numbers(
    listing: Listing,
    own: Numbers,
    rules: SplitRules,
    settings: MediaSettings,
    groups: Mapping[str, str],
) -> Numbers:
    """The split of each entry: its own, by class and hash rank, or by hash."""
    names = listing.entries.paths()
    if settings.stratify:
        digests = keyed_digests(names, seed=settings.seed, purpose="split")
        place = label_column(listing.columns)
        assert place is not None
        number_of: dict[Value, int] = {}
        classes = [number_of.setdefault(v, len(number_of)) for v in listing.entries.column(place)]
        labels = list(number_of)
        return rules.stratify(
            np.array(classes, np.int64),
            digests[:, 1],
            key_of=lambda number: repr(labels[number]).encode(),
        )
    if not (own == EXCLUDED).any():
        return own
    feature = rules.hashed.feature
    place = next((n for n, column in enumerate(listing.columns) if column.name == feature), None)
    shared = {encode_path(name): encode_path(group) for name, group in groups.items()}
    identities: Iterable[bytes] = [shared.get(name, name) for name in names] if shared else names
    if feature != OWN_NAME and place is not None:
        identities = (
            # An input without a value has nothing to share a split for.
            name if value is None else encode_path(str(value))
            for name, value in zip(names, listing.entries.column(place), strict=True)
        )
    digests = keyed_digests(identities, seed=settings.seed, purpose="split")
    return rules.assign(own, remainders(digests, rules.hashed.ends[-1]))


def _order(entries: Entries, numbers: Numbers, seed: int) -> npt.NDArray[np.int64]:
    """The entries by split and hash; rows of a table as they lie, to be read in one go."""
    digests = keyed_digests(entries.paths(), seed=seed, purpose="order")
    keys: list[npt.NDArray[Any]] = [digests[:, 0], digests[:, 1], numbers]
    table, rows = (entries.blobs[0].field(name) for name in ("path", "row"))
    if rows.null_count < len(rows):
        is_row = _mask(rows.is_valid())
        encoded = table.dictionary_encode()
        paths = values_of(encoded.dictionary)
        ranks = np.empty(len(paths), np.int64)
        ranks[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(1, len(paths) + 1)
        keys[0] = np.where(is_row, rows.fill_null(0).to_numpy().astype(np.uint64), keys[0])
        keys[1] = np.where(is_row, np.uint64(0), keys[1])
        keys.insert(2, np.where(is_row, ranks[encoded.indices.to_numpy()], 0))
    order: npt.NDArray[np.int64] = np.lexsort(keys)
    return order[: len(order) - int((numbers == EXCLUDED).sum())]
