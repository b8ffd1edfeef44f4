"""Decide the split, order and shard of every input before any is read.

plan = plan_shards(inputs, partition=None, settings=settings)
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.file_shards import KnownShard, ShardTask
from components.example_gen.plan import Plan, lay_out_shards
from components.example_gen.settings import MediaSettings
from components.example_gen.split_rules import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    SplitRules,
)
from components.inputs.arrow_columns import (
    array_of,
    blob_paths,
    bytes_of,
    int_array,
    list_array,
    path_array,
    sizes_of,
    to_numpy,
    to_python_values,
)
from components.inputs.input_table import (
    BlobColumn,
    Entry,
    ExcludedInput,
    InputTable,
    entries_of,
    label_column,
)
from components.runtime.tasks import Task
from components.tables.column_roles import make_vocabularies
from trainer_utils.format.hashing import keyed_digests, remainders
from trainer_utils.format.naming import check_feature_names
from trainer_utils.storage.paths import decode_path, encode_path

Sums = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilePlan(Plan):
    """The complete plan for examples that have files."""

    blobs: tuple[BlobColumn, ...]
    rows: pa.Table  # all inputs, with labels as ids
    # Indices in `rows` of the inputs of each split in order, split after split
    order: npt.NDArray[np.int64]
    # The earlier version of each shard, in the same order; empty if there is no base
    known: tuple[KnownShard | None, ...] = ()

    @property
    def places(self) -> dict[str, npt.NDArray[np.int64]]:
        """Indices in `rows` of the inputs of each split, in order."""
        ends = np.cumsum([layout.num_records for layout in self.layouts])[:-1]
        return dict(zip(self.splits, np.split(self.order, ends), strict=True))

    @property
    def tasks(self) -> list[Task[ShardTask]]:
        """One task per shard with a `ShardTask`, by split and shard index."""
        tasks, sizes, places_of = list[Task[ShardTask]](), sizes_of(self.rows), self.places
        for layout in self.layouts:
            for index in range(layout.num_shards):
                start, stop = layout.bounds[index : index + 2]
                places = places_of[layout.split][start:stop]
                known = self.known[len(tasks)] if self.known else None
                shard = ShardTask(layout.shard_name(index), self.rows, places, known)
                name = f"{layout.split}-{index:05d}"
                tasks.append(Task(name, shard, len(places), int(sizes[places].sum())))
        return tasks

    def unread(self) -> list[Entry]:
        """Return the inputs that are in no shard."""
        places = np.delete(np.arange(len(self.rows)), self.order)
        return [*entries_of(pc.take(self.rows, int_array(places)))]


def plan_shards(
    inputs: InputTable,
    *,
    partition: Partition | None,
    settings: MediaSettings,
    find_groups: Callable[[], Mapping[str, str]] | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
) -> FilePlan:
    """Lay out all shards. A pure function: equal inputs and settings give equal plans.

    Args:
        inputs: the inputs to lay out.
        partition: the splits that output_config requests. None: the splits that the inputs name, or
            else train and eval, 2:1.
        settings: the settings of the ExampleGen.
        find_groups: returns the group of each input that has copies, by name, so that copies share
            a split. None: there are no images or audio files.
        known: vocabularies by feature. New labels are appended, unless a vocabulary is given.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a label cannot be kept in a vocabulary file.
    """
    check_feature_names([*(c.name for c in inputs.columns), *(b.name for b in inputs.blobs)])
    rules = _split_rules(inputs, partition, settings, has_groups=find_groups is not None)
    vocabularies = make_vocabularies(
        _distinct_labels(inputs), given=settings.vocabularies, known=known or {}
    )
    columns = {column.name for column in inputs.columns}
    is_by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in columns
    groups = find_groups() if find_groups is not None and is_by_copies else {}

    names = bytes_of(array_of(inputs.rows, "name"))
    numbers = _split_numbers(inputs, names, _own_numbers(inputs, rules), rules, settings, groups)
    rows, unknown = _with_ids(inputs, vocabularies)
    unlabelled = [
        ExcludedInput(decode_path(names[row]), rules.splits[numbers[row]], "UNKNOWN_LABEL", detail)
        for row, detail in sorted(unknown.items())
    ]
    rejects, skipped = rules.count_excluded([*inputs.excluded, *unlabelled])
    numbers[[*unknown]] = EXCLUDED

    order, is_shuffled = _order(inputs, names, numbers, settings.seed)
    return FilePlan(
        layouts=lay_out_shards(_split_sizes(rows, numbers, rules), settings),
        found=inputs.found,
        rows=rows,
        order=order,
        is_shuffled=is_shuffled,
        columns=inputs.columns,
        blobs=inputs.blobs,
        vocabularies=vocabularies,
        rejects=tuple(rejects),
        skipped=dict(skipped),
        own_splits=rules.own,
    )


def _split_rules(
    inputs: InputTable,
    partition: Partition | None,
    settings: MediaSettings,
    *,
    has_groups: bool,
) -> SplitRules:
    """Return the rules of the splits that inputs name, and that settings ask for."""
    splits = array_of(inputs.rows, "split")
    named = {*pc.unique(pc.drop_null(splits)).to_pylist()}
    named |= {left.split for left in inputs.excluded if left.split and left.code}
    return SplitRules(
        named,
        inputs.columns,
        some_have_none=bool(splits.null_count),
        partition=partition,
        settings=settings,
        groups=[NEAR_DUPLICATES] if has_groups else [],
    )


def _distinct_labels(inputs: InputTable) -> dict[str, set[str]]:
    """Return the distinct values of each label, by column."""
    labels: dict[str, set[str]] = {}
    for place, column in enumerate(inputs.columns):
        if column.kind == "label":
            values = inputs.values(place)
            values = pc.list_flatten(values) if column.is_list else values
            labels[column.name] = {*to_python_values(pc.unique(values))} - {None}
    return labels


def _own_numbers(inputs: InputTable, rules: SplitRules) -> Numbers:
    """Return the number of the split that each input names, or `EXCLUDED` for none."""
    splits = pc.dictionary_encode(array_of(inputs.rows, "split"))
    numbers = [rules.number_of(name) for name in splits.dictionary.to_pylist()]
    places = to_numpy(splits.indices, null=-1)
    named_splits: Numbers = np.array([*numbers, EXCLUDED], np.uint16)[places]
    return named_splits


def _split_sizes(rows: pa.Table, numbers: Numbers, rules: SplitRules) -> list[tuple[str, int, int]]:
    """Return the name, the number of inputs, and the bytes of each split."""
    sizes = sizes_of(rows)
    return [
        (name, int((numbers == number).sum()), int(sizes[numbers == number].sum()))
        for number, name in enumerate(rules.splits)
    ]


def _with_ids(
    inputs: InputTable, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows with ids for labels, and a message for each row with an unknown label."""
    rows, unknown = inputs.rows, dict[int, str]()
    for place, column in enumerate(inputs.columns):
        if column.kind != "label":
            continue
        array = inputs.values(place)
        labels = array.values if column.is_list else array
        known = path_array(vocabularies[column.name])
        ids = pc.cast(pc.index_in(labels, value_set=known), pa.int64())
        lost = np.flatnonzero(to_numpy(pc.and_(pc.is_valid(labels), pc.is_null(ids))))
        owners = to_numpy(pc.list_parent_indices(array))[lost] if column.is_list else lost
        for row, label in zip(
            owners.tolist(), to_python_values(pc.take(labels, int_array(lost))), strict=True
        ):
            unknown.setdefault(row, f"{column.name} {label!r} is not in the vocabulary")
        if column.is_list:
            ids = list_array(to_numpy(array.offsets), ids, to_numpy(pc.is_null(array)))
        name = f"value:{column.name}"
        rows = rows.set_column(rows.column_names.index(name), name, ids)
    return rows, unknown


def _split_numbers(
    inputs: InputTable,
    names: Sequence[bytes],
    named_splits: Numbers,
    rules: SplitRules,
    settings: MediaSettings,
    groups: Mapping[str, str],
) -> Numbers:
    """Return the split of each input: its own, by class and hash rank, or by hash."""
    if settings.stratify:
        digests = keyed_digests(names, seed=settings.seed, purpose="split")
        place = label_column(inputs.columns)
        assert place is not None
        number_of: dict[Any, int] = {}
        classes = [
            number_of.setdefault(v, len(number_of)) for v in to_python_values(inputs.values(place))
        ]
        labels = list(number_of)
        return rules.stratify(
            np.array(classes, np.int64),
            digests[:, 1],
            key_of=lambda number: repr(labels[number]).encode(),
        )
    if not (named_splits == EXCLUDED).any():
        return named_splits
    if len(rules.hashed.names) == 1:  # hashes decide nothing
        return rules.assign(named_splits, np.zeros(len(names), np.uint64))
    feature = rules.hashed.feature
    place = next((n for n, column in enumerate(inputs.columns) if column.name == feature), None)
    shared = {encode_path(name): encode_path(group) for name, group in groups.items()}
    identities: Iterable[bytes] = [shared.get(name, name) for name in names] if shared else names
    if feature != OWN_NAME and place is not None:
        identities = (
            # An input without a value shares its split with no other.
            name if value is None else encode_path(str(value))
            for name, value in zip(names, to_python_values(inputs.values(place)), strict=True)
        )
    digests = keyed_digests(identities, seed=settings.seed, purpose="split")
    return rules.assign(named_splits, remainders(digests, rules.hashed.ends[-1]))


def _order(
    inputs: InputTable, names: Sequence[bytes], numbers: Numbers, seed: int
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the inputs by split and hash, and whether all are in random order.

    Rows of a table stay in the table's order, to be read sequentially.
    """
    digests = keyed_digests(names, seed=seed, purpose="order")
    keys: list[npt.NDArray[Any]] = []
    is_random = True
    if inputs.blobs:  # otherwise there are only values, for example from a custom layout
        blob = f"blob:{inputs.blobs[0].name}"
        rows = array_of(inputs.rows, blob).field("row")
        is_row = to_numpy(pc.is_valid(rows))
        is_random = not is_row.any()
        if not is_random:  # by split, then by table, then by row
            tables = pc.dictionary_encode(blob_paths(inputs.rows, blob))
            ranks = np.argsort(to_numpy(pc.sort_indices(tables.dictionary))) + 1
            row_numbers = to_numpy(rows, null=0).astype(np.uint64)
            keys = [
                np.where(is_row, row_numbers, digests[:, 0]),
                np.where(is_row, np.uint64(0), digests[:, 1]),
                np.where(is_row, ranks[to_numpy(tables.indices)], 0),
                numbers,
            ]
    # For `lexsort`, the last key comes first.
    order = np.lexsort(keys) if keys else _by_split_and_hash(numbers, digests)
    num_excluded = int((numbers == EXCLUDED).sum())  # the highest number, so they come last
    return order[: len(order) - num_excluded], is_random


def _by_split_and_hash(numbers: Numbers, digests: Sums) -> npt.NDArray[np.int64]:
    """Return the inputs by split, then by hash, in half the time of `lexsort` by all three keys."""
    order: npt.NDArray[np.int64] = np.argsort(digests[:, 1])
    upper_halves = digests[order, 1]
    if (upper_halves[1:] == upper_halves[:-1]).any():  # by chance once in 2**64 pairs
        order = np.lexsort((digests[:, 0], digests[:, 1]))
    return order[np.argsort(numbers[order], kind="stable")]
