"""Where the dataset lies that an artifact, a pattern or a conversion's output folder means.

uri_of("gs://bucket/examples/7/Split-train/*")   # 'gs://bucket/examples/7'
newest_dataset("out/")                     # 'out/artifacts/ShardBalancer/balanced_examples/4'
"""

import os
import re
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from trainer_utils.format import DatasetError
from trainer_utils.format.naming import MANIFEST_FILE, SHARD_PREFIX, SPLIT_PREFIX
from trainer_utils.storage import is_remote

__all__ = ["LATEST", "Artifact", "Artifacts", "newest_dataset", "split_of", "uri_of"]


class Artifact(Protocol):
    """What has a uri, as artifacts of TFX do."""

    @property
    def uri(self) -> str:
        """Where it lies."""


Artifacts: TypeAlias = str | Artifact | Sequence[str | Artifact]
"""One dataset or several, by uri, by artifact, or by a pattern of TFX's `fn_args.train_files`."""

LATEST = "latest"
"""A conversion's link to its newest dataset, beside the artifacts of all its runs."""

_SPLIT_PATTERN = re.compile(rf"/{SPLIT_PREFIX}(\w+)(/([^/]*\*[^/]*|{SHARD_PREFIX}[^/]*))?$")


def uri_of(artifact: str | Artifact) -> str:
    """The uri of a TFX artifact, of a str, or of a pattern in TFX's `fn_args.train_files`.

    Raises:
        DatasetError: it is none of these.
    """
    uri = artifact if isinstance(artifact, str) else getattr(artifact, "uri", None)
    if not isinstance(uri, str) or not uri:
        raise DatasetError(f"artifact_uri: expected a uri or an artifact, got {artifact!r}")
    return _SPLIT_PATTERN.sub("", uri.rstrip("/"))


def split_of(artifact: str | Artifact) -> str | None:
    """The split that a pattern in TFX's `fn_args.train_files` names; of a uri None."""
    found = _SPLIT_PATTERN.search(artifact.rstrip("/")) if isinstance(artifact, str) else None
    return found[1] if found else None


def newest_dataset(uri: str) -> str:
    """The dataset that a conversion's output folder leads to; of any other uri itself.

    Args:
        uri: of a dataset, of `out` or of `out/latest`; local or not.
    """
    uri = uri.rstrip("/") or uri
    if is_remote(uri):
        return uri
    link = uri
    if os.path.basename(uri) != LATEST or not os.path.islink(uri):
        if os.path.exists(os.path.join(uri, MANIFEST_FILE)):
            return uri
        link = os.path.join(uri, LATEST)
    if not os.path.islink(link):
        return uri
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
