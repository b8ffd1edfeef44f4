"""Where stores of ML Metadata are: sqlite files in a folder and above it.

stores_in("runs/")                 # ['runs/metadata.sqlite']
list(stores_above("runs/artifacts/ShardBalancer/balanced_examples/4"))

TFX calls the files `metadata.sqlite` in notebooks and `metadata.db` in its templates, which keep
one a pipeline: `tfx_metadata/<pipeline>/metadata.db` or `metadata/<pipeline>/metadata.db`.
"""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.storage import is_remote

__all__ = ["METADATA_FORMS", "stores_above", "stores_in"]

METADATA_FORMS = "a sqlite file or grpc://host:port"
_OWN = (METADATA_FILE, "metadata.db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")


def stores_above(uri: str) -> Iterator[str]:
    """The stores in the folder of a uri and in those above it, the nearest first."""
    if not is_remote(uri):
        folder = Path(os.path.abspath(uri))
        for each in (folder, *folder.parents):
            yield from stores_in(str(each))


def stores_in(folder: str) -> list[str]:
    """The stores of a folder: the likeliest first, those in TFX's folders for them last."""
    patterns = [os.path.join(glob.escape(folder), inner, own) for inner in _FOLDERS for own in _OWN]
    return [path for pattern in patterns for path in sorted(glob.glob(pattern))]
