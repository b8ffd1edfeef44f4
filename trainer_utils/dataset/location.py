"""Find datasets by uri, artifact, path or pattern, and list their files.

uri_of("gs://bucket/examples/7/Split-train/*")   # 'gs://bucket/examples/7'
newest_dataset("out/")                     # 'out/artifacts/ShardBalancer/balanced_examples/4'
list_dataset("datasets/photos").layout()   # its shards by split, from its metadata
"""

import contextlib
import dataclasses
import fnmatch
import functools
import itertools
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeAlias, cast

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.json_text import text_of
from trainer_utils.format import Manifest, naming
from trainer_utils.format.layouts import (
    DatasetLayout,
    check_numbers,
    find_layout,
    layout_of_files,
    may_be_dataset,
)
from trainer_utils.format.lineage import Origin, Step
from trainer_utils.format.tfrecord import begins_with_frame, begins_with_gzip, begins_with_zlib
from trainer_utils.order.recipe import Recipe

_LISTED_AT_ONCE = 16
_HEAD_BYTES = 512  # of a file: enough to detect its compression
_NO_RECORDS = re.compile(r"^[._]|\.(json|jsonl|pbtxt|txt|md|csv|crc|index)$")
_MAX_NAMED = 6  # datasets in a message


class Artifact(Protocol):
    """An object with a uri, such as a TFX artifact."""

    @property
    def uri(self) -> str:
        """Uri of the artifact."""


_One: TypeAlias = str | os.PathLike[str] | Artifact
Artifacts: TypeAlias = _One | Sequence[_One]
Inputs: TypeAlias = Artifacts | Recipe
"""One dataset or several: by uri, by artifact, or by files: paths, patterns such as `data/train-*`,
or the patterns of TFX's `fn_args.train_files`.
"""

Place: TypeAlias = str | tuple[str, ...]
"""One dataset: its uri, or the paths and patterns of its files."""

LATEST = "latest"
"""The link of a conversion to its newest dataset, next to the artifacts of all its runs."""

BALANCED_FOLDER = "artifacts/ShardBalancer/balanced_examples"
"""The folder of the datasets of all runs of a conversion, in its output folder."""

# All files of a split, as in TFX; any other pattern selects the files that it matches.
_SPLIT_PATTERN = re.compile(
    rf"/{naming.SPLIT_PREFIX}(\w+)(/(\*|{naming.SHARD_PREFIX}(-?\*|-[*?]+-of-[*?]+))(\.gz)?)?$"
)
_DEPTH, _MAX_LISTED = 5, 500  # levels (pipeline, run, component, output, id) and folders
_MAX_SIMILAR = 10_000  # names to compare with a misspelt one
_MAX_BESIDE = 50  # files in a folder that may contain datasets: folders of raw files have more
_WILDCARDS = re.compile(r"[*?\[]")


def uri_of(artifact: _One) -> str:
    """Return the uri of an artifact, of a path, or of a pattern in TFX's `fn_args.train_files`."""
    return uri_and_split(artifact)[0]


def uri_and_split(artifact: _One) -> tuple[str, str | None]:
    """Return the uri of an artifact, and the split that a TFX pattern names, or None."""
    uri = getattr(artifact, "uri", None)
    if isinstance(artifact, (str, os.PathLike)):
        uri = os.fspath(artifact)
    if not isinstance(uri, str) or not uri:
        raise ConfigError.of("artifact_uri", artifact, allowed="a uri or an artifact")
    uri = storage.local_path(uri).rstrip("/")
    match = _SPLIT_PATTERN.search(uri)
    if match is None or is_pattern(folder := uri[: match.start()]):
        return uri or "/", None
    return folder or "/", match[1]


def is_pattern(path: str) -> bool:
    """Return whether a path has wildcards: `*`, `?` or `[…]`, each within one part of the path.

    A path that exists literally, such as a local folder `run[3]`, is not a pattern.
    """
    if _WILDCARDS.search(path) is None:
        return False
    local = storage.local_path(path)
    return storage.is_remote(local) or not os.path.lexists(local)


def group_artifacts(artifacts: Artifacts, *, apart: bool = False) -> list[tuple[Place, str | None]]:
    """Group artifacts into datasets, in order, each with the split that a TFX pattern names.

    Args:
        artifacts: one or several artifacts. Adjacent files in a list are one dataset.
        apart: whether each file is a separate dataset, as with `weights`.
    """
    named = artifacts if isinstance(artifacts, (list, tuple)) else [artifacts]
    places: list[tuple[Place, str | None]] = []
    for uri, split in map(uri_and_split, cast(Sequence[_One], named)):
        if apart or not (is_pattern(uri) or naming.is_named_as_records(uri)):
            places.append((uri, split))
        elif places and isinstance(places[-1][0], tuple):
            places[-1] = (*places[-1][0], uri), None
        else:
            places.append(((uri,), None))
    return places


def newest_dataset(uri: str | os.PathLike[str]) -> str:
    """Return the newest dataset of a conversion's `out` or `out/latest`; else the uri unchanged."""
    uri = storage.local_path(uri)
    uri = uri.rstrip("/") or uri
    if storage.is_remote(uri):
        return uri
    is_link = os.path.basename(uri) == LATEST and os.path.islink(uri)
    if not is_link and storage.exists(storage.join(uri, naming.MANIFEST_FILE)):
        return uri
    link = uri if is_link else os.path.join(uri, LATEST)
    if not os.path.islink(link):
        return uri
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))


def datasets_in(folders: Sequence[str]) -> list[str]:
    """Return the datasets at or below these folders, the newest first.

    In a large tree it visits only some of the folders.
    """
    datasets, level, listed = list[str](), [*folders], 0
    for _ in range(_DEPTH):
        level, above = [], level
        for folder in above[: _MAX_LISTED - listed]:
            listed += 1
            entries = storage.list_folder(folder)
            inner = [entry.name for entry in entries if entry.is_folder]
            splits = [name for name in inner if name.startswith(naming.SPLIT_PREFIX)]
            if (
                any(entry.name == naming.MANIFEST_FILE for entry in entries)
                or any(
                    naming.is_named_as_records(entry.name)  # statistics have splits too
                    for name in splits[:1]
                    for entry in storage.list_folder(storage.join(folder, name))
                )
            ):
                datasets.append(folder)
            elif not splits and len(entries) - len(inner) <= _MAX_BESIDE:
                level += [
                    storage.join(folder, name)
                    for name in inner
                    if name[0] != "." and name != LATEST
                ]
    return sorted(datasets, key=_age, reverse=True)


def _age(uri: str) -> tuple[int, float]:
    """Return a sort key: the number that TFX increments, then the last change of a local folder."""
    name = uri.rpartition("/")[2]
    changed = 0.0 if storage.is_remote(uri) else os.stat(uri).st_mtime
    return int(name) if name.isdecimal() else -1, changed


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """The files of a folder and of the folders in it, by path relative to its `uri`.

    Of files that were asked for one by one, `named` are their paths, in order, and `around` all
    files of the dataset that they are of.
    """

    uri: str
    entries: Mapping[str, storage.FolderEntry]
    named: Sequence[str] | None = None
    around: "DatasetFiles | None" = None

    @functools.cached_property
    def sizes(self) -> Mapping[str, int | None]:
        """In bytes, by path."""
        return {path: entry.size for path, entry in self.entries.items()}

    def path(self, name: str) -> str:
        """Return the full path of a file that the dataset names, which may be elsewhere."""
        return storage.join(self.uri, name)

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a small file."""
        return storage.read_bytes(self.path(name))

    def read_text(self, name: str) -> str:
        """Return the text of a small file; raise DatasetError if it is unreadable or not UTF-8."""
        path = self.path(name)
        try:
            return text_of(self.read_bytes(name), path=path)
        except OSError as error:
            if storage.is_host_error(error):
                raise
            raise DatasetError(f"{path!r}: cannot be read: {error}") from error

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        if (size := self.sizes.get(name)) is None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return storage.file_size(self.path(name))  # raises if there is no folder
        return size

    def version(self, name: str) -> str:
        """Return a string that changes with the file, without a request if the listing has it."""
        entry = self.entries.get(name)
        return (entry and entry.version) or storage.file_version(self.path(name))

    def without(self, name: str) -> "DatasetFiles":
        """Return the files without one of them."""
        return dataclasses.replace(
            self, entries={path: e for path, e in self.entries.items() if path != name}
        )

    def layout(self) -> DatasetLayout:
        """Return the shards and the metadata; raise DatasetError if some are missing."""
        if self.named is None:
            return find_layout(self.sizes, self.read_text, uri=self.uri)
        return layout_of_files(self.named, None if self.around is None else self.around.layout())


def list_dataset(place: Place | os.PathLike[str], *, with_index: bool = True) -> DatasetFiles:
    """List the files of a dataset.

    Args:
        place: the folder of a dataset, the root of pipelines with one dataset below it, or files by
            path or pattern.
        with_index: whether to list `index/` of a dataset with a manifest, which has as many files
            as there are shards.

    Raises:
        DatasetError: a named file is missing or has no records, or there are several datasets below
            the root.
    """
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str):
        return _list_named(place, with_index)
    uri = place.rstrip("/") or place
    if not storage.is_folder(uri):
        if not is_pattern(uri) and not naming.is_named_as_records(uri):
            _check_records(uri)
        return _list_named([uri], with_index)
    entries = _entries_below(uri, with_index)
    if may_be_dataset(entries):
        return DatasetFiles(uri, entries)
    folders = dict.fromkeys(path.partition("/")[0] for path in entries if path.endswith("/"))
    below = datasets_in([storage.join(uri, folder) for folder in folders])
    if len(below) > 1:
        raise _several_datasets_error(uri, below)
    return list_dataset(below[0], with_index=with_index) if below else DatasetFiles(uri, entries)


def _entries_below(uri: str, with_index: bool) -> dict[str, storage.FolderEntry]:
    """List a folder and its subfolders.

    Returns:
        By relative path: the files, and the folders of the second level, which end with `/`. Of the
        first level, only the working folder is listed as a folder.
    """
    top = _listed(uri)
    unlisted = {naming.WORKING_FOLDER}  # only its existence matters
    if naming.MANIFEST_FILE in top and not with_index:
        unlisted.add(naming.INDEX_FOLDER)
    folders = [name for name, entry in top.items() if entry.is_folder and name not in unlisted]
    entries = {
        f"{name}/" if entry.is_folder else name: entry
        for name, entry in top.items()
        if not entry.is_folder or name == naming.WORKING_FOLDER
    }
    with ThreadPoolExecutor(_LISTED_AT_ONCE if storage.is_remote(uri) else 1) as pool:
        groups = pool.map(_listed, [storage.join(uri, folder) for folder in folders])
        for folder, group in zip(folders, groups, strict=True):
            for name, entry in group.items():
                entries[f"{folder}/{name}{'/' * entry.is_folder}"] = entry
    return entries


def _several_datasets_error(uri: str, below: Sequence[str]) -> DatasetError:
    """Return the error of a folder with several datasets below it, the newest first."""
    more = f" and {len(below) - _MAX_NAMED} older" if len(below) > _MAX_NAMED else ""
    names = f"{', '.join(map(repr, below[:_MAX_NAMED]))}{more}"
    advice = f"Name one; the newest come first: {names}."
    got = f"a folder with {len(below)} below it"
    return DatasetError.at(uri, expected="a dataset", got=got, advice=advice)


def read_manifest(uri: str | os.PathLike[str]) -> Manifest | None:
    """Return the manifest of a dataset, or None without one. The shards are not checked."""
    path = storage.join(uri, naming.MANIFEST_FILE)
    return Manifest.from_json(storage.read_text(path), path=path) if storage.exists(path) else None


def read_origin(uri: str | os.PathLike[str], manifest: Manifest) -> Origin:
    """Return the lineage of a dataset from `lineage.json`, or else from its manifest."""
    path = storage.join(uri, naming.LINEAGE_FILE)
    if storage.exists(path):
        return Origin.from_json(storage.read_text(path), path=path)
    return Origin(made_by=Step(component=manifest.producer, settings=manifest.config))


def _listed(folder: str) -> dict[str, storage.FolderEntry]:
    """Return the entries of a folder by name; nothing if the folder does not exist."""
    try:
        return {entry.name: entry for entry in storage.list_folder(folder or ".")}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def similar_place(path: str) -> str:
    """Return a hint such as ` Did you mean 'data/photos'?` for a missing local path, or ""."""
    if storage.is_remote(path):
        return ""  # a listing may be large
    folder, name = os.path.split(os.path.normpath(path))
    while folder and not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder, name = os.path.split(folder)
    with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as here:
        names = [entry.name for entry in itertools.islice(here, _MAX_SIMILAR)]
        hint = did_you_mean(name, names)
        if hint and name not in names:
            similar_name = next(name for name in names if hint == f" Did you mean {name!r}?")
            return f" Did you mean {os.path.join(folder, similar_name)!r}?"
    return ""


def _check_records(path: str) -> None:
    """Raise DatasetError if a file is missing, or is neither TFRecords nor compressed."""
    expected = "the folder of a dataset or of raw files, or a file of TFRecords"
    try:
        storage.file_size(path)  # raises for any reason other than a missing file
        head = storage.read_range(path, start=0, stop=_HEAD_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        said = f"{path!r}: expected {expected}, found none.{similar_place(path)}"
        raise DatasetError(said.removesuffix("."), path=path) from None
    kinds = begins_with_gzip, begins_with_zlib, begins_with_frame
    if head and not any(is_of_kind(head) for is_of_kind in kinds):
        advice = "To make a dataset of raw files, run tfx-shards convert."
        got = "a file of another type"
        raise DatasetError.at(path, expected=expected, got=got, advice=advice)


def _list_named(patterns: Sequence[str], with_index: bool) -> DatasetFiles:
    """List some TFRecord files, with the metadata of their dataset if they are in one."""
    matches = find_named_files(patterns)
    folders = {path.rpartition("/")[0] for path, _ in matches}
    roots = {re.sub(rf"(^|/){naming.SPLIT_PREFIX}[^/]*$", "", folder) for folder in folders}
    root = _common_root(sorted(roots))
    base = root and f"{root.rstrip('/')}/"
    entries = {path.removeprefix(base): entry for path, entry in matches}
    around = None
    is_one = len(roots) == 1 and bool(root)
    if is_one and any(storage.exists(storage.join(root, name)) for name in naming.DESCRIPTIONS):
        around = list_dataset(root, with_index=with_index)
    named = [path.removeprefix(base) for path, _ in matches]
    return DatasetFiles(root, entries, named=named, around=around)


def _common_root(folders: Sequence[str]) -> str:
    """Return the folder that contains all of these; empty for urls and for mixed relative paths."""
    if len(folders) == 1:
        return folders[0]
    is_mixed = any(map(storage.is_remote, folders)) or len({f.startswith("/") for f in folders}) > 1
    return "" if is_mixed else posixpath.commonpath(folders)


def find_named_files(patterns: Sequence[str]) -> list[tuple[str, storage.FolderEntry]]:
    """Return the files that paths and patterns name, in order, listing each folder once.

    A path is the file of that name, even with wildcard characters. In a pattern, `*`, `?` and `[…]`
    match parts of one name. Hidden files and files such as `dataset_info.json` never match.

    Raises:
        DatasetError: nothing matches, or a numbered file is missing from a series.
    """
    listed = functools.cache(_listed)
    files: list[tuple[str, storage.FolderEntry]] = []
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        folder = folder or "/" * pattern.startswith("/")
        here = {} if is_pattern(folder) else listed(folder)
        if name in here and not here[name].is_folder:  # even if its name has wildcard characters
            files.append((pattern, here[name]))
            continue
        if not is_pattern(pattern):
            said = f"file {pattern!r}: expected a file of TFRecords, found none."
            raise DatasetError(f"{said}{did_you_mean(name, here)}", path=pattern)
        matches = sorted(_matches(pattern, listed))
        if not matches:
            said = "expected at least one file of TFRecords that matches, found none"
            advice = "Check the folder, and that the shell did not expand the pattern."
            raise DatasetError(f"files {pattern!r}: {said}. {advice}", path=pattern)
        is_wanted = re.compile(rf"(?:.*/)?{fnmatch.translate(name)}").match
        check_numbers([path for path, _ in matches], is_wanted=is_wanted)
        files += matches
    return files


def _matches(
    pattern: str, listed: Callable[[str], dict[str, storage.FolderEntry]]
) -> Iterator[tuple[str, storage.FolderEntry]]:
    """Yield the files that a pattern matches."""
    parts = pattern.split("/")
    first = next(n for n in range(len(parts)) if is_pattern("/".join(parts[: n + 1])))
    folders = ["/".join(parts[:first]) or ("/" if first else "")]
    for part in parts[first:]:
        is_match = re.compile(fnmatch.translate(part)).match
        inside = [
            (posixpath.join(folder, name), entry)
            for folder in folders
            for name, entry in listed(folder).items()
            if is_match(name) and not name.startswith(".")
        ]
        folders = [path for path, entry in inside if entry.is_folder]
    for path, entry in inside:
        if not entry.is_folder and not _NO_RECORDS.search(entry.name):
            yield path, entry
