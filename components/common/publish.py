"""The last step of a run: the dataset's small files, `manifest.json` last of all.

publish_dataset(uri, manifest, features, vocabularies={"label": labels}, rejects=rejects)
"""

import dataclasses
import functools
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from components.common.rejects import Reject, render_rejects
from components.common.workspace import check_own, meets_another
from components.schema.tfmd import render_schema, schema_from_features
from trainer_utils.format import Feature, Manifest
from trainer_utils.format.naming import INPUTS_FILE, LINEAGE_FILE, REJECTS_FILE, check_inner_path
from trainer_utils.format.origin import Origin
from trainer_utils.format.printable import printable
from trainer_utils.storage import join, make_folder, remove_tree, write_atomically
from trainer_utils.writing.publishing import (
    publish_manifest,
    texts_of_dataset,
    working_folder,
    write_texts,
)
from trainer_utils.writing.shards import verify_shard


def write_artifact(uri: str, files: Mapping[str, bytes]) -> None:
    """Writes the files of an artifact that is no dataset of ours, each whole or not at all.

    Args:
        files: contents by path relative to it.

    Raises:
        DatasetError: a path leads out of it.
    """
    folder = working_folder(uri)
    make_folder(folder)
    for path, content in files.items():
        target = join(uri, check_inner_path(path))
        make_folder(posixpath.dirname(target))
        with write_atomically(target, temporary_folder=folder) as stream:
            stream.write(content)
    remove_tree(folder)


def publish_dataset(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    rejects: Iterable[Reject] = (),
    origin: Origin | None = None,
    inputs: str = "",
) -> None:
    """Makes a dataset of the shards at `uri`, and logs its accounting as the last line.

    All of it is on the disk before the manifest gets its name, and then that name is.

    Args:
        manifest: of it, but for the small files.
        vocabularies: values by feature; a value's place is its id.
        rejects: inputs that were left out for what they are.
        inputs: what `inputs.json` says; empty: there is none.

    Raises:
        DatasetError: another run writes there by now; nothing of its own is touched.
    """
    check_own(uri)
    if meets_another(uri):
        for shard in manifest.shards:
            verify_shard(shard, uri=uri)
    text = render_rejects(rejects)
    texts = texts_of_dataset(
        manifest,
        features,
        vocabularies=vocabularies,
        schema=render_schema(schema_from_features(features, vocabularies=vocabularies)),
        others={REJECTS_FILE: text} if text else {},
    )
    beside = {} if origin is None else {LINEAGE_FILE: origin.to_json()}
    if inputs:
        beside[INPUTS_FILE] = inputs
    written = write_texts(uri, texts | beside)
    files = {path: digest for path, digest in written.items() if path not in beside}
    manifest = dataclasses.replace(manifest, files=files)
    publish_manifest(uri, manifest, beside=beside, check=functools.partial(check_own, uri))
    counts = [
        f"{n} {what}" for what, n in manifest.config.get("update", {}).items() if what != "base"
    ]
    changes = f"; {', '.join(counts)}" if counts else ""
    logging.info("%s: %s%s (%s)", manifest.producer, manifest.total, changes, printable(uri))
