"""Find the files that the rows of a list name.

    finder = FileFinder(inputs, folders=[""], uris=uris)
    name, blob = finder.find("images\\\\cat\\\\1.jpg")

A path is looked up unchanged, relative to the list and to the input base. If there is no such file,
backslashes are read as slashes, and a name without a folder is searched anywhere below the input
base. A path that differs from one file only in case, in Unicode normalisation or in escapes such as
`%20` is that file. Everything else needs the setting `find_files`, and `advice` returns the value
that helps.
"""

import collections
import functools
import posixpath
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence

from components.inputs.advice import how_to_set
from components.inputs.input_table import Blob
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.file_kinds import kind_of_name
from components.layouts.names import WORDS
from trainer_utils.core.errors import InputError
from trainer_utils.storage import display_path, is_remote, local_path

_WAYS = ("tail", "name", "stem")
_INDEX = "file index"  # key in the cache of the inputs
_MAX_ROOTS = 3  # maximum number of folders in a message
_DRIVE = re.compile(r"[A-Za-z]:(?=[/\\])")
MISSING = ("FILE_NOT_FOUND", "OUTSIDE_INPUT_BASE")


def as_parts(uri: str) -> list[str]:
    """Return the parts of a Windows or POSIX path or url, without drive or scheme."""
    uri = _DRIVE.sub("", local_path(uri)).replace("\\", "/")
    return [part for part in uri.split("/") if part not in ("", ".")]


def _spelling(path: str) -> str:
    """Return a path in lower case and in the composed form of Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _difference(path: str, found: str) -> str:
    """Return how the path in a list differs from the file that was found, for a message."""
    if _spelling(path) != _spelling(found):
        return "with their escapes decoded, such as %20"
    is_composed = unicodedata.normalize("NFC", path) == unicodedata.normalize("NFC", found)
    return "in another Unicode normalisation" if is_composed else "in another case"


class FileIndex:
    """The files of the inputs by name and by stem (the name without its suffix)."""

    def __init__(self, inputs: LayoutInputs) -> None:
        self._paths = inputs.files
        self.by_name: dict[str, list[str]] = collections.defaultdict(list)
        self.by_stem: dict[str, list[str]] = collections.defaultdict(list)
        for path in inputs.files:
            name = posixpath.basename(path)
            if name.startswith(".") or "__MACOSX/" in path:
                continue
            stem, ending = posixpath.splitext(name)
            if not ending or kind_of_name(name) is not None:
                self.by_name[name].append(path)
                self.by_stem[stem].append(path)

    @functools.cached_property
    def by_spelling(self) -> Mapping[str, list[str]]:
        """The files by path and by `*/name`, in lower case and one Unicode normalisation."""
        paths: dict[str, list[str]] = collections.defaultdict(list)
        for path in self._paths:
            spelling = _spelling(path)
            paths[spelling].append(path)
            paths[f"*/{posixpath.basename(spelling)}"].append(path)
        return paths

    def find(self, parts: Sequence[str], way: str) -> list[str]:
        """Return the paths that match the parts of a path.

        Args:
            parts: the parts of the path.
            way: a value of `find_files`: `tail` (all parts), `name` or `stem`.
        """
        if not parts:
            return []
        name = parts[-1]
        if way == "stem":
            stem = posixpath.splitext(name)[0] if kind_of_name(name) else name
            return self.by_stem.get(stem, [])
        matches = self.by_name.get(name, [])
        if way == "tail":
            tail = "/" + "/".join(parts)
            matches = [path for path in matches if f"/{path}".endswith(tail)]
        return matches


class FileFinder:
    """A search for the files that a list names.

    Args:
        inputs: the inputs with the list.
        folders: folders that paths may be relative to, the likeliest first, and the folder of the
            list last. They are relative to the input base.
        own_folder: folder of the list's files, if the paths in the list do not include it.
        uris: all paths in the list. Names are searched in other folders only if no path is found
            directly. `tail` removes the folders that all paths have in common.
    """

    def __init__(
        self,
        inputs: LayoutInputs,
        *,
        folders: Sequence[str],
        own_folder: str | None = None,
        uris: Sequence[str] = (),
    ) -> None:
        self._inputs, self._folders, self._own_folder = inputs, folders, own_folder
        self._uris = uris
        self.found_by: collections.Counter[str] = collections.Counter()

    @functools.cached_property
    def _index(self) -> FileIndex:
        if _INDEX not in self._inputs.cache:
            self._inputs.cache[_INDEX] = FileIndex(self._inputs)
        index: FileIndex = self._inputs.cache[_INDEX]
        return index

    @functools.cached_property
    def _common(self) -> int:
        """Number of leading folders that all paths share."""
        folders = [as_parts(uri)[:-1] for uri in self._uris]
        return len(posixpath.commonprefix(folders)) if folders else 0

    @functools.cached_property
    def _is_lost(self) -> bool:
        """Whether no path is found directly, so that paths are relative to some other folder."""
        return not any(map(self._is_direct, self._uris))

    @functools.cached_property
    def _stems(self) -> dict[str, list[str]]:
        """Files below the list's own folder, by their paths without suffix."""
        stems: dict[str, list[str]] = collections.defaultdict(list)
        if self._own_folder is not None:
            for path in self._inputs.files.below(self._own_folder):
                stems[posixpath.splitext(path)[0]].append(path)
        return stems

    def find(self, uri: str) -> tuple[str, Blob]:
        """Return the name and the file for a path in the list.

        Args:
            uri: the path.

        Raises:
            RejectedInputError: there is no such file, or it may not be read.
            InputError: several files match.
        """
        if matches := self._in_own_folder(uri):
            return self._take(uri, matches)
        way = self._inputs.find_files
        if way != "path" and (matches := self._search(uri, way)):
            return self._take(uri, matches)
        try:
            return self._resolve(uri)
        except RejectedInputError as error:
            if error.code not in MISSING or way != "path":
                raise
            if "\\" in uri and (resolved := self._with_slashes(uri)) is not None:
                self.found_by["with / in place of \\"] += 1
                return resolved
            if error.code == "FILE_NOT_FOUND" and uri and "/" not in uri and self._is_lost:
                for words, way in (("by name", "name"), ("without their endings", "stem")):
                    if way == "stem" and kind_of_name(uri) is not None:
                        continue  # 1.png and 1.jpg are different files
                    if matches := self._index.find([uri], way):
                        resolved = self._take(uri, matches)
                        self.found_by[words] += 1
                        return resolved
            if uri and (path := self._spelt_differently(uri)) is not None:
                return self._inputs.resolve(path, folder="")
            raise

    def _spelt_differently(self, uri: str) -> str | None:
        """Return the only file whose path differs in case, normalisation or `%20`, and count it.

        Raises:
            RejectedInputError: there are several such files.
        """
        if "://" in uri or posixpath.isabs(uri):
            return None
        uri = uri.replace("\\", "/")
        folders = (*self._folders, *filter(None, (self._own_folder,)), "")
        candidates = [posixpath.normpath(posixpath.join(f, uri)) for f in dict.fromkeys(folders)]
        if "/" not in uri and self._is_lost:
            candidates.append(f"*/{uri}")  # a name in any folder
        for path in candidates:
            spellings = self._index.by_spelling
            matches = spellings.get(_spelling(path)) or spellings.get(
                _spelling(urllib.parse.unquote(path)), []
            )
            if len(matches) > 1:
                shown = " and ".join(repr(display_path(match)) for match in sorted(matches)[:2])
                detail = f"there is no such file, and {shown} are spelt differently"
                raise RejectedInputError("FILE_NOT_FOUND", detail)
            if matches:
                name = posixpath.basename(matches[0]) if path[:2] == "*/" else matches[0]
                self.found_by[_difference(path.removeprefix("*/"), name)] += 1
                return matches[0]
        return None

    def _in_own_folder(self, uri: str) -> list[str]:
        """Return the files for a path in the list's own folder, with or without its suffix."""
        if self._own_folder is None:
            return []
        path = posixpath.normpath(posixpath.join(self._own_folder, uri))
        return [path] if path in self._inputs.files else self._stems.get(path, [])

    def _is_direct(self, uri: str) -> bool:
        if self._in_own_folder(uri):
            return True
        try:
            self._resolve(uri)
        except RejectedInputError as error:
            return error.code not in MISSING
        return True

    def _resolve(self, uri: str) -> tuple[str, Blob]:
        for folder in self._folders[:-1]:
            if posixpath.normpath(posixpath.join(folder, uri)) in self._inputs.files:
                return self._inputs.resolve(uri, folder=folder)
        return self._inputs.resolve(uri, folder=self._folders[-1])

    def _with_slashes(self, uri: str) -> tuple[str, Blob] | None:
        try:
            return self._resolve(uri.replace("\\", "/"))
        except RejectedInputError:
            return None

    def named(self, stem: str) -> list[str]:
        """Return the files in any folder with this name, or else with this stem."""
        return self._index.find([stem], "name") or self._index.find([stem], "stem")

    def _search(self, uri: str, way: str) -> list[str]:
        parts = as_parts(uri)
        return self._index.find(parts[self._common :] if way == "tail" else parts, way)

    def _take(self, uri: str, matches: Sequence[str]) -> tuple[str, Blob]:
        if len(matches) > 1:
            word = WORDS.get(self._inputs.media, "image")
            shown = ", ".join(matches[:3])
            cure = f"leave the others out: {how_to_set(ignore=list(matches[1:4]))}"
            if self._inputs.media == "image":
                folder = posixpath.dirname(matches[0]) or "."
                cure = f"name the folder of its files: {how_to_set(image_dir=folder)}"
            raise InputError(
                f"{uri!r}: expected one {word} with this name, got {len(matches)}: {shown}. Write "
                f"the paths into the list, or {cure}.",
                path=matches[0],
            )
        return self._inputs.resolve(matches[0], folder="")

    def advice(self, missing: Sequence[str]) -> str:
        """Return the settings that would find missing files, or an empty string.

        Args:
            missing: the paths that were not found.
        """
        best, most = "", 0
        for way in _WAYS:
            count = sum(len(self._search(uri, way)) == 1 for uri in missing)
            if count > most:
                best, most = way, count
        if best:
            return (
                f"{most} of these {len(missing)} would be found with {how_to_set(find_files=best)}"
            )
        roots = outside_roots(missing)
        if roots:
            return (
                f"a list may only name files below its own folder or input_base; allow others with "
                f"{how_to_set(file_roots=roots)}"
            )
        return ""


def outside_roots(uris: Iterable[str]) -> list[str]:
    """Return the common folders of absolute paths and urls, at most three."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for uri in uris:
        uri = local_path(uri)
        if not (uri.startswith("/") or is_remote(uri)):
            continue
        parts = posixpath.dirname(uri).split("/")
        groups.setdefault(tuple(parts[: 3 if "://" in uri else 2]), []).append(parts)
    roots = ["/".join(posixpath.commonprefix(folders)) for folders in groups.values()]
    return sorted(root for root in roots if root)[:_MAX_ROOTS]
