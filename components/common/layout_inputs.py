"""What a layout is read from: files below the input base, as columns, and how lists name them."""

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

from components.common.entry import Blob, ExcludedInput, bytes_of, one_array
from components.common.rejects import RejectedInputError
from trainer_utils import storage
from trainer_utils.format import InputError
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage.file_system import decode_path, encode_path

_CHUNK = 1 << 15  # files that are Python objects at a time
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
_MOST_BISECTIONS = 64
_EXTENSION_BYTES = 16  # of a name, at the most: longer ones are no extensions
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_KNOWN_SCHEMES = ("file", "gs", "hdfs", "s3")


class FileTable(Mapping[str, storage.InputFile]):
    """Files by path, in the order of their paths' bytes.

    Args:
        table: a row a file; `code` and `detail` say why one cannot be read.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._questions = 0

    @classmethod
    def of(cls, files: Iterable[storage.InputFile]) -> "FileTable":
        """The table of files that come in any order, of which few are held at a time."""
        source, parts = iter(files), [_SCHEMA.empty_table()]
        while some := list(itertools.islice(source, _CHUNK)):
            paths, sizes, versions, problems, are_folders = zip(*some, strict=True)
            codes = [problem and problem[0] for problem in problems]
            details = [problem and encode_path(problem[1]) for problem in problems]
            columns = [[*map(encode_path, paths)], sizes, versions, codes, details, are_folders]
            arrays = map(pa.array, columns, _SCHEMA.types)
            parts.append(pa.Table.from_arrays([*arrays], schema=_SCHEMA))
        table = pa.concat_tables(parts).combine_chunks()
        return cls(table.take(pc.sort_indices(table.column("path"))))

    def add_to(self, digest: Any) -> None:
        """Has a digest of `hashlib` depend on all that is known of each file."""
        for column in map(pa.ChunkedArray.combine_chunks, self.table.columns):
            digest.update(np.asarray(column.is_valid()))
            known = column.drop_null()
            if pa.types.is_primitive(known.type):
                digest.update(np.asarray(known))
            else:
                texts = bytes_of(known.cast(_PATH))
                digest.update(np.array([*map(len, texts)], np.int64))
                digest.update(b"".join(texts))

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
        """Return the place of a path: the first ones by bisection, then from a table of all.

        A table of a million paths takes a second and 150 MB, which one question is not worth.
        """
        if "_places" in vars(self) or self._questions >= _MOST_BISECTIONS:
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
        """The files in order, each made when it is asked for."""
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
        """The distinct extensions of the names in lower case, and the place of each file's.

        Some 0.3 µs a file, once: a pattern for each question would take as long every time.
        """
        known: dict[bytes, int] = {}
        codes = np.empty(len(self), np.int32)
        start = 0
        for batch in self.table.to_batches(max_chunksize=_CHUNK):
            found, inverse = np.unique(_extensions_of(batch.column(0)), return_inverse=True)
            own = [known.setdefault(one, len(known)) for one in found.tolist()]
            codes[start : start + len(batch)] = np.array(own, np.int32)[inverse]
            start += len(batch)
        return [b"" if b"/" in one else one.lower() for one in known], codes

    def ending(self, endings: Iterable[str]) -> "FileTable":
        """Return the files whose paths end so, in any case."""
        wanted = tuple(ending.lower().encode() for ending in endings)
        last = tuple(ending[ending.rfind(b".") :] for ending in wanted)
        known, codes = self._extensions
        is_known = np.array([one in last for one in known], np.bool_)
        found = self.select(is_known[codes] if len(codes) else np.zeros(0, np.bool_))
        if last == wanted:
            return found
        pattern = f"(?i)(?:{'|'.join(re.escape(one.decode()) for one in wanted)})$"
        return found.select_only(np.asarray(pc.match_substring_regex(found.paths, pattern=pattern)))

    def below(self, folder: str) -> "FileTable":
        """Those files that lie below a folder; all below `""`."""
        if not folder:
            return self
        found = pc.starts_with(self.table.column("path"), pattern=encode_path(f"{folder}/"))
        return self.select(found.to_numpy())

    @functools.cached_property
    def paths(self) -> pa.Array:
        """The paths of the files, `(n,) large_binary`."""
        return one_array(self.table.column("path"))

    def folders(self) -> pa.DictionaryArray:
        """Return the folder of each file, `large_binary`; that of one at the top is `""`."""
        return self._folders

    @functools.cached_property
    def _folders(self) -> pa.DictionaryArray:
        found = pc.replace_substring_regex(self.paths, pattern="/?[^/]*$", replacement="")
        return found.dictionary_encode()

    def select_only(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Return the files that a mask `(n,)` takes, as a table of their own."""
        return FileTable(self.table.filter(pa.array(mask)))

    def select(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Those files that a mask `(n,)` takes."""
        return self if mask.all() else FileTable(self.table.filter(pa.array(mask)))


def _extensions_of(paths: pa.Array) -> npt.NDArray[np.bytes_]:
    """Return what each path ends in from its last dot on, `(n,) S16`; longer ones are empty."""
    _, offsets, values = paths.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(paths) + 1, 8 * paths.offset)
    data = np.frombuffer(values, np.uint8, bounds[-1]) if values is not None else np.zeros(0, "u1")
    dots = np.flatnonzero(data[bounds[0] :] == ord(".")) + bounds[0]
    last = np.concatenate([[-1], dots])[np.searchsorted(dots, bounds[1:])]
    lengths = bounds[1:] - last
    has_one = (last >= bounds[:-1]) & (lengths <= _EXTENSION_BYTES)
    places = last[:, np.newaxis] + np.arange(_EXTENSION_BYTES)
    is_inside = has_one[:, np.newaxis] & (places < bounds[1:, np.newaxis])
    found = np.zeros((len(paths), _EXTENSION_BYTES), np.uint8)
    found[is_inside] = data[places[is_inside]]
    ends: npt.NDArray[np.bytes_] = found.view(f"S{_EXTENSION_BYTES}")[:, 0]
    return ends


class NamedFiles(Mapping[str, storage.InputFile]):
    """Files below a folder, looked up when a list names them: few of a large folder may be.

    Args:
        base: the folder, or the url of one.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._found: dict[str, storage.InputFile | None] = {}

    def look_up(self, paths: Iterable[str]) -> None:
        """Look for many files, so that their folders are listed at once."""
        new = [path for path in dict.fromkeys(paths) if path not in self._found]
        found = storage.find_files(self._base, new)
        self._found |= {path: found.get(path) for path in new}

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
    """A folder outside the input base that a list may point into, with its files by path."""

    base: str
    files: Mapping[str, storage.InputFile]

    @property
    def table(self) -> FileTable:
        """The files that were listed or named."""
        files = self.files
        return files if isinstance(files, FileTable) else FileTable.of(files.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutInputs:
    """What a layout is read from."""

    base: str  # the input base, a folder
    root: str  # where the layout begins, relative to `base`: a folder ("" for the base), or a file
    files: FileTable  # those selected, by path relative to `base`, in order; without junk
    split: str | None = None  # the split that all of them belong to, or None where the layout says
    # Kinds by column, as the user sets them
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_roots: tuple[ImageRoot, ...] = ()  # other folders that lists may point into
    # Settings of lists, as the user gives them
    column_names: Sequence[str] = ()
    header: bool | None = None
    delimiter: str | None = None
    quoting: str = "csv"
    encoding: str = "utf-8"
    rows: str = "auto"
    label_separator: str | None = None
    find_files: str = "path"
    box_format: str | None = None
    vocabularies: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    # Folders and files of the layout that have other names, by setting
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    media: str = "image"  # the kind of the files, where nothing says it: `image`, `audio`, `text`
    follow_links: bool = False  # whether files may be read that links outside of `base` lead to
    layout: str = "auto"  # the setting: the layout that is asked for by name, or `auto`
    # Sums of what the layout itself read, such as annotations, by name: a part of the inputs'
    # fingerprint
    contents: dict[str, int] = dataclasses.field(default_factory=dict)
    # What layouts computed of these inputs, by name
    cache: dict[str, Any] = dataclasses.field(default_factory=dict)

    def below_root(self) -> Iterator[tuple[tuple[str, ...], storage.InputFile]]:
        """Each file below `root`, with the parts of its path from there on."""
        for file in self.files.below(self.root).rows():
            yield self.parts_of(file.path), file

    def paths_below_root(self, *, endings: Iterable[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """The paths below `root` that end so, in any case, with their parts from there on."""
        for path in self.files.ending(endings).below(self.root):
            yield self.parts_of(path), path

    def parts_of(self, path: str) -> tuple[str, ...]:
        """The parts of a path that lies below `root`, from there on."""
        return tuple(path.removeprefix(f"{self.root}/" if self.root else "").split("/"))

    @functools.cached_property
    def folders(self) -> frozenset[tuple[str, ...]]:
        """The folders below `root` that files are in, in parts."""
        found = map(decode_path, bytes_of(self.files.below(self.root).folders().dictionary))
        return frozenset(self.parts_of(folder) for folder in found if folder != self.root)

    @property
    def only_folder(self) -> str | None:
        """The path of the one folder at the root that all files are in; None if there is more."""
        tops = {parts[0] for parts in self.folders}
        folders = self.files.below(self.root).folders().dictionary
        has_files = encode_path(self.root) in {*bytes_of(folders)}
        return posixpath.join(self.root, tops.pop()) if len(tops) == 1 and not has_files else None

    @property
    def label_list(self) -> str | None:
        """The path of the text with the labels of files in no class folder, if there is one."""
        name = self.names.get("label_list")
        return None if name is None else posixpath.join(self.root, name)

    @functools.cached_property
    def _spellings(self) -> dict[str, tuple[str, ...]]:
        """What whole paths below the base and each image root may begin with."""
        found = {}
        for root in (self.base, *(root.base for root in self.image_roots)):
            is_local = not storage.is_remote(root)
            whole = [os.path.abspath(root), os.path.realpath(root)] if is_local else [root]
            found[root] = tuple(path.rstrip("/") + "/" for path in dict.fromkeys(whole))
        return found

    @functools.cached_property
    def _real_base(self) -> str | None:
        is_free = self.follow_links or storage.is_remote(self.base)
        return None if is_free else os.path.realpath(self.base)

    def open(self, path: str) -> BinaryIO:
        """A file's bytes as an unbuffered stream; OSError where it is not what was listed."""
        # A text's copy in UTF-8 is none of the files that were listed.
        root = self._real_base if path in self.files else None
        return storage.open_for_reading(storage.join(self.base, path), root=root)

    def read_bytes(self, path: str) -> bytes:
        """A whole file, whose content is kept in mind; OSError where it is not what was listed."""
        location = storage.join(self.base, path)
        if path in self.files:
            data = storage.read_bytes_of_size(location, self.files[path].size, root=self._real_base)
        else:
            data = storage.read_bytes(location)
        self.contents[path] = extend_crc32c(0, data)
        return data

    def problem_of(self, path: str) -> tuple[str, str] | None:
        """Why a listed file cannot be read, as a reject's code and detail; it is opened to see."""
        problem = self.files[path].problem
        if problem is not None or storage.is_remote(self.base):  # a bucket gives what it lists
            return problem
        try:
            with self.open(path):
                return None
        except OSError as error:
            return storage.problem_of(error, storage.join(self.base, path))

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes | OSError]:
        """Whole small files, in order, or why one cannot be read: it may vanish.

        Those of an object store are read many at a time.
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
        """A whole UTF-8 file, with or without a byte order mark."""
        return decode_text(self.read_bytes(path), path=path)

    def resolve(self, uri: str, *, folder: str) -> tuple[str, Blob]:
        """The name and the file that a row of a list means.

        Args:
            uri: a path relative to `folder`, to the input base or to an image root, an absolute
                path, or a url.
            folder: of the list, relative to `base`.

        Raises:
            RejectedInputError: there is none, or it may not be read.
        """
        if _has_unknown_scheme(uri):
            raise RejectedInputError(
                "UNKNOWN_SCHEME", f"expected a path or one of {', '.join(_KNOWN_SCHEMES)}"
            )
        if not uri:
            raise RejectedInputError("FILE_NOT_FOUND", "there is no path, where one is expected")
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
        """Look for the files of a list outside of the input base, before `resolve` is asked.

        Args:
            uris: as of `resolve`.
            folder: of the list, relative to `base`.
        """
        roots = [root for root in self.image_roots if isinstance(root.files, NamedFiles)]
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
        """`../photos/1.jpg` as a whole path, where it leads out of the input base."""
        if "://" in uri or os.path.isabs(uri) or storage.is_remote(self.base):
            return uri
        path = posixpath.normpath(posixpath.join(folder, uri))
        return posixpath.join(os.path.abspath(self.base), path) if path[:3] == "../" else uri

    def _roots(self, folder: str) -> Iterator[tuple[str, Mapping[str, storage.InputFile], str]]:
        yield self.base, self.files, folder
        if folder:
            yield self.base, self.files, ""
        for root in self.image_roots:
            yield root.base, root.files, ""


def select_readable(
    inputs: LayoutInputs, paths: Sequence[str], what: str
) -> tuple[list[str], list[ExcludedInput]]:
    """Those files that can be opened, in order; those that are unreadable or gone are excluded.

    None that can be, or one that is no file of the input base, ends the run. `what` each of them is
    stands in the message.
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
    """Reject a file in a folder that cannot be listed."""
    while isinstance(files, FileTable) and (path := posixpath.dirname(path)):
        if (folder := files.get(path)) is not None and folder.is_folder:
            _blob_of(folder, path)


def decode_text(
    data: bytes, *, path: str, errors: str = "strict", encoding: str = "utf-8-sig"
) -> str:
    """Decode a text, UTF-8 with or without a byte order mark; InputError where it is none."""
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
    """`uri` relative to a root of those spellings, read from its folder `start`; None: outside."""
    if "://" in uri or os.path.isabs(uri):
        whole = uri if "://" in uri else posixpath.normpath(uri)
        prefix = next((p for p in prefixes if whole.startswith(p)), None)
        if prefix is None:
            return None
        path = posixpath.normpath(whole[len(prefix) :])
    else:
        path = posixpath.normpath(posixpath.join(start, uri))
    return None if path.startswith("../") or path in ("..", ".") else path
