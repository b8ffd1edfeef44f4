"""What Kubeflow's artifacts are in a pod: folders, or a word about where a dataset is instead.

uri = place_dataset("/minio/bucket/…/examples", "minio://bucket/…/examples", "/mnt/datasets")
# the shards go to uri; write_reference(path, uri) leaves a small file in the artifact itself
find_dataset(path, uri)     # where a dataset is: in the artifact's folder, or where that file says

The launcher copies each input whole to the pod's disk, used or not, and each output back. With a
volume that the pods share, or a bucket, nothing is copied.
"""

import contextlib
import json
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.storage import is_object_store, is_remote, write_text

PAGE_OUTPUT = ("report", "tfx.File")
"""Name and TFX type of the output of DatasetReport: a folder with a page, for Kubeflow a page."""

_REFERENCE_FILE, _KEY = "dataset_location.json", "dataset_uri"
_MOST_CHARACTERS = 4096


def check_dataset_root(root: str) -> None:
    """Refuses a folder that not every pod would find in the same place."""
    if root and not root.startswith("/") and not is_object_store(root):
        rule = "an absolute path on a volume that all pods share, or a bucket: s3://, gs://, az://"
        raise ConfigError.of("dataset_root", root, allowed=rule)


def place_dataset(path: str, uri: str, root: str) -> str:
    """Where a step writes a dataset: the artifact's path in the pod, or below `root` by its uri."""
    check_dataset_root(root)
    inside = uri.partition("://")[2] if is_remote(uri) else uri.lstrip("/")
    return posixpath.join(root, inside) if root else path


def write_reference(path: str, uri: str) -> None:
    """Says in the artifact's folder that its dataset is at `uri`."""
    text = json.dumps({_KEY: uri})
    write_text(os.path.join(path, _REFERENCE_FILE), text, temporary_folder=path)


def find_dataset(path: str, uri: str) -> str:
    """Where the dataset of an artifact is that the launcher has fetched to `path`."""
    if not os.path.exists(path):
        raise DatasetError(
            f"expected the files of {uri}, found none. They were removed while Kubeflow's cache "
            "still has the artifact: run once with enable_caching=False.",
            path=uri,
        )
    reference = os.path.join(path, _REFERENCE_FILE)
    if not os.path.isfile(reference):
        return path
    with open(reference, encoding="utf-8") as stream:
        return str(json.load(stream)[_KEY])


def short_metadata(metadata: Mapping[str, Json]) -> JsonObject:
    """Metadata without long texts, such as vocabularies, which are in the dataset's files too.

    The next step gets the metadata of its inputs as one argument, for which Linux has 128 KiB.
    """
    values = metadata.items()
    return {n: v for n, v in values if not isinstance(v, str) or len(v) <= _MOST_CHARACTERS}


@contextlib.contextmanager
def page_folder(path: str) -> Iterator[str]:
    """A folder for an executor; the page that it leaves there becomes the file at `path`."""
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield folder
        (page,) = (name for name in os.listdir(folder) if name.endswith(".html"))
        os.replace(os.path.join(folder, page), path)
