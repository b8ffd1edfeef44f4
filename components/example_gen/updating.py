"""What a conversion takes over from an earlier one of the same inputs: the shards that stay.

    base = read_base("out/examples/1")
    plan = plan_update(plan, base, Listing(plan.rows, located), settings)
    count_changes(base, summaries)        # {'added': 10, 'changed': 0, 'removed': 0, 'kept': 990}

`inputs.json` has two 64-bit sums of each record's input: of its name, and of all that the record
was made of, which are its values and the length and CRC-32C of its files; of each shard a digest of
what a listing says of its inputs, sizes and times of change among it; and a fingerprint of the
listing of all inputs. A shard of which that is the same is linked or copied; of any other the files
are read, and where one has changed, the inputs that are left are converted anew, in their order. So
a dataset that is updated holds the records that a fresh conversion would.
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

from components.common.entry import array_of, blob_paths, sizes_of
from components.common.file_table import bytes_of
from components.common.workspace import is_within
from components.example_gen.file_examples import ShardSummary
from components.example_gen.file_plan import FilePlan
from components.example_gen.file_shards import KnownShard
from components.example_gen.inputs import LocatedInputs
from components.example_gen.plan import lay_out_shards
from components.example_gen.settings import MediaSettings
from components.shuffle.external import SplitLayout
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
from trainer_utils.format.naming import INPUTS_FILE
from trainer_utils.format.planning import keyed_digests
from trainer_utils.storage import exists, join, read_text

_FORMAT_VERSION = 2
# Settings that may differ: what they change of an example, if anything, is in its input's sum.
_FREE = ("vocabulary", "update", "max_reject_fraction", "shuffled")

Sums = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class BaseDataset:
    """A dataset that an ExampleGen wrote of files."""

    dataset: Dataset
    shards: tuple[KnownShard, ...]  # those whose inputs are known
    fingerprint: str  # of the listing of all inputs; empty where it was not kept

    def check(self, config: Mapping[str, Any], uri: str) -> None:
        """Refuses a conversion with other settings, which are named, or to the same place."""
        if is_within(uri, self.dataset.uri):
            raise ConfigError.of("base_dataset", uri, allowed="another dataset than is written")
        for name, (old, new) in self.differing(config, free=_FREE).items():
            raise ConfigError(
                f"{name}: expected {old!r} as base_dataset was made with, got {new!r}. "
                "To change a setting, convert without base_dataset (--update).",
                setting=name,
                value=new,
            )

    def differing(
        self, config: Mapping[str, Any], *, free: Collection[str]
    ) -> dict[str, tuple[Any, Any]]:
        """The settings of base and conversion that differ, but for those that may."""
        assert self.dataset.manifest is not None
        old = dict(self.dataset.manifest.config)
        new = parse_json_object(render_json(config), path="")
        names = sorted({*old, *new}.difference(free))
        return {n: (old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n)}


def read_base(uri: str) -> BaseDataset:
    """Opens a dataset to be updated; a ConfigError of one that does not say of what it is made."""
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
        # A shard that was written again since, as by `tfx-shards forget`, is not what was known.
        if (entry := known.get((shard.path, shard.crc32c))) is not None:
            summary = ShardSummary.from_json(entry["summary"])
            for name in ("names", "states"):
                sums = np.frombuffer(base64.b64decode(entry[name]), "<u8")
                setattr(summary, name, sums.tolist())
            shards.append(KnownShard(dataset.uri, shard, summary, entry["listing"]))
    return BaseDataset(dataset, tuple(shards), value.get("fingerprint", ""))


def render_inputs(written: Iterable[tuple[Shard, ShardSummary, str]], *, fingerprint: str) -> str:
    """`inputs.json`: of each shard what its records were made of, in their order.

    `written` has the shards, each with its summary and the listing of its inputs; `fingerprint` is
    that of the listing of all.
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
    """What a listing of files says of the inputs that are the rows of a plan."""

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
        """Of some inputs, in order; empty where one is a file of which too little is known."""
        rows = self._rows.take(pa.array(places)).combine_chunks()
        if any(rows.column(n).null_count for n in rows.column_names if n.startswith("version:")):
            return ""
        digest = hashlib.blake2b(str(rows.schema).encode(), digest_size=16)
        for batch in rows.to_batches():
            digest.update(batch.serialize())
        return digest.hexdigest()

    def of_records(self, places: npt.NDArray[np.int64], names: Sequence[int]) -> str:
        """Of those of some inputs that became records, by the sums of their names."""
        if len(places) != len(names):
            places = places[np.isin(self.names[places], np.array(names, np.uint64))]
        return self.digest(places)


def plan_update(
    plan: FilePlan, base: BaseDataset, listing: Listing, settings: MediaSettings
) -> FilePlan:
    """The plan of a fresh conversion, in which inputs of the base stay in its shards and order.

    Of each split its shards come first, those of which no input is left excepted; all other inputs
    follow in shards of their own, in the order of their hashes.
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
    """How many examples were added, changed and removed, and how many are as they were."""
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
