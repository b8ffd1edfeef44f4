"""Publish the result of a run: metadata files, and `manifest.json` last.

The same inputs and settings give the same files, in any run, with any runner, at any destination.
"""

import functools
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from components.inputs.rejects import Reject, render_rejects
from components.runtime.workspace import check_ownership, meets_another
from trainer_utils import storage
from trainer_utils.core.printable import printable
from trainer_utils.format import Feature, Manifest
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.lineage import Origin
from trainer_utils.format.naming import (
    INPUTS_FILE,
    LINEAGE_FILE,
    LISTING_FILE,
    REJECTS_FILE,
    check_inner_path,
)
from trainer_utils.writing.publishing import publish
from trainer_utils.writing.shards import verify_shard
from trainer_utils.writing.working_folder import working_folder


def write_artifact(uri: str, files: Mapping[str, bytes]) -> None:
    """Write the files of an artifact that is not a dataset, each atomically."""
    folder = working_folder(uri)
    storage.make_folder(folder)
    for path, content in files.items():
        target = storage.join(uri, check_inner_path(path))
        storage.make_folder(posixpath.dirname(target))
        with storage.write_atomically(target, temporary_folder=folder) as stream:
            stream.write(content)
    storage.remove_tree(folder)


def publish_dataset(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    rejects: Iterable[Reject] = (),
    origin: Origin | None = None,
    inputs: str = "",
    listing: InputListing | None = None,
) -> None:
    """Turn the shards at `uri` into a dataset, and log its accounting as the last line.

    All files are on the disk before the manifest is renamed, and so is the rename afterwards.

    Args:
        uri: the folder of the dataset.
        manifest: the manifest, without the metadata files.
        features: the features by name.
        vocabularies: values by feature; the index of a value is its id.
        rejects: inputs that were rejected.
        origin: the content of the lineage file. None: no such file.
        inputs: the content of `inputs.json`. Empty: no such file.
        listing: the identity of the dataset by its inputs. None: its records have another order.

    Raises:
        DatasetError: another run writes there by now; its files are not touched.
    """
    check_ownership(uri)
    if meets_another(uri):
        for shard in manifest.shards:
            verify_shard(shard, uri=uri)
    text = render_rejects(rejects)
    beside = {} if origin is None else {LINEAGE_FILE: origin.to_json()}
    if inputs:
        beside[INPUTS_FILE] = inputs
    if listing is not None:
        beside[LISTING_FILE] = listing.to_json(manifest.contents)
    publish(
        uri,
        manifest,
        features,
        vocabularies=vocabularies,
        others={REJECTS_FILE: text} if text else {},
        beside=beside,
        check=functools.partial(check_ownership, uri),
    )
    counts = [
        f"{n} {what}" for what, n in manifest.config.get("update", {}).items() if what != "base"
    ]
    changes = f"; {', '.join(counts)}" if counts else ""
    logging.info("%s: %s%s (%s)", manifest.producer, manifest.total, changes, printable(uri))


# Properties of artifacts, by name -----------------------------------------------------------------
