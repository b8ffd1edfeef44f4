"""The inputs of a layout: files below the input base as a table, and how lists refer to them."""

import bisect
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.arrow_columns import (
    bool_array,
    bounds_and_bytes,
    bytes_of,
    empty_table,
    int_array,
    one_array,
    path_array,
    string_array,
    string_scalar,
    to_numpy,
)
from components.inputs.input_table import Blob, ExcludedInput
from components.inputs.path_columns import extensions_of, folders_of
from components.inputs.rejects import RejectedInputError
from trainer_utils import storage
from trainer_utils.core.errors import InputError
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage.paths import decode_path, encode_path

_CHUNK = 1 << 15  # files that are Python objects at the same time
_PATH = pa.large_binary()
_SCHEMA = pa.schema(
    [
        ("path", _PATH),
        ("size", pa.int64()),
        ("version", pa.string()),
        ("code", pa.string()),
        ("detail", pa.large_binary()),
        ("is_folder", pa.bool_()),
    ]
)
_REMOTE_THREADS = 16
_MIN_BISECTIONS, _FILES_PER_BISECTION = 64, 16  # before a dictionary of all paths is built
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_KNOWN_SCHEMES = ("file", "gs", "hdfs", "s3")


class FileTable(Mapping[str, storage.InputFile]):
    """Files by path, in the order of their paths' bytes.

    Args:
        table: one row per file. If a file cannot be read, `code` and `detail` give the reason.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._questions = 0

    @classmethod
    def of(cls, files: Iterable[storage.InputFile]) -> "FileTable":
        """Create a table of files in any order, consumed in chunks to save memory."""
        source = iter(files)
        parts = iter(lambda: _table_of(list(itertools.islice(source, _CHUNK))), None)
        return cls._sorted(part for part in parts if part is not None)

    @classmethod
    def of_groups(cls, groups: Iterable[storage.FileGroup]) -> "FileTable":
        """Create a table of groups of files, with a few operations per chunk of plain files."""

        def parts() -> Iterator[pa.Table]:
            waiting: list[storage.FileGroup] = []
            count = 0
            for group in groups:
                if (others := _table_of(group.others)) is not None:
                    yield others
                waiting.append(group)
                count += len(group.names)
                if count >= _CHUNK:
                    yield _table_of_plain(waiting)
                    waiting, count = [], 0
            yield _table_of_plain(waiting)

        return cls._sorted(parts())

    @classmethod
    def _sorted(cls, parts: Iterable[pa.Table]) -> "FileTable":
        """Return the table of all parts in the order of paths."""
        table = pa.concat_tables([empty_table(_SCHEMA), *parts]).combine_chunks()
        return cls(pc.take(table, pc.sort_indices(table.column("path"))))

    def add_to(self, digest: Any) -> None:
        """Update a `hashlib` digest with every column of the table."""
        for column in map(pa.ChunkedArray.combine_chunks, self.table.columns):
            digest.update(to_numpy(pc.is_valid(column)))
            known = pc.drop_null(column)
            if pa.types.is_primitive(known.type):
                digest.update(to_numpy(known))
            else:
                bounds, data = bounds_and_bytes(pc.cast(known, _PATH))
                digest.update(np.diff(bounds))
                digest.update(data)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        for batch in self.table.to_batches(max_chunksize=_CHUNK):
            yield from map(decode_path, bytes_of(batch.column(0)))

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {path: place for place, path in enumerate(self)}

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._place_of(path) is not None

    def _place_of(self, path: str) -> int | None:
        """Return the index of a path, or None.

        The first lookups bisect. Later ones use a dictionary of all paths, which takes a second and
        150 MB for a million paths, about the time of the bisections before it.
        """
        most = max(_MIN_BISECTIONS, len(self) // _FILES_PER_BISECTION)
        if "_places" in vars(self) or self._questions >= most:
            return self._places.get(path)
        self._questions += 1
        key, paths = encode_path(path), self.paths
        place = bisect.bisect_left(range(len(paths)), key, key=lambda n: paths[n].as_py())
        return place if place < len(paths) and paths[place].as_py() == key else None

    def __getitem__(self, path: str) -> storage.InputFile:
        if (place := self._place_of(path)) is None:
            raise KeyError(path)
        size, version, code, detail, is_folder = (a[place].as_py() for a in self._arrays)
        problem = None if code is None else (code, decode_path(detail))
        return storage.InputFile(path, size, version, problem, is_folder)

    @functools.cached_property
    def _arrays(self) -> list[pa.Array]:
        return [column.combine_chunks() for column in self.table.columns[1:]]

    def rows(self) -> Iterator[storage.InputFile]:
        """Yield the files in order, created in chunks."""
        for batch in self.table.to_batches(max_chunksize=_CHUNK):
            paths, sizes, versions, codes, details, are_folders = batch.columns
            problems: Iterable[tuple[str, str] | None] = itertools.repeat(None, len(batch))
            if codes.null_count < len(batch):
                problems = (
                    None if code is None else (code, decode_path(detail))
                    for code, detail in zip(codes.to_pylist(), details.to_pylist(), strict=True)
                )
            numbers = (column.to_pylist() for column in (sizes, versions))
            names = map(decode_path, bytes_of(paths))
            yield from map(storage.InputFile, names, *numbers, problems, are_folders.to_pylist())

    @functools.cached_property
    def _extensions(self) -> tuple[list[bytes], npt.NDArray[np.int32]]:
        """Distinct lower-case extensions, and the index of each file's extension.

        They take about 0.15 µs per file, once. A regular expression would take as long on every
        call.
        """
        extensions = pc.dictionary_encode(extensions_of(self.paths))
        known = [name.lower() for name in bytes_of(extensions.dictionary)]
        return known, to_numpy(extensions.indices)

    @property
    def endings(self) -> set[bytes]:
        """Distinct extensions in lower case; empty for names without one."""
        return {*self._extensions[0]}

    def ending(self, endings: Iterable[str]) -> "FileTable":
        """Return the files whose paths have one of these endings, in any case."""
        return self.select(self._has_ending(endings))

    def not_ending(self, endings: Iterable[str]) -> "FileTable":
        """Return the files whose paths lack all these endings, in any case."""
        return self.select(~self._has_ending(endings))

    def _has_ending(self, endings: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return whether each path has one of these endings, which may be more than extensions."""
        wanted = tuple(ending.lower().encode() for ending in endings)
        last = tuple(ending[ending.rfind(b".") :] for ending in wanted)
        known, codes = self._extensions
        mask: npt.NDArray[np.bool_]
        mask = np.array([*(name in last for name in known), False], np.bool_)[codes]
        if last == wanted or not mask.any():
            return mask
        pattern = f"(?i)(?:{'|'.join(re.escape(name.decode()) for name in wanted)})$"
        mask &= to_numpy(pc.match_substring_regex(self.paths, pattern=pattern))
        return mask

    def containing(self, part: str) -> "FileTable":
        """Return the files whose paths contain a string."""
        has_part = pc.match_substring(self.table.column("path"), pattern=encode_path(part))
        return self.select_only(to_numpy(has_part))

    def below(self, folder: str) -> "FileTable":
        """Return the files below a folder. All files are below `""`."""
        if not folder:
            return self
        is_below = pc.starts_with(self.table.column("path"), pattern=encode_path(f"{folder}/"))
        return self.select(to_numpy(is_below))

    @functools.cached_property
    def paths(self) -> pa.Array:
        """Paths of the files, `(n,) large_binary`."""
        return one_array(self.table.column("path"))

    def folders(self) -> pa.DictionaryArray:
        """Return the folder of each file, `large_binary`. The folder of top-level files is `""`."""
        return self._folders

    @functools.cached_property
    def _folders(self) -> pa.DictionaryArray:
        return pc.dictionary_encode(folders_of(self.paths))

    def select_only(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Return a new table with the files selected by a mask `(n,) bool`."""
        return FileTable(pc.filter(self.table, bool_array(mask)))

    def select(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Return the files selected by a mask `(n,) bool`; this table itself if all are."""
        return self if mask.all() else FileTable(pc.filter(self.table, bool_array(mask)))


def _table_of(files: Sequence[storage.InputFile]) -> pa.Table | None:
    """Return the rows of some files, or None without any."""
    if not files:
        return None
    paths, sizes, versions, problems, are_folders = zip(*files, strict=True)
    columns = [
        path_array(paths),
        int_array(np.array(sizes, np.int64)),
        string_array(versions),
        string_array(problem and problem[0] for problem in problems),
        path_array(problem and problem[1] for problem in problems),
        bool_array(np.array(are_folders, np.bool_)),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _table_of_plain(groups: Sequence[storage.FileGroup]) -> pa.Table:
    """Return the rows of the plain files of some folders."""
    groups = [group for group in groups if group.names]
    count = sum(len(group.names) for group in groups)
    sizes, modified, changed = (
        int_array(np.concatenate([np.zeros(0, np.int64), *map(np.asarray, numbers)]))
        for numbers in (
            [group.sizes for group in groups],
            [group.modified for group in groups],
            [group.changed for group in groups],
        )
    )
    times = [pc.cast(numbers, pa.string()) for numbers in (modified, changed)]
    columns = [
        _paths_of(groups),
        sizes,
        pc.binary_join_element_wise(*times, string_scalar("-")),
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.large_binary()),
        bool_array(np.zeros(count, np.bool_)),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _paths_of(groups: Sequence[storage.FileGroup]) -> pa.Array:
    """Return the paths of the plain files of some folders, `large_binary`."""
    parts = []
    for group in groups:  # one call joins all names of a folder; no name has a NUL
        prefix = f"{group.folder}/" if group.folder else ""
        parts.append(prefix + f"\0{prefix}".join(group.names) + "\0")
    data = np.frombuffer(encode_path("".join(parts)), np.uint8)
    is_end = data == 0
    ends = np.flatnonzero(is_end)
    ends -= np.arange(len(ends))
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[~is_end])]
    return pa.Array.from_buffers(_PATH, len(ends), buffers)


class NamedFiles(Mapping[str, storage.InputFile]):
    """Files below a folder, looked up on demand: a list may name few files of a large folder.

    Args:
        base: the path or url of the folder.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._found: dict[str, storage.InputFile | None] = {}

    def look_up(self, paths: Iterable[str]) -> None:
        """Look up many files at once, so that each of their folders is listed once."""
        new = [path for path in dict.fromkeys(paths) if path not in self._found]
        files = storage.find_files(self._base, new)
        self._found |= {path: files.get(path) for path in new}

    def __getitem__(self, path: str) -> storage.InputFile:
        if path not in self._found:
            self.look_up([path])
        if (file := self._found[path]) is None:
            raise KeyError(path)
        return file

    def __iter__(self) -> Iterator[str]:
        return (path for path, file in self._found.items() if file is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclasses.dataclass(frozen=True)
class ImageRoot:
    """A folder outside of the input base that lists may refer to, with its files by path."""

    base: str
    files: Mapping[str, storage.InputFile]

    @property
    def table(self) -> FileTable:
        """Files that were listed or named."""
        files = self.files
        return files if isinstance(files, FileTable) else FileTable.of(files.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutInputs:
    """The files and settings that a layout is read from."""

    base: str  # the input base, a folder
    root: str  # start of the layout relative to `base`: a folder ("" for the base) or a file
    files: FileTable  # selected files in order, by path relative to `base`; without junk
    split: str | None = None  # the split of all files, or None if the layout decides
    # Kinds by column, set by the user
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    file_roots: tuple[ImageRoot, ...] = ()  # other folders that lists may refer to
    # Settings of lists, set by the user
    column_names: Sequence[str] = ()
    header: bool | None = None
    delimiter: str | None = None
    quoting: str = "csv"
    encoding: str = "utf-8"
    rows: str = "auto"
    label_separator: str | None = None
    find_files: str = "path"
    name_pattern: str | None = None  # a regular expression for the names of files, set by the user
    box_format: str | None = None
    vocabularies: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    # Names of the layout's folders and files that differ from the default, by setting
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    media: str = "image"  # default kind of the files: `image`, `audio` or `text`
    follow_links: bool = False  # read files that links outside of `base` lead to
    layout: str = "auto"  # the requested layout, or `auto`
    # Checksums, by name, of files that the layout itself read, such as annotations. They are part
    # of the inputs' fingerprint
    contents: dict[str, int] = dataclasses.field(default_factory=dict)
    # Intermediate results of layouts, by name
    cache: dict[str, Any] = dataclasses.field(default_factory=dict)

    def below_root(self) -> Iterator[tuple[tuple[str, ...], storage.InputFile]]:
        """Yield the files below `root`, each with the parts of its path relative to it."""
        for file in self.files.below(self.root).rows():
            yield self.parts_of(file.path), file

    def paths_below_root(self, *, endings: Iterable[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield parts and path of each file below `root` that ends in one of `endings`."""
        for path in self.files.ending(endings).below(self.root):
            yield self.parts_of(path), path

    def parts_of(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path below `root`, relative to it."""
        return tuple(path.removeprefix(f"{self.root}/" if self.root else "").split("/"))

    @functools.cached_property
    def folders(self) -> frozenset[tuple[str, ...]]:
        """Folders below `root` that have files, as relative parts."""
        folders = map(decode_path, bytes_of(self.files.below(self.root).folders().dictionary))
        return frozenset(self.parts_of(folder) for folder in folders if folder != self.root)

    @property
    def only_folder(self) -> str | None:
        """Path of the only top-level folder if it has all files; None otherwise."""
        tops = {parts[0] for parts in self.folders}
        folders = self.files.below(self.root).folders().dictionary
        has_files = encode_path(self.root) in {*bytes_of(folders)}
        return posixpath.join(self.root, tops.pop()) if len(tops) == 1 and not has_files else None

    @property
    def label_list(self) -> str | None:
        """Path of the text file with the labels of files outside of class folders, or None."""
        name = self.names.get("label_list")
        return None if name is None else posixpath.join(self.root, name)

    @functools.cached_property
    def _spellings(self) -> dict[str, tuple[str, ...]]:
        """Possible prefixes of absolute paths below the base and each image root."""
        spellings = {}
        for root in (self.base, *(root.base for root in self.file_roots)):
            is_local = not storage.is_remote(root)
            whole = [os.path.abspath(root), os.path.realpath(root)] if is_local else [root]
            spellings[root] = tuple(path.rstrip("/") + "/" for path in dict.fromkeys(whole))
        return spellings

    @functools.cached_property
    def _real_base(self) -> str | None:
        is_free = self.follow_links or storage.is_remote(self.base)
        return None if is_free else os.path.realpath(self.base)

    def open(self, path: str) -> BinaryIO:
        """Open a file as an unbuffered stream; raise OSError if it changed since listing."""
        # A UTF-8 copy of a text file is not among the listed files.
        root = self._real_base if path in self.files else None
        return storage.open_for_reading(storage.join(self.base, path), root=root)

    def head(self, path: str, num_bytes: int) -> bytes:
        """Return the first bytes of a file, or none if it cannot be read, which its reader reports.

        Raises:
            MachineError: the machine or its storage failed.
        """
        try:
            with self.open(path) as stream:
                return stream.read(num_bytes)
        except OSError as error:
            storage.raise_host_error(error, storage.join(self.base, path))
            return b""

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file and record its checksum; raise OSError if it changed since listing."""
        location = storage.join(self.base, path)
        if path in self.files:
            data = storage.read_bytes_of_size(location, self.files[path].size, root=self._real_base)
        else:
            data = storage.read_bytes(location)
        self.contents[path] = extend_crc32c(0, data)
        return data

    def problem_of(self, path: str) -> tuple[str, str] | None:
        """Return a reject code and detail if a listed file cannot be opened, else None."""
        problem = self.files[path].problem
        if problem is not None or storage.is_remote(self.base):  # a listed object exists
            return problem
        try:
            with self.open(path):
                return None
        except OSError as error:
            return storage.problem_of(error, storage.join(self.base, path))

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        """Yield whole small files in order, or an OSError for a file that cannot be read.

        Files of an object store are read in parallel.
        """
        if not storage.is_remote(self.base):
            yield from map(self._bytes_or_error, paths)
            return
        with concurrent.futures.ThreadPoolExecutor(_REMOTE_THREADS) as pool:
            yield from pool.map(self._bytes_or_error, paths)

    def _bytes_or_error(self, path: str) -> bytes | OSError:
        try:
            return self.read_bytes(path)
        except OSError as error:
            return error

    def read_text(self, path: str) -> str:
        """Read a whole UTF-8 file, with or without a byte order mark."""
        return decode_text(self.read_bytes(path), path=path)

    def resolve(self, uri: str, *, folder: str) -> tuple[str, Blob]:
        """Return the name and the file that a row of a list refers to.

        Args:
            uri: a path relative to `folder`, to the input base or to an image root, an absolute
                path, or a url.
            folder: the folder of the list, relative to `base`.

        Raises:
            RejectedInputError: there is no such file, or it may not be read.
        """
        if _has_unknown_scheme(uri):
            raise RejectedInputError(
                "UNKNOWN_SCHEME", f"expected a path or one of {', '.join(_KNOWN_SCHEMES)}"
            )
        if not uri:
            raise RejectedInputError("FILE_NOT_FOUND", "the path is missing")
        uri = self._whole_if_outside(storage.local_path(uri), folder)
        inside = False
        for root, files, start in self._roots(folder):
            if (path := _below(uri, self._spellings[root], start)) is None:
                continue
            inside = True
            if (file := files.get(path)) is not None:
                whole = root if storage.is_remote(root) else os.path.abspath(root)
                location = path if root == self.base else storage.join(whole, path)
                return path, _blob_of(file, location)
            _check_folders_readable(files, path)
        if inside:
            raise RejectedInputError("FILE_NOT_FOUND", "listed, but there is no such file")
        raise RejectedInputError(
            "OUTSIDE_INPUT_BASE", "expected a path below input_base or one of file_roots"
        )

    def look_up(self, uris: Iterable[str], *, folder: str) -> None:
        """Look up the files of a list that are outside of the input base, to make `resolve` fast.

        Args:
            uris: the paths or urls of the list, as for `resolve`.
            folder: the folder of the list, relative to `base`.
        """
        roots = [root for root in self.file_roots if isinstance(root.files, NamedFiles)]
        if not roots:
            return
        paths: dict[str, list[str]] = {root.base: [] for root in roots}
        for uri in uris:
            if not uri or _has_unknown_scheme(uri):
                continue
            whole = self._whole_if_outside(storage.local_path(uri), folder)
            if _below(whole, self._spellings[self.base], folder) in self.files:
                continue
            for root in roots:
                if (path := _below(whole, self._spellings[root.base], "")) is not None:
                    paths[root.base].append(path)
        for root in roots:
            assert isinstance(root.files, NamedFiles)
            root.files.look_up(paths[root.base])

    def _whole_if_outside(self, uri: str, folder: str) -> str:
        """Make a relative path such as `../photos/1.jpg` absolute if it leaves the input base."""
        if "://" in uri or os.path.isabs(uri) or storage.is_remote(self.base):
            return uri
        path = posixpath.normpath(posixpath.join(folder, uri))
        return posixpath.join(os.path.abspath(self.base), path) if path[:3] == "../" else uri

    def _roots(self, folder: str) -> Iterator[tuple[str, Mapping[str, storage.InputFile], str]]:
        yield self.base, self.files, folder
        if folder:
            yield self.base, self.files, ""
        for root in self.file_roots:
            yield root.base, root.files, ""


def select_readable(
    inputs: LayoutInputs, paths: Sequence[str], what: str
) -> tuple[list[str], list[ExcludedInput]]:
    """Return the files that can be opened, in order, and exclude unreadable and missing ones.

    Args:
        inputs: the files of the layout.
        paths: the files to check, relative to the input base.
        what: description of a file, for the error.

    Raises:
        InputError: no file can be opened, or one has another problem, such as a link out of the
            base.
    """
    problems = {path: inputs.problem_of(path) for path in paths}
    excluded = [
        ExcludedInput(path, inputs.split, *problem) for path, problem in problems.items() if problem
    ]
    good = [path for path in paths if problems[path] is None]
    strange = [left for left in excluded if left.code not in ("UNREADABLE", "VANISHED")]
    for left in strange or ([] if good else excluded[:1]):
        raise InputError.at(left.name, expected=what, got=f"{left.detail} ({left.code})")
    return good, excluded


def _blob_of(file: storage.InputFile, location: str) -> Blob:
    if file.problem is not None:
        raise RejectedInputError(*file.problem)
    return Blob(location, file.size)


def _check_folders_readable(files: Mapping[str, storage.InputFile], path: str) -> None:
    """Raise RejectedInputError if a folder of the path cannot be listed."""
    while isinstance(files, FileTable) and (path := posixpath.dirname(path)):
        if (folder := files.get(path)) is not None and folder.is_folder:
            _blob_of(folder, path)


def decode_text(
    data: bytes, *, path: str, errors: str = "strict", encoding: str = "utf-8-sig"
) -> str:
    """Decode text, by default UTF-8 with or without a byte order mark; raise InputError."""
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        got = f"{error.object[error.start : error.end]!r} in line {line}"
        is_utf8 = encoding == "utf-8-sig"
        advice = "Save it as UTF-8." if is_utf8 else "Name its own encoding."
        raise InputError.at(
            path,
            expected="UTF-8" if is_utf8 else encoding,
            got=got,
            offset=error.start,
            advice=advice,
        ) from error


def _has_unknown_scheme(uri: str) -> bool:
    scheme = _SCHEME.match(uri)
    return scheme is not None and scheme[1].lower() not in _KNOWN_SCHEMES


def _below(uri: str, prefixes: tuple[str, ...], start: str) -> str | None:
    """Return `uri` relative to a root, or None if it is outside.

    Args:
        uri: a url, an absolute path, or a path relative to `start`.
        prefixes: the spellings of the root, each with a final slash.
        start: a folder of the root, relative to it.
    """
    if "://" in uri or os.path.isabs(uri):
        whole = uri if "://" in uri else posixpath.normpath(uri)
        prefix = next((p for p in prefixes if whole.startswith(p)), None)
        if prefix is None:
            return None
        path = posixpath.normpath(whole[len(prefix) :])
    else:
        path = posixpath.normpath(posixpath.join(start, uri))
    return None if path.startswith("../") or path in ("..", ".") else path
