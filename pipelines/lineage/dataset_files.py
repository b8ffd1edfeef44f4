"""What datasets say of themselves: `manifest.json` and `lineage.json`, one or all below a folder.

found = read_dataset("runs/artifacts/ShardBalancer/balanced_examples/4")
found.summary.accounting["train"], found.origin.made_by.settings
list(dataset_folders("runs/"))
"""

import dataclasses
import os
from collections.abc import Iterator

from trainer_utils.dataset.files import read_manifest, read_origin
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX, WORKING_FOLDER
from trainer_utils.format.origin import DatasetSummary, Origin
from trainer_utils.storage import is_remote, join, list_files

__all__ = ["FoundDataset", "dataset_folders", "read_dataset"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundDataset:
    """A dataset that is there.

    Args:
        uri: where it is.
        digest: of its manifest.
        summary: of it.
        origin: what `lineage.json` says, or as much of it as the manifest does.
    """

    uri: str
    digest: str
    summary: DatasetSummary
    origin: Origin


def read_dataset(uri: str) -> FoundDataset | None:
    """What a dataset says of itself; None where there is none with a manifest.

    Raises:
        DatasetError: one of the two files is damaged.
        OSError: one cannot be read.
    """
    manifest = read_manifest(uri)
    if manifest is None:
        return None
    return FoundDataset(
        uri=uri,
        digest=manifest.digest,
        summary=DatasetSummary.of(manifest),
        origin=read_origin(uri, manifest),
    )


def dataset_folders(root: str) -> Iterator[str]:
    """The folders below a root, itself included, that have a manifest; no link is followed."""
    if is_remote(root):
        for file in list_files(root):
            folder, _, name = file.path.rpartition("/")
            if name == MANIFEST_FILE:
                yield join(root, folder) if folder else root
        return
    for folder, inner, names in os.walk(root):
        if MANIFEST_FILE in names:
            yield folder
            inner.clear()
        inner[:] = sorted(n for n in inner if not n.startswith((SPLIT_PREFIX, WORKING_FOLDER)))
