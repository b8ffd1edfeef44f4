"""Datasets that are kept where Kubeflow's launcher does not copy them.

uri = place_dataset("/minio/bucket/…/examples", "minio://bucket/…/examples", "/mnt/datasets")
# the shards go to uri; write_reference(path, uri) leaves a small file in the artifact itself
find_dataset(path)     # where a dataset is: in the artifact's folder, or where that file says

The launcher copies each input whole to the pod's disk, used or not, and each output back. With a
volume that the pods share, or a bucket, nothing is copied.
"""

import json
import os
import posixpath

from components.kubeflow.executor_input import write_json
from trainer_utils.format import ConfigError
from trainer_utils.storage import is_object_store, is_remote

__all__ = [
    "REFERENCE_FILE",
    "check_dataset_root",
    "find_dataset",
    "place_dataset",
    "write_reference",
]

REFERENCE_FILE = "dataset_location.json"
_KEY = "dataset_uri"


def place_dataset(path: str, uri: str, root: str) -> str:
    """Where a step writes a dataset.

    Args:
        path: of the artifact in the pod.
        uri: of the artifact in Kubeflow's store; unlike any other run's.
        root: a folder on a shared volume or in a bucket; empty: the artifact itself.

    Raises:
        ConfigError: `root` is relative, or a url of no object store.
    """
    check_dataset_root(root)
    if not root:
        return path
    inside = uri.partition("://")[2] if is_remote(uri) else uri.lstrip("/")
    return posixpath.join(root, inside)


def check_dataset_root(root: str) -> None:
    """Refuses a folder that not every pod would find in the same place."""
    if root and not root.startswith("/") and not is_object_store(root):
        raise ConfigError.of(
            "dataset_root",
            root,
            allowed="an absolute path on a volume that all pods share, or a bucket of s3://, "
            "minio://, gs:// or az://",
        )


def write_reference(path: str, uri: str) -> None:
    """Says in the artifact's folder that its dataset is at `uri`."""
    write_json(os.path.join(path, REFERENCE_FILE), {_KEY: uri})


def find_dataset(path: str) -> str:
    """The uri of the dataset of an artifact that lies at `path`."""
    reference = os.path.join(path, REFERENCE_FILE)
    if not os.path.isfile(reference):
        return path
    with open(reference, encoding="utf-8") as stream:
        return str(json.load(stream)[_KEY])
