"""A dataset written anew without some of its records, beside the old one, which it then replaces.

    rewrite_dataset(uri, {"Split-train/data_tfrecord-00000-of-00008": {17}}, names, …)
    finish_swap(uri)            # of a run that was killed

Order, names of shards and settings stay; shards without a change are linked. All small files are
made of what remains. The new folder is whole, on the disk, before the old one goes: a run that is
killed leaves the old dataset, the new one, or neither at the uri and the new one beside it.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from pipelines.tools.forget.names import Names, forgotten_label
from pipelines.tools.forget.search import rejects_without
from trainer_utils.dataset import open_dataset, read_shard_blocks
from trainer_utils.dataset.files import read_origin
from trainer_utils.format import (
    Accounting,
    ConfigError,
    DatasetError,
    Manifest,
    Shard,
    ShardName,
    ShardWriter,
)
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.manifest import FORGOTTEN_KEY, FORMAT_VERSION
from trainer_utils.format.naming import (
    DATASET_FILES,
    LINEAGE_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    WORKING_FOLDER,
    vocabulary_of,
)
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.format.printable import printable_json
from trainer_utils.format.schema_text import render_schema_text
from trainer_utils.storage import (
    copy_file,
    exists,
    is_remote,
    join,
    make_folder,
    remove_tree,
    sync_folder,
    walk_files,
)
from trainer_utils.writing.publishing import (
    publish_manifest,
    texts_of_dataset,
    working_folder,
    write_texts,
)
from trainer_utils.writing.shards import files_of_shard, verify_shard, write_shard
from trainer_utils.writing.uploading import upload_dataset

__all__ = ["finish_swap", "rewrite_dataset"]

Places = Mapping[str, Collection[int]]
"""Numbers of records by the path of their shard."""


def rewrite_dataset(
    uri: str,
    places: Places,
    names: Names,
    *,
    labels: Mapping[str, Sequence[int]],
    label_counts: Mapping[str, Mapping[str, int]],
) -> None:
    """Takes records, and all that names them, out of a dataset of ours.

    Args:
        uri: of it.
        places: the records.
        names: that no small file is to have.
        labels: ids whose labels go, by feature.
        label_counts: of the records that stay, as the manifest has them.

    Raises:
        DatasetError: it is not whole, or damaged; it stays as it is.
    """
    dataset = open_dataset(uri, inspect=False)
    old, new = dataset.manifest, _beside(uri, "new")
    assert old is not None
    if not new:
        raise ConfigError.of("in", uri, allowed="datasets in folders", advice="Move it to one")
    remove_tree(new)
    make_folder(working_folder(new))
    changed = [shard for shard in old.shards if places.get(shard.path)]
    made = {path for shard in changed for path in files_of_shard(shard)} | {
        *DATASET_FILES,
        *(old.files or ()),
    }
    shards = tuple(
        _shard(shard, places[shard.path], uri, new) if shard in changed else shard
        for shard in old.shards
    )
    rejects, _, _ = rejects_without(dataset, names)
    records = sum(map(len, places.values()))
    manifest = dataclasses.replace(
        old,
        format_version=FORMAT_VERSION,
        shards=shards,
        accounting=_accounting(old, shards, rejects),
        config={
            **names.without(dict(old.config)),
            FORGOTTEN_KEY: {"digests": [*old.earlier_digests, old.digest], "records": records},
        },
        label_counts=label_counts,
        reject_counts=collections.Counter(entry["code"] for entry in rejects),
    )
    vocabularies = {
        feature: [
            forgotten_label(number) if number in labels.get(feature, ()) else value
            for number, value in enumerate(values)
        ]
        for feature, values in dataset.vocabularies.items()
    }
    lines = [json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in rejects]
    texts = texts_of_dataset(
        manifest,
        dataset.features,
        vocabularies=vocabularies,
        schema=render_schema_text(dataset.features, vocabularies=vocabularies),
        others={REJECTS_FILE: "".join(f"{printable_json(line)}\n" for line in lines)}
        if rejects
        else None,
    )
    carried = _carry(uri, new, made)
    files = write_texts(new, texts)
    write_texts(new, {LINEAGE_FILE: _origin(uri, old, names, records).to_json()})
    manifest = dataclasses.replace(manifest, files=files)
    publish_manifest(new, manifest, beside=[LINEAGE_FILE, *carried])
    finish_swap(uri)


def finish_swap(uri: str) -> None:
    """Puts the new dataset that is whole beside a uri in its place, and removes the old one.

    Raises:
        DatasetError: what is left of the old one cannot be removed.
    """
    new, old = _beside(uri, "new"), _beside(uri, "old")
    if not new:
        return
    if exists(join(new, MANIFEST_FILE)):
        if is_remote(uri):
            remove_tree(uri)
            upload_dataset(new, uri)
        else:
            if os.path.exists(uri):
                os.rename(uri, old)
            os.rename(new, uri)
            sync_folder(os.path.dirname(new))
    for folder in (new, old):
        remove_tree(folder)
        if exists(folder):
            raise DatasetError.at(folder, expected="to remove it", got="a folder that stays")


def _beside(uri: str, what: str) -> str:
    """The folder beside a dataset for its new files, or its old ones; a bucket has none."""
    folder, _, name = (uri if is_remote(uri) else os.path.abspath(uri)).rpartition("/")
    return "" if folder.endswith("/") else f"{folder}/.{name}.forget-{what}"


def _shard(shard: Shard, left_out: Collection[int], uri: str, new: str) -> Shard:
    """A shard without some records, under the same name in the new folder."""

    def fill(writer: ShardWriter) -> None:
        first = 0
        for block in read_shard_blocks(join(uri, shard.path)):
            numbers = np.arange(first, first + len(block))
            kept = np.flatnonzero(~np.isin(numbers, [*left_out]))
            frames = block.frames()
            framed = b"".join(frames[number] for number in kept.tolist())
            writer.write_framed(framed, block.lengths[kept], block.payload_crcs[kept])
            first += len(block)

    written = write_shard(ShardName.parse(shard.path), fill, uri=new)
    verify_shard(written, uri=new)
    if written.records + len(left_out) != shard.records:
        raise DatasetError(
            f"{join(uri, shard.path)!r}: expected {shard.records - len(left_out)} records to stay, "
            f"wrote {written.records}. See whether another program writes to it.",
            path=shard.path,
        )
    return written


def _accounting(
    old: Manifest, shards: Sequence[Shard], rejects: Sequence[JsonObject]
) -> dict[str, Accounting]:
    """By split: what was found once, and is neither written nor rejected now, is skipped."""
    accounting = {}
    for split, counts in old.accounting.items():
        written = sum(shard.records for shard in shards if shard.split == split)
        rejected = sum(entry.get("split") == split for entry in rejects)
        accounting[split] = Accounting(
            found=counts.found,
            written=written,
            rejected=rejected,
            skipped=counts.found - written - rejected,
        )
    return accounting


def _carry(uri: str, new: str, made: Collection[str]) -> list[str]:
    """Takes shards without a change, and somebody's own files, over to the new folder."""
    carried = []
    for file in walk_files(uri):
        path = file.path
        if path in made or vocabulary_of(path) or path.startswith(f"{WORKING_FOLDER}/"):
            continue
        if file.problem is not None:
            raise DatasetError.at(
                join(uri, path),
                expected="files in the folder of a dataset",
                got=file.problem[1],
                advice="Move it elsewhere, and run it again.",
            )
        make_folder(join(new, path).rpartition("/")[0])
        copy_file(join(uri, path), join(new, path), temporary_folder=working_folder(new))
        carried.append(path)
    return carried


def _origin(uri: str, old: Manifest, names: Names, records: int) -> Origin:
    """The lineage: this step, and before it the dataset as it was, by its digest."""
    before = read_origin(uri, old)
    itself = Ancestor(digest=old.digest, summary=DatasetSummary.of(old), made_by=before.made_by)
    ancestors = []
    for each in (*before.ancestors, itself):
        step = each.made_by
        if step is not None:
            step = dataclasses.replace(step, settings=names.without(dict(step.settings)))
        ancestors.append(dataclasses.replace(each, made_by=step))
    inputs = (DatasetInput(name="examples", digest=old.digest),)
    settings = {"records": records}
    output = before.made_by.output
    step = Step(component="Forget", settings=settings, inputs=inputs, output=output)
    return Origin(made_by=step, ancestors=tuple(ancestors))
