"""Kubeflow's artifacts in a pod: folders, or small files that refer to a dataset elsewhere.

uri = place_dataset("/minio/bucket/…/examples", "minio://bucket/…/examples", "/mnt/datasets")
# the shards go to uri; write_reference(path, uri) leaves a small file in the artifact itself
find_dataset(path, uri)     # the dataset's folder: the artifact's own, or the one in that file

The launcher copies each input completely to the pod's disk, used or not, and each output back. With
a volume that the pods share, or a bucket, nothing is copied.
"""

import contextlib
import json
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.storage import is_object_store, is_remote, write_text

PAGE_OUTPUT = ("report", "tfx.File")
"""Name and TFX type of DatasetReport's output: a folder with a page; for Kubeflow only the page."""

_REFERENCE_FILE, _KEY = "dataset_location.json", "dataset_uri"
_MAX_CHARACTERS = 4096


def check_dataset_root(root: object) -> None:
    """Raise ConfigError for a folder that is not in the same place in every pod."""
    if root and not (isinstance(root, str) and (root.startswith("/") or is_object_store(root))):
        rule = "an absolute path on a volume that all pods share, or a bucket: s3://, gs://, az://"
        raise ConfigError.of("dataset_root", root, allowed=rule)


def place_dataset(path: str, uri: str, root: str) -> str:
    """Return the folder for a dataset: the artifact's path in the pod, or its uri below `root`."""
    check_dataset_root(root)
    inside = uri.partition("://")[2] if is_remote(uri) else uri.lstrip("/")
    return posixpath.join(root, inside) if root else path


def write_reference(path: str, uri: str) -> None:
    """Write a file into the artifact's folder that refers to the dataset at `uri`."""
    text = json.dumps({_KEY: uri})
    write_text(os.path.join(path, _REFERENCE_FILE), text, temporary_folder=path)


def find_dataset(path: str, uri: str) -> str:
    """Return the location of the dataset of an artifact that the launcher has fetched to `path`."""
    if not os.path.exists(path):
        raise DatasetError(
            f"expected the files of {uri}, found none. They were removed, but Kubeflow's cache "
            "still has the artifact. Run once with enable_caching=False.",
            path=uri,
        )
    reference = os.path.join(path, _REFERENCE_FILE)
    if not os.path.isfile(reference):
        return path
    with open(reference, encoding="utf-8") as stream:
        return str(json.load(stream)[_KEY])


def short_metadata(metadata: Mapping[str, Json]) -> JsonObject:
    """Return metadata without long strings such as vocabularies, which are also in the dataset.

    The next step gets the metadata of its inputs as one argument, which Linux limits to 128 KiB.
    """
    values = metadata.items()
    return {n: v for n, v in values if not isinstance(v, str) or len(v) <= _MAX_CHARACTERS}


@contextlib.contextmanager
def page_folder(path: str) -> Iterator[str]:
    """Yield a folder for an executor, then move the page that it writes there to `path`."""
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield folder
        (page,) = (name for name in os.listdir(folder) if name.endswith(".html"))
        os.replace(os.path.join(folder, page), path)
