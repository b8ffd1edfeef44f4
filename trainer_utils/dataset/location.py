"""Where the dataset lies that an artifact, a pattern or a conversion's output folder means.

uri_of("gs://bucket/examples/7/Split-train/*")   # 'gs://bucket/examples/7'
newest_dataset("out/")                     # 'out/artifacts/ShardBalancer/balanced_examples/4'
"""

import os
import re
from collections.abc import Sequence
from typing import Protocol, TypeAlias, cast

from trainer_utils.format import ConfigError
from trainer_utils.format.layouts import is_named_as_records
from trainer_utils.format.naming import MANIFEST_FILE, SHARD_PREFIX, SPLIT_PREFIX
from trainer_utils.order.recipe import Recipe
from trainer_utils.storage import exists, is_remote, join, list_folder


class Artifact(Protocol):
    """What has a uri, as artifacts of TFX do."""

    @property
    def uri(self) -> str:
        """Where it lies."""


_One: TypeAlias = str | os.PathLike[str] | Artifact
Artifacts: TypeAlias = _One | Sequence[_One]
Inputs: TypeAlias = Artifacts | Recipe
"""One dataset or several: by uri, by artifact, or by files: paths, patterns such as `data/train-*`,
those of TFX's `fn_args.train_files`."""

Place: TypeAlias = str | tuple[str, ...]
"""Of one dataset: its uri, or the paths and patterns of its files."""

LATEST = "latest"
"""A conversion's link to its newest dataset, beside the artifacts of all its runs."""

# All files of a split, as TFX has them; any other pattern means the files that it matches.
_SPLIT_PATTERN = re.compile(
    rf"/{SPLIT_PREFIX}(\w+)(/(\*|{SHARD_PREFIX}(-?\*|-[*?]+-of-[*?]+))(\.gz)?)?$"
)
_DEPTH, _MOST_LISTED = 5, 500  # folders: pipeline, run, component, output, id
_MOST_BESIDE = 50  # files in a folder that may have datasets below it: raw files have more
_WILDCARDS = re.compile(r"[*?\[]")


def uri_of(artifact: _One) -> str:
    """The uri of a TFX artifact, of a path, or of a pattern in TFX's `fn_args.train_files`."""
    return uri_and_split(artifact)[0]


def uri_and_split(artifact: _One) -> tuple[str, str | None]:
    """The same, and the split that such a pattern names; of a uri None."""
    is_path = isinstance(artifact, (str, os.PathLike))
    uri = os.fspath(artifact) if is_path else getattr(artifact, "uri", None)
    if not isinstance(uri, str) or not uri:
        raise ConfigError.of("artifact_uri", artifact, allowed="a uri or an artifact")
    uri = uri.rstrip("/")
    found = _SPLIT_PATTERN.search(uri)
    if found is None or is_pattern(folder := uri[: found.start()]):
        return uri or "/", None
    return folder or "/", found[1]


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards: `*`, `?` or `[…]`, each within one part of the path.

    What is there by that very name, such as a local folder `run[3]`, is meant itself.
    """
    if _WILDCARDS.search(path) is None:
        return False
    local = path.removeprefix("file://")
    return is_remote(local) or not os.path.lexists(local)


def group_artifacts(artifacts: Artifacts, *, apart: bool = False) -> list[tuple[Place, str | None]]:
    """The datasets that somebody named, in order, and the splits that patterns name: files that
    stand side by side are one dataset, unless all are `apart`, as `weights` have it."""
    named = artifacts if isinstance(artifacts, (list, tuple)) else [artifacts]
    places: list[tuple[Place, str | None]] = []
    for uri, split in map(uri_and_split, cast(Sequence[_One], named)):
        if apart or not (is_pattern(uri) or is_named_as_records(uri)):
            places.append((uri, split))
        elif places and isinstance(places[-1][0], tuple):
            places[-1] = (*places[-1][0], uri), None
        else:
            places.append(((uri,), None))
    return places


def newest_dataset(uri: str) -> str:
    """The dataset that a conversion's `out` or `out/latest` leads to; of any other uri itself."""
    uri = uri.rstrip("/") or uri
    if is_remote(uri):
        return uri
    link = uri
    if os.path.basename(uri) != LATEST or not os.path.islink(uri):
        if exists(join(uri, MANIFEST_FILE)):
            return uri
        link = os.path.join(uri, LATEST)
    if not os.path.islink(link):
        return uri
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))


def datasets_in(folders: Sequence[str]) -> list[str]:
    """The datasets that these folders are, or that lie below them, the newest first; of a large
    tree some folders are looked at."""
    found, level, listed = list[str](), [*folders], 0
    for _ in range(_DEPTH):
        level, above = [], level
        for folder in above[: _MOST_LISTED - listed]:
            listed += 1
            entries = list_folder(folder)
            inner = [entry.name for entry in entries if entry.is_folder]
            splits = [name for name in inner if name.startswith(SPLIT_PREFIX)]
            if (
                any(entry.name == MANIFEST_FILE for entry in entries)
                or any(
                    is_named_as_records(entry.name)  # statistics have splits too
                    for name in splits[:1]
                    for entry in list_folder(join(folder, name))
                )
            ):
                found.append(folder)
            elif not splits and len(entries) - len(inner) <= _MOST_BESIDE:
                level += [join(folder, name) for name in inner if name[0] != "." and name != LATEST]
    return sorted(found, key=_age, reverse=True)


def _age(uri: str) -> tuple[int, float]:
    """Sorts by what TFX counts up, else by when a local folder was changed."""
    name = uri.rpartition("/")[2]
    changed = 0.0 if is_remote(uri) else os.stat(uri).st_mtime
    return int(name) if name.isdecimal() else -1, changed
