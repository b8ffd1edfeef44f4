"""Turn a folder of shards into a dataset: write its small files, and the manifest last.

The files are synced to the disk before the manifest is written.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from trainer_utils import storage
from trainer_utils.format import (
    Feature,
    Manifest,
    naming,
)
from trainer_utils.format.croissant import render_croissant
from trainer_utils.format.datum import render_features, render_schema_text, render_shard_info
from trainer_utils.format.manifest import FileDigest
from trainer_utils.writing.working_folder import remove_working_folder, working_folder


def describing_texts(
    features: Mapping[str, Feature],
    records_by_shard: Mapping[str, Mapping[str, int]],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    schema: str | None = None,
) -> dict[str, str]:
    """Return vocabularies, Datum's two JSON files and `schema.pbtxt`, by relative path.

    Args:
        features: the features by name.
        records_by_shard: for each split, the number of records by relative path.
        vocabularies: the values of features in the order of their ids.
        schema: the content of `schema.pbtxt`. None: derived from the features.
    """
    texts = {
        naming.vocabulary_file(feature): "".join(f"{value}\n" for value in values)
        for feature, values in vocabularies.items()
    }
    rendered = render_schema_text(features, vocabularies=vocabularies)
    texts[naming.SCHEMA_FILE] = rendered if schema is None else schema
    texts[naming.DATUM_TYPES_FILE] = render_features(features)
    texts[naming.DATUM_SHARDS_FILE] = render_shard_info(records_by_shard)
    return texts


def publish(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    others: Mapping[str, str] | None = None,
    beside: Mapping[str, str] | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the small files of a dataset with shards at `uri`, and finally the manifest.

    Args:
        uri: the uri of the dataset.
        manifest: the manifest, except for `files`.
        features: the features by name.
        vocabularies: the values of features in the order of their ids.
        others: further text files by path, such as the list of rejects. The manifest lists them,
            but not the files in the next mapping.
        check: raises if another writer is at work. It is called before the manifest is written, and
            again before the working folder is removed, since that may belong to the other writer.
    """
    records_by_shard = {
        split: {shard.path: shard.records for shard in manifest.shards_of(split)}
        for split in manifest.splits
    }
    texts = describing_texts(features, records_by_shard, vocabularies=vocabularies)
    texts |= others or {}
    texts[naming.CROISSANT_FILE] = render_croissant(
        features,
        {split: sum(records.values()) for split, records in records_by_shard.items()},
        vocabularies=vocabularies,
        files=texts,
        producer=manifest.producer,
        fingerprint=manifest.input_fingerprint,
    )
    written, working = texts | dict(beside or {}), working_folder(uri)
    storage.make_folder(working)
    for path, text in written.items():
        target = storage.join(uri, naming.check_inner_path(path))
        storage.write_text(target, text, temporary_folder=working)
    files = {path: FileDigest.of(text.encode()) for path, text in texts.items()}
    shards = [shard.path for shard in manifest.shards]
    manifest = dataclasses.replace(manifest, files=files)
    storage.sync_files(uri, {*shards, *manifest.published, *written})
    check()
    path = storage.join(uri, naming.MANIFEST_FILE)
    storage.write_text(path, manifest.to_json(), temporary_folder=working, is_durable=True)
    storage.sync_folder(uri)
    check()
    # Last of all: a folder without a manifest counts as unfinished by its working folder.
    remove_working_folder(uri)
