"""Decides the split, order and shard of every input before any is read."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import (
    BlobColumn,
    Entry,
    ExcludedInput,
    InputTable,
    array_of,
    blob_paths,
    entries_of,
    label_column,
    sizes_of,
    texts_of,
)
from components.common.file_table import bytes_of
from components.common.tasks import Task
from components.example_gen.file_shards import KnownShard, ShardTask
from components.example_gen.plan import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    Plan,
    SplitRules,
    lay_out_shards,
)
from components.example_gen.settings import MediaSettings
from components.tables.column_roles import make_vocabularies
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.planning import keyed_digests, remainders
from trainer_utils.storage.file_system import decode_path, encode_path


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilePlan(Plan):
    """The whole of the work on examples that hold files."""

    blobs: tuple[BlobColumn, ...]
    rows: pa.Table  # all inputs, labels as ids
    # Of each split after the other, the places in `rows` of its inputs in their order
    order: npt.NDArray[np.int64]
    # Of each shard, in the same order, what it was before; empty: there is no base
    known: tuple[KnownShard | None, ...] = ()

    @property
    def tasks(self) -> list[Task]:
        """One a shard, of a `ShardTask`, by split and shard index."""
        tasks, first, sizes = list[Task](), 0, sizes_of(self.rows)
        for layout in self.layouts:
            for index in range(layout.num_shards):
                start, stop = layout.bounds[index : index + 2]
                places = self.order[first + start : first + stop]
                known = self.known[len(tasks)] if self.known else None
                shard = ShardTask(layout.shard_name(index), self.rows, places, known)
                name = f"{layout.split}-{index:05d}"
                tasks.append(Task(name, shard, len(places), int(sizes[places].sum())))
            first += layout.num_records
        return tasks

    def unread(self) -> list[Entry]:
        """The inputs that are in no shard."""
        places = np.delete(np.arange(len(self.rows)), self.order)
        return [*entries_of(self.rows.take(pa.array(places)))]


def plan_shards(
    inputs: InputTable,
    *,
    partition: Partition | None,
    settings: MediaSettings,
    find_groups: Callable[[], Mapping[str, str]] | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
) -> FilePlan:
    """Lays out all shards. A pure function: equal inputs and settings give equal plans.

    Args:
        partition: the splits that output_config asks for, or None for those that the inputs name,
            or else train and eval, 2:1.
        find_groups: gives what inputs are known by that share a split, by name, where copies are
            to; None where there are no images or sounds.
        known: vocabularies by feature that new labels come after, where none are given.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
        InputError: a label cannot be kept in a vocabulary file.
    """
    check_feature_names([*(c.name for c in inputs.columns), *(b.name for b in inputs.blobs)])
    own_splits = array_of(inputs.rows, "split").dictionary_encode()
    own_names = own_splits.dictionary.to_pylist()
    rules = SplitRules(
        {*own_names} | {left.split for left in inputs.excluded if left.split and left.code},
        inputs.columns,
        some_have_none=bool(own_splits.null_count),
        partition=partition,
        settings=settings,
        groups=[NEAR_DUPLICATES] if find_groups else [],
    )
    labels: dict[str, set[str]] = {}
    for place, column in enumerate(inputs.columns):
        if column.kind == "label":
            values = inputs.values(place)
            values = pc.list_flatten(values) if column.is_list else values
            labels[column.name] = {*texts_of(pc.unique(values))} - {None}
    columns = {column.name for column in inputs.columns}
    by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in columns
    groups = find_groups() if find_groups and by_copies else {}
    vocabularies = make_vocabularies(labels, given=settings.vocabularies, known=known or {})
    names = bytes_of(array_of(inputs.rows, "name"))
    own = np.array([*map(rules.number_of, own_names), EXCLUDED], np.uint16)[
        own_splits.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    ]
    numbers = _split_numbers(inputs, names, own, rules, settings, groups)
    rows, unknown = _with_ids(inputs, vocabularies)
    excluded = [
        ExcludedInput(decode_path(names[row]), rules.splits[numbers[row]], "UNKNOWN_LABEL", detail)
        for row, detail in sorted(unknown.items())
    ]
    rejects, skipped = rules.count_excluded([*inputs.excluded, *excluded])
    numbers[[*unknown]] = EXCLUDED
    sizes = sizes_of(rows)
    order, is_shuffled = _order(inputs, names, numbers, settings.seed)
    splits = [
        (name, int((numbers == n).sum()), int(sizes[numbers == n].sum()))
        for n, name in enumerate(rules.splits)
    ]
    return FilePlan(
        layouts=lay_out_shards(splits, settings),
        found=inputs.found,
        rows=rows,
        order=order,
        is_shuffled=is_shuffled,
        columns=inputs.columns,
        blobs=inputs.blobs,
        vocabularies=vocabularies,
        rejects=tuple(rejects),
        skipped=dict(skipped),
    )


def _with_ids(
    inputs: InputTable, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[pa.Table, dict[int, str]]:
    """The rows with ids for labels; by row, what label a given vocabulary lacks, in words."""
    rows, unknown = inputs.rows, dict[int, str]()
    for place, column in enumerate(inputs.columns):
        if column.kind != "label":
            continue
        array = inputs.values(place)
        labels = array.values if column.is_list else array
        known = pa.array(map(encode_path, vocabularies[column.name]), pa.large_binary())
        ids = pc.index_in(labels, value_set=known).cast(pa.int64())
        lost = np.flatnonzero(_mask(pc.and_(labels.is_valid(), ids.is_null())))
        owners = pc.list_parent_indices(array).to_numpy()[lost] if column.is_list else lost
        for row, label in zip(owners.tolist(), texts_of(labels.take(pa.array(lost))), strict=True):
            unknown.setdefault(row, f"{column.name} {label!r} is not in the vocabulary")
        if column.is_list:
            is_missing = np.append(_mask(array.is_null()), False)
            offsets = pa.array(array.offsets.to_numpy(), mask=is_missing)
            ids = pa.LargeListArray.from_arrays(offsets, ids)
        name = f"value:{column.name}"
        rows = rows.set_column(rows.column_names.index(name), name, ids)
    return rows, unknown


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _split_numbers(
    inputs: InputTable,
    names: Sequence[bytes],
    own: Numbers,
    rules: SplitRules,
    settings: MediaSettings,
    groups: Mapping[str, str],
) -> Numbers:
    """The split of each input: its own, by class and hash rank, or by hash."""
    if settings.stratify:
        digests = keyed_digests(names, seed=settings.seed, purpose="split")
        place = label_column(inputs.columns)
        assert place is not None
        number_of: dict[Any, int] = {}
        classes = [number_of.setdefault(v, len(number_of)) for v in texts_of(inputs.values(place))]
        labels = list(number_of)
        return rules.stratify(
            np.array(classes, np.int64),
            digests[:, 1],
            key_of=lambda number: repr(labels[number]).encode(),
        )
    if not (own == EXCLUDED).any():
        return own
    feature = rules.hashed.feature
    place = next((n for n, column in enumerate(inputs.columns) if column.name == feature), None)
    shared = {encode_path(name): encode_path(group) for name, group in groups.items()}
    identities: Iterable[bytes] = [shared.get(name, name) for name in names] if shared else names
    if feature != OWN_NAME and place is not None:
        identities = (
            # An input without a value has nothing to share a split for.
            name if value is None else encode_path(str(value))
            for name, value in zip(names, texts_of(inputs.values(place)), strict=True)
        )
    digests = keyed_digests(identities, seed=settings.seed, purpose="split")
    return rules.assign(own, remainders(digests, rules.hashed.ends[-1]))


def _order(
    inputs: InputTable, names: Sequence[bytes], numbers: Numbers, seed: int
) -> tuple[npt.NDArray[np.int64], bool]:
    """The inputs by split and hash; rows of a table as they lie, to be read in one go.

    And whether there are none of the latter.
    """
    digests = keyed_digests(names, seed=seed, purpose="order")
    keys: list[npt.NDArray[Any]] = [digests[:, 0], digests[:, 1], numbers]
    blob = f"blob:{inputs.blobs[0].name}"
    rows = array_of(inputs.rows, blob).field("row")
    if rows.null_count < len(rows):
        is_row = _mask(rows.is_valid())
        paths = blob_paths(inputs.rows, blob).dictionary_encode()
        ranks = np.argsort(pc.sort_indices(paths.dictionary).to_numpy()) + 1
        keys[0] = np.where(is_row, rows.fill_null(0).to_numpy().astype(np.uint64), keys[0])
        keys[1] = np.where(is_row, np.uint64(0), keys[1])
        keys.insert(2, np.where(is_row, ranks[paths.indices.to_numpy()], 0))
    order: npt.NDArray[np.int64] = np.lexsort(keys)
    return order[: len(order) - int((numbers == EXCLUDED).sum())], rows.null_count == len(rows)
