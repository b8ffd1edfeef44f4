"""Decides the split, order and shard of every input before any is read."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import BlobColumn, Entry, ExcludedInput, label_column
from components.common.file_table import bytes_of, encode_path
from components.common.input_table import (
    InputTable,
    array_of,
    blob_paths,
    entries_of,
    sizes_of,
    texts_of,
)
from components.common.tasks import Task
from components.example_gen.media import KnownShard, ShardSummary
from components.example_gen.partition import (
    EXCLUDED,
    NEAR_DUPLICATES,
    OWN_NAME,
    Numbers,
    Partition,
    SplitRules,
)
from components.example_gen.plan import Plan, lay_out_shards
from components.example_gen.settings import MediaSettings
from components.tables.vocabularies import make_vocabularies
from trainer_utils.format import CorruptShardError, RecordIndex
from trainer_utils.format.naming import check_feature_names
from trainer_utils.format.planning import keyed_digests, remainders


@dataclasses.dataclass(frozen=True)
class EncodedPart:
    """Neighbouring records of a shard, framed, in a file of the working folder of that CRC-32C."""

    path: str
    crc32c: int
    index: RecordIndex
    summary: ShardSummary

    def error(self) -> CorruptShardError:
        """Of a file that is not what was written."""
        return CorruptShardError.at(
            self.path,
            expected=f"the bytes with checksum {self.crc32c:08x} that were written",
            got="none or others",
            advice="The disk or file system lost data: run it again elsewhere.",
        )


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """One shard to write: its place, and its inputs, labels as ids."""

    split: str
    shard_index: int
    num_shards: int
    rows: pa.Table  # of the inputs, or of all of a plan
    # Of the inputs among `rows`; None: all of these. To another process goes no other
    places: npt.NDArray[np.int64] | None = None
    # The shard that these inputs were in before, if they all come from one
    known: KnownShard | None = None
    # What was made of the inputs already, in order; empty: nothing
    parts: tuple[EncodedPart, ...] = ()

    @property
    def own_rows(self) -> pa.Table:
        """The inputs, one a row."""
        if self.places is None:
            return self.rows
        # `pa.array` of numpy's imports pandas where there is one: half a second in each process.
        places = np.ascontiguousarray(self.places, np.int64)
        indices = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])
        return self.rows.take(indices)

    @property
    def entries(self) -> list[Entry]:
        """The inputs."""
        return [*entries_of(self.own_rows)]

    def joining(self, parts: Sequence[EncodedPart]) -> "ShardTask":
        """The task that joins the parts of this shard."""
        none = np.zeros(0, np.int64)
        return dataclasses.replace(self, places=none, parts=tuple(parts))

    def __reduce__(self) -> Any:
        place = self.split, self.shard_index, self.num_shards
        return ShardTask, (*place, self.own_rows, None, self.known, self.parts)


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
        for split in self.split_shards:
            for index, (start, stop) in enumerate(split.spans):
                places = self.order[first + start : first + stop]
                known = self.known[len(tasks)] if self.known else None
                shard = ShardTask(split.name, index, split.num_shards, self.rows, places, known)
                name = f"{split.name}-{index:05d}"
                tasks.append(Task(name, shard, len(places), int(sizes[places].sum())))
            first += split.num_records
        return tasks

    def unread(self) -> list[Entry]:
        """The inputs that are in no shard."""
        taken = np.zeros(len(self.rows), np.bool_)
        taken[self.order] = True
        return [*entries_of(self.rows.filter(pa.array(~taken)))]


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
    columns = {column.name for column in inputs.columns}
    by_copies = settings.group_by == NEAR_DUPLICATES and NEAR_DUPLICATES not in columns
    groups = find_groups() if find_groups and by_copies else {}
    vocabularies = make_vocabularies(
        _labels_of(inputs), given=settings.vocabularies, known=known or {}
    )
    own = np.array([*map(rules.number_of, own_names), EXCLUDED], np.uint16)[
        own_splits.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    ]
    numbers = _split_numbers(inputs, own, rules, settings, groups)
    rows, unknown = _with_ids(inputs, vocabularies)
    rejected = entries_of(inputs.rows.take(pa.array(unknown)))
    excluded = [
        _unknown_label(entry, rules.splits[number], inputs, vocabularies)
        for entry, number in zip(rejected, numbers[unknown].tolist(), strict=True)
    ]
    rejects, skipped = rules.count_excluded([*inputs.excluded, *excluded])
    numbers[unknown] = EXCLUDED
    sizes = sizes_of(rows)
    order, is_shuffled = _order(inputs, numbers, settings.seed)
    splits = [
        (name, int((numbers == n).sum()), int(sizes[numbers == n].sum()))
        for n, name in enumerate(rules.splits)
    ]
    return FilePlan(
        split_shards=lay_out_shards(splits, settings),
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


def _labels_of(inputs: InputTable) -> dict[str, set[str]]:
    """The labels that occur, by column of labels."""
    found = {}
    for place, column in enumerate(inputs.columns):
        if column.kind == "label":
            labels = inputs.values(place)
            labels = pc.list_flatten(labels) if column.is_list else labels
            found[column.name] = {*texts_of(pc.unique(labels))} - {None}
    return found


def _with_ids(
    inputs: InputTable, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The rows with ids for labels, and which have a label that a given vocabulary lacks."""
    rows, is_unknown = inputs.rows, np.zeros(len(inputs.rows), np.bool_)
    for place, column in enumerate(inputs.columns):
        if column.kind == "label":
            known = pa.array(map(encode_path, vocabularies[column.name]), pa.large_binary())
            ids, unknown = _ids(inputs.values(place), known)
            name = f"value:{column.name}"
            rows = rows.set_column(rows.column_names.index(name), name, ids)
            is_unknown |= unknown
    return rows, np.flatnonzero(is_unknown)


def _ids(labels: pa.Array, known: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The places of labels in a vocabulary, and which inputs have one that it lacks."""
    if not pa.types.is_large_list(labels.type):
        ids = pc.index_in(labels, value_set=known).cast(pa.int64())
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
    entry: Entry, split: str, inputs: InputTable, vocabularies: Mapping[str, Sequence[str]]
) -> ExcludedInput:
    """An entry that is left out for its first label that a given vocabulary lacks."""
    for column, value in zip(inputs.columns, entry.values, strict=True):
        if column.kind == "label" and value is not None:
            for label in value if isinstance(value, tuple) else (value,):
                if label not in vocabularies[column.name]:
                    detail = f"{column.name} {label!r} is not in the vocabulary"
                    return ExcludedInput(entry.name, split, "UNKNOWN_LABEL", detail)
    raise AssertionError(entry)


def _split_numbers(
    inputs: InputTable,
    own: Numbers,
    rules: SplitRules,
    settings: MediaSettings,
    groups: Mapping[str, str],
) -> Numbers:
    """The split of each input: its own, by class and hash rank, or by hash."""
    names = bytes_of(array_of(inputs.rows, "name"))
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


def _order(inputs: InputTable, numbers: Numbers, seed: int) -> tuple[npt.NDArray[np.int64], bool]:
    """The inputs by split and hash; rows of a table as they lie, to be read in one go.

    And whether there are none of the latter.
    """
    names = bytes_of(array_of(inputs.rows, "name"))
    digests = keyed_digests(names, seed=seed, purpose="order")
    keys: list[npt.NDArray[Any]] = [digests[:, 0], digests[:, 1], numbers]
    blob = f"blob:{inputs.blobs[0].name}"
    rows = array_of(inputs.rows, blob).field("row")
    if rows.null_count < len(rows):
        is_row = _mask(rows.is_valid())
        encoded = blob_paths(inputs.rows, blob).dictionary_encode()
        paths = encoded.dictionary.to_pylist()
        ranks = np.empty(len(paths), np.int64)
        ranks[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(1, len(paths) + 1)
        keys[0] = np.where(is_row, rows.fill_null(0).to_numpy().astype(np.uint64), keys[0])
        keys[1] = np.where(is_row, np.uint64(0), keys[1])
        keys.insert(2, np.where(is_row, ranks[encoded.indices.to_numpy()], 0))
    order: npt.NDArray[np.int64] = np.lexsort(keys)
    return order[: len(order) - int((numbers == EXCLUDED).sum())], rows.null_count == len(rows)
