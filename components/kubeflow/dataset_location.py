"""Datasets that are kept where Kubeflow's launcher does not copy them.

uri = place_dataset("/minio/bucket/…/examples", "minio://bucket/…/examples", "/mnt/datasets")
# the shards go to uri; write_reference(path, uri) leaves a small file in the artifact itself
find_dataset(path)     # where a dataset is: in the artifact's folder, or where that file says
find_datasets(path)    # the same of an artifact that stands for several

The launcher copies each input whole to the pod's disk, used or not, and each output back. With a
volume that the pods share, or a bucket, nothing is copied.
"""

import json
import os
import posixpath
from collections.abc import Sequence

from components.kubeflow.pod_folders import write_json
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.storage import is_object_store, is_remote

__all__ = [
    "REFERENCE_FILE",
    "ROOT_VARIABLE",
    "check_dataset_root",
    "check_fetched",
    "find_dataset",
    "find_datasets",
    "place_dataset",
    "write_reference",
]

REFERENCE_FILE = "dataset_location.json"
ROOT_VARIABLE = "TFX_SHARDS_DATASET_ROOT"
"""Has the root for the steps of a TFX pipeline; native components have a parameter."""

_KEY, _SEVERAL = "dataset_uri", "dataset_uris"


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


def check_dataset_root(root: str, setting: str = "dataset_root") -> None:
    """Refuses a folder that not every pod would find in the same place."""
    if root and not root.startswith("/") and not is_object_store(root):
        raise ConfigError.of(
            setting,
            root,
            allowed="an absolute path on a volume that all pods share, or a bucket of s3://, "
            "minio://, gs:// or az://",
        )


def write_reference(path: str, uri: str | Sequence[str]) -> None:
    """Says in the artifact's folder that its dataset, or its several, are at `uri`."""
    write_json(
        os.path.join(path, REFERENCE_FILE),
        {_KEY: uri} if isinstance(uri, str) else {_SEVERAL: [*uri]},
    )


def check_fetched(name: str, path: str, uri: str) -> None:
    """Refuses an artifact of which the launcher has fetched nothing, since its files are gone.

    Args:
        path: where it should lie in the pod.

    Raises:
        DatasetError: there is nothing at `path`.
    """
    if not os.path.exists(path):
        raise DatasetError(
            f"{name}: expected the files of {uri}, found none. They were removed while Kubeflow's "
            "cache still has the artifact: run once with enable_caching=False.",
            path=uri,
        )


def find_dataset(path: str) -> str:
    """The uri of the dataset of an artifact that lies at `path`.

    Raises:
        DatasetError: they are several.
    """
    uris = find_datasets(path)
    if len(uris) != 1:
        raise DatasetError(
            f"{path!r}: expected one dataset, got {len(uris)}. Make them one by shard_balancer.",
            path=path,
        )
    return uris[0]


def find_datasets(path: str) -> list[str]:
    """The uris of the datasets of an artifact that lies at `path`: mostly of one."""
    reference = os.path.join(path, REFERENCE_FILE)
    if not os.path.isfile(reference):
        return [path]
    with open(reference, encoding="utf-8") as stream:
        document = json.load(stream)
    return [str(document[_KEY])] if _KEY in document else [*document[_SEVERAL]]
