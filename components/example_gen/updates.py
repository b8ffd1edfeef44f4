"""Plan an update: reuse the shards of an earlier dataset whose inputs have not changed.

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
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.file_examples import ShardSummary
from components.example_gen.file_plan import FilePlan, Sums
from components.example_gen.file_shards import KnownShard
from components.example_gen.input_selection import LocatedInputs
from components.example_gen.plan import (
    lay_out_shards,
)
from components.example_gen.settings import MediaSettings
from components.inputs.arrow_columns import array_of, blob_paths, bytes_of, int_array, sizes_of
from components.runtime.workspace import is_within
from components.shuffle.split_layout import SplitLayout
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject, parse_json_object, render_json
from trainer_utils.dataset import Dataset, open_dataset
from trainer_utils.format import Shard
from trainer_utils.format.hashing import keyed_digests
from trainer_utils.format.naming import INPUTS_FILE
from trainer_utils.format.sealing import NO_CHECKSUM, is_sealed, seal
from trainer_utils.storage import exists, join, read_text

_FORMAT_VERSION = 2
# Settings that may differ: their effect on an example, if any, is part of its input's digest.
_FREE = ("vocabulary", "update", "max_reject_fraction", "shuffled")


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
                versions = pc.take(array_of(files, "version"), places)
                self._rows = self._rows.append_column(f"version:{name}", versions)

    def digest(self, places: npt.NDArray[np.int64]) -> str:
        """Return a digest of the listing of inputs, in order; empty if a version is unknown."""
        rows = pc.take(self._rows, int_array(places)).combine_chunks()
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
    layouts, known, places_of = list[SplitLayout](), list[KnownShard | None](), plan.places
    for layout in plan.layouts:
        places = places_of[layout.split]
        by_name = dict(zip(names[places].tolist(), places.tolist(), strict=True))
        bounds = [0]
        for shard in base.shards:
            if shard.shard.split == layout.split:
                records = [by_name.pop(n) for n in shard.summary.names if n in by_name]
                if records:
                    orders.append(np.array(records, np.int64))
                    bounds.append(bounds[-1] + len(records))
                    is_listed = len(records) == len(shard.summary.names) and bool(shard.listing)
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
        np.array(
            [number for summary in shard_summaries for number in getattr(summary, name)], np.uint64
        )
        for shard_summaries in ([shard.summary for shard in base.shards], summaries)
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
