"""Decide the split, order and shard of every input before any is read.

    plan = plan_shards(inputs, partition=None, settings=settings)
    base = read_base("out/examples/1")                # an earlier conversion of the same inputs
    plan = plan_update(plan, base, Listing(plan.rows, located), settings)

`inputs.json` describes the inputs of a dataset. It has two 64-bit digests of each record's input:
of its name, and of everything that the record was created from (its values, and the length and
CRC-32C of its files). For each shard it has a digest of the listing of its inputs, including sizes
and modification times, and it has a fingerprint of the whole listing.

An update links or copies a shard whose listing is unchanged. It reads the files of all other
shards, and converts the remaining inputs of a shard again, in order, if a file has changed.
Therefore an updated dataset has the same records as a fresh conversion.
"""

import base64
import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    bytes_of,
    entries_of,
    label_column,
    sizes_of,
    texts_of,
)
from components.common.tasks import Task
from components.common.workspace import is_within
from components.example_gen.file_examples import ShardSummary
from components.example_gen.file_shards import KnownShard, ShardTask
from components.example_gen.inputs import LocatedInputs
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
from components.shuffle.external import SplitLayout
from components.tables.column_roles import make_vocabularies
from trainer_utils.dataset import Dataset, open_dataset
from trainer_utils.format import ConfigError, Shard
from trainer_utils.format.json_text import (
    NO_CHECKSUM,
    JsonObject,
    is_sealed,
    parse_json_object,
    render_json,
    seal,
)
from trainer_utils.format.naming import INPUTS_FILE, check_feature_names
from trainer_utils.format.planning import keyed_digests, remainders
from trainer_utils.storage import exists, join, read_text
from trainer_utils.storage.file_system import decode_path, encode_path

_FORMAT_VERSION = 2
# Settings that may differ: their effect on an example, if any, is part of its input's digest.
_FREE = ("vocabulary", "update", "max_reject_fraction", "shuffled")

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
    def tasks(self) -> list[Task]:
        """One task per shard with a `ShardTask`, by split and shard index."""
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
        """Return the inputs that are in no shard."""
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
        own_splits=rules.own,
    )


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
    """Return the split of each input: its own, by class and hash rank, or by hash."""
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
            # An input without a value shares its split with no other.
            name if value is None else encode_path(str(value))
            for name, value in zip(names, texts_of(inputs.values(place)), strict=True)
        )
    digests = keyed_digests(identities, seed=settings.seed, purpose="split")
    return rules.assign(own, remainders(digests, rules.hashed.ends[-1]))


def _order(
    inputs: InputTable, names: Sequence[bytes], numbers: Numbers, seed: int
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the inputs by split and hash, and whether all are in random order.

    Rows of a table stay in the table's order, to be read sequentially.
    """
    digests = keyed_digests(names, seed=seed, purpose="order")
    order: npt.NDArray[np.int64]
    keys: list[npt.NDArray[Any]] = [digests[:, 0], digests[:, 1], numbers]
    if not inputs.blobs:  # only values, for example from a custom layout
        order = np.lexsort(keys)
        return order[: len(order) - int((numbers == EXCLUDED).sum())], True
    blob = f"blob:{inputs.blobs[0].name}"
    rows = array_of(inputs.rows, blob).field("row")
    if rows.null_count < len(rows):
        is_row = _mask(rows.is_valid())
        paths = blob_paths(inputs.rows, blob).dictionary_encode()
        ranks = np.argsort(pc.sort_indices(paths.dictionary).to_numpy()) + 1
        keys[0] = np.where(is_row, rows.fill_null(0).to_numpy().astype(np.uint64), keys[0])
        keys[1] = np.where(is_row, np.uint64(0), keys[1])
        keys.insert(2, np.where(is_row, ranks[paths.indices.to_numpy()], 0))
    order = np.lexsort(keys)
    return order[: len(order) - int((numbers == EXCLUDED).sum())], rows.null_count == len(rows)


# Updates of an earlier conversion ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BaseDataset:
    """A dataset that an ExampleGen wrote from files."""

    dataset: Dataset
    shards: tuple[KnownShard, ...]  # shards whose inputs are known
    fingerprint: str  # fingerprint of the whole listing; empty if it was not kept

    def check(self, config: Mapping[str, Any], uri: str) -> None:
        """Raise ConfigError if a conversion has other settings, or writes to the same folder."""
        if is_within(uri, self.dataset.uri):
            raise ConfigError.of("base_dataset", uri, allowed="another dataset than is written")
        for name, (old, new) in self.differing(config, free=_FREE).items():
            raise ConfigError(
                f"{name}: an update needs the value of the base dataset, {old!r}, got {new!r}. "
                "To change a setting, convert again without update=True (--update) and "
                "base_dataset=.",
                setting=name,
                value=new,
            )

    def differing(
        self, config: Mapping[str, Any], *, free: Collection[str]
    ) -> dict[str, tuple[Any, Any]]:
        """Return the settings of base and conversion that differ, except for those in `free`."""
        assert self.dataset.manifest is not None
        old = dict(self.dataset.manifest.config)
        new = parse_json_object(render_json(config), path="")
        names = sorted({*old, *new}.difference(free))
        return {n: (old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n)}


def read_base(uri: str) -> BaseDataset:
    """Open a dataset to update; raise ConfigError if it does not describe its inputs."""
    dataset = open_dataset(uri, inspect=False)
    path, advice = join(dataset.uri, INPUTS_FILE), "Convert once without base_dataset"
    if dataset.manifest is None or not exists(path):
        rule = f"a dataset of an ImageExampleGen or AudioExampleGen, with {INPUTS_FILE}"
        raise ConfigError.of("base_dataset", uri, allowed=rule, advice=advice)
    text = read_text(path)
    value = parse_json_object(text, path=path)
    if value.get("format_version") != _FORMAT_VERSION or not is_sealed(text):
        rule = f"one whose {INPUTS_FILE} is whole and of format version {_FORMAT_VERSION}"
        raise ConfigError.of("base_dataset", uri, allowed=rule, advice=advice)
    known = {(entry["path"], entry["crc32c"]): entry for entry in value["shards"]}
    shards = []
    for shard in dataset.manifest.shards:
        # Skip shards that were rewritten since, for example by `tfx-shards forget`.
        if (entry := known.get((shard.path, shard.crc32c))) is not None:
            summary = ShardSummary.from_json(entry["summary"])
            for name in ("names", "states"):
                sums = np.frombuffer(base64.b64decode(entry[name]), "<u8")
                setattr(summary, name, sums.tolist())
            shards.append(KnownShard(dataset.uri, shard, summary, entry["listing"]))
    return BaseDataset(dataset, tuple(shards), value.get("fingerprint", ""))


def render_inputs(written: Iterable[tuple[Shard, ShardSummary, str]], *, fingerprint: str) -> str:
    """Return the content of `inputs.json`: the inputs of each shard's records, in order.

    Args:
        written: the shards, each with its summary and the digest of its inputs' listing.
        fingerprint: the fingerprint of the whole listing.
    """
    entries: list[JsonObject] = []
    for shard, summary, listing in written:
        entry = {"path": shard.path, "crc32c": shard.crc32c, "listing": listing}
        for name in ("names", "states"):
            sums = np.array(getattr(summary, name), "<u8")
            entry[name] = base64.b64encode(sums.tobytes()).decode()
        entries.append({**entry, "summary": summary.to_json()})
    value = {"format_version": _FORMAT_VERSION, "checksum": NO_CHECKSUM, "shards": entries}
    return seal(render_json({**value, "fingerprint": fingerprint}))


class Listing:
    """The listed versions of the inputs in the rows of a plan.

    Args:
        rows: the rows of the plan.
        located: the listed inputs.
    """

    def __init__(self, rows: pa.Table, located: LocatedInputs) -> None:
        encoded = bytes_of(array_of(rows, "name"))
        self.names: Sums = keyed_digests(encoded, seed=0, purpose="name")[:, 0]
        tables = [p.files.table.select(["path", "version"]) for p in located.patterns]
        files = pa.concat_tables(tables).combine_chunks()
        self._rows = rows
        for name in rows.column_names:
            if name.startswith("blob:"):
                places = pc.index_in(blob_paths(rows, name), value_set=array_of(files, "path"))
                versions = array_of(files, "version").take(places)
                self._rows = self._rows.append_column(f"version:{name}", versions)

    def digest(self, places: npt.NDArray[np.int64]) -> str:
        """Return a digest of the listing of inputs, in order; empty if a version is unknown."""
        rows = self._rows.take(pa.array(places)).combine_chunks()
        if any(rows.column(n).null_count for n in rows.column_names if n.startswith("version:")):
            return ""
        digest = hashlib.blake2b(str(rows.schema).encode(), digest_size=16)
        for batch in rows.to_batches():
            digest.update(batch.serialize())
        return digest.hexdigest()

    def of_records(self, places: npt.NDArray[np.int64], names: Sequence[int]) -> str:
        """Return the digest of the inputs that became records, found by their names' digests."""
        if len(places) != len(names):
            places = places[np.isin(self.names[places], np.array(names, np.uint64))]
        return self.digest(places)


def plan_update(
    plan: FilePlan, base: BaseDataset, listing: Listing, settings: MediaSettings
) -> FilePlan:
    """Return the plan of a fresh conversion, but keep the base's inputs in its shards and order.

    In each split, the base's shards come first, except for those with no input left. All other
    inputs follow in additional shards, in the order of their hashes.
    """
    names, sizes = listing.names, sizes_of(plan.rows)
    orders: list[npt.NDArray[np.int64]] = []
    layouts, known, first = list[SplitLayout](), list[KnownShard | None](), 0
    for layout in plan.layouts:
        places = plan.order[first : first + layout.num_records]
        first += layout.num_records
        by_name = dict(zip(names[places].tolist(), places.tolist(), strict=True))
        bounds = [0]
        for shard in base.shards:
            if shard.shard.split == layout.split:
                found = [by_name.pop(n) for n in shard.summary.names if n in by_name]
                if found:
                    orders.append(np.array(found, np.int64))
                    bounds.append(bounds[-1] + len(found))
                    is_listed = len(found) == len(shard.summary.names) and bool(shard.listing)
                    is_listed = is_listed and listing.digest(orders[-1]) == shard.listing
                    known.append(dataclasses.replace(shard, is_listed=is_listed))
        is_new = np.isin(places, np.fromiter(by_name.values(), np.int64, len(by_name)))
        new = places[is_new]
        if len(new) or len(bounds) == 1:
            (fresh,) = lay_out_shards(
                [(layout.split, len(new), int(sizes[new].sum()))],
                dataclasses.replace(settings, num_shards=None, shard_multiple=1),
            )
            orders.append(new)
            bounds += [bounds[-1] + stop for stop in fresh.bounds[1:]]
            known += [None] * fresh.num_shards
        layouts.append(dataclasses.replace(layout, bounds=tuple(bounds)))
    order = np.concatenate([np.zeros(0, np.int64), *orders])
    return dataclasses.replace(plan, layouts=tuple(layouts), order=order, known=tuple(known))


def count_changes(base: BaseDataset, summaries: Sequence[ShardSummary]) -> JsonObject:
    """Count the examples that were added, changed, removed and kept."""
    old, old_states, new, new_states = (
        np.array([one for summary in some for one in getattr(summary, name)], np.uint64)
        for some in ([shard.summary for shard in base.shards], summaries)
        for name in ("names", "states")
    )
    _, at_old, at_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    kept = int((old_states[at_old] == new_states[at_new]).sum())
    return {
        "base": base.dataset.digest,
        "added": len(new) - len(at_new),
        "changed": len(at_new) - kept,
        "removed": len(old) - len(at_old),
        "kept": kept,
    }
