"""What an ExampleGen found: entries with the bytes and values that make their examples.

listing.entries[0]
# Entry(name='cat/1.jpg', split=None, blobs=(Blob(path='cat/1.jpg', size=81_234),), values=('cat',))
listing.columns       # (Column(name='label', kind='label'),)
"""

import concurrent.futures
import dataclasses
import functools
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple, NoReturn

from components.common.files import InputFile, is_remote, join, open_for_reading, read_bytes
from components.common.rejects import RejectedInputError
from trainer_utils.format import ConfigError, InputError

__all__ = [
    "KINDS",
    "Blob",
    "Column",
    "Entry",
    "ImageRoot",
    "LayoutInputs",
    "LeftOut",
    "Listing",
    "join_listings",
    "without_column",
]

KINDS = ("int", "float", "string", "label")
Scalar = int | float | str
Value = Scalar | tuple[Scalar, ...] | None

_REMOTE_THREADS = 16
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_KNOWN_SCHEMES = ("file", "gs", "hdfs", "s3")


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A feature that the inputs give a value for.

    Args:
        name: the feature's.
        kind: `int`, `float`, `string`, or `label`: strings that become ids of a vocabulary.
        is_list: its values are tuples; else single values, or None where missing.
        length: of a list, where all have that many values by nature, as a vector has; else None.
    """

    name: str
    kind: str
    is_list: bool = False
    length: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"columns[{self.name!r}]: expected one of {', '.join(KINDS)}, got {self.kind!r}"
            )


class Blob(NamedTuple):
    """Bytes that are read when their shard is written: a file, or a part of one.

    Args:
        path: relative to the input base, with `/`; below another root the whole path or url.
        size: in bytes; of a row about so many.
        offset: of a member of an archive, where its bytes begin.
        row: of a Parquet file, the number of the row.
        column: and the name of its column.
    """

    path: str
    size: int
    offset: int | None = None
    row: int | None = None
    column: str | None = None


class Entry(NamedTuple):
    """One input that should become an example.

    Args:
        name: what it is known by, unique: the file's path relative to the input base, or
            `<archive or table>/<key or row>`. Bytes that are not UTF-8 are surrogates.
        split: the split it names, or None where a hash decides.
        blobs: one for each of `Listing.blobs`.
        values: one for each of `Listing.columns`.
    """

    name: str
    split: str | None
    blobs: tuple[Blob, ...]
    values: tuple[Value, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """One input that will not be read; `code` is None where it is skipped on purpose."""

    name: str
    split: str | None
    code: str | None
    detail: str


@dataclasses.dataclass(frozen=True)
class Listing:
    """All inputs.

    Args:
        entries: to read.
        left_out: before reading.
        columns: the features that `Entry.values` are of.
        blobs: the features that `Entry.blobs` are of.
    """

    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()
    columns: tuple[Column, ...] = ()
    blobs: tuple[str, ...] = ("image",)

    @property
    def found(self) -> int:
        """How many inputs there are."""
        return len(self.entries) + len(self.left_out)


def without_column(listing: Listing, name: str) -> Listing:
    """A listing without one of its columns."""
    place = [column.name for column in listing.columns].index(name)
    return dataclasses.replace(
        listing,
        entries=tuple(
            entry._replace(values=entry.values[:place] + entry.values[place + 1 :])
            for entry in listing.entries
        ),
        columns=listing.columns[:place] + listing.columns[place + 1 :],
    )


def join_listings(listings: Sequence[Listing]) -> Listing:
    """Several listings as one; a column that one of them lacks is missing there.

    Raises:
        InputError: a feature differs from one to another.
    """
    columns: dict[str, Column] = {}
    for listing in listings:
        for column in listing.columns:
            columns[column.name] = _common(columns.get(column.name, column), column, listings)
    if any(listing.blobs != listings[0].blobs for listing in listings):
        _refuse_joining(listings)
    return Listing(
        tuple(entry for listing in listings for entry in _widened(listing, list(columns))),
        tuple(left for listing in listings for left in listing.left_out),
        tuple(columns.values()),
        listings[0].blobs,
    )


def _common(one: Column, other: Column, listings: Sequence[Listing]) -> Column:
    """What both columns are; of ints and floats, floats."""
    if one.is_list != other.is_list or (
        one.kind != other.kind and {one.kind, other.kind} != {"int", "float"}
    ):
        _refuse_joining(listings)
    return dataclasses.replace(
        one,
        kind=one.kind if one.kind == other.kind else "float",
        length=one.length if one.length == other.length else None,
    )


def _refuse_joining(listings: Sequence[Listing]) -> NoReturn:
    names = [
        ", ".join([*listing.blobs, *(f"{c.name} ({c.kind})" for c in listing.columns)])
        for listing in listings
    ]
    raise InputError(
        f"splits: expected the same features in all, got {' and '.join(dict.fromkeys(names))}"
    )


def _widened(listing: Listing, names: list[str]) -> Iterator[Entry]:
    """The entries with a value for each of `names`."""
    place = {column.name: number for number, column in enumerate(listing.columns)}
    if list(place) == names:
        yield from listing.entries
        return
    for entry in listing.entries:
        values = (entry.values[place[name]] if name in place else None for name in names)
        yield entry._replace(values=tuple(values))


@dataclasses.dataclass(frozen=True)
class ImageRoot:
    """A folder beside the input base that a list may point into, with its files by path."""

    base: str
    files: Mapping[str, InputFile]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutInputs:
    """What a layout is read from.

    Args:
        base: the input base, a folder.
        root: where the layout begins, relative to `base`: a folder ("" for the base), or a file.
        files: those selected, by path relative to `base`, in order.
        split: the split that all of them belong to, or None where the layout tells.
        columns: kinds by column, as the user sets them.
        image_roots: other folders that lists may point into.
    """

    base: str
    root: str
    files: Mapping[str, InputFile]
    split: str | None = None
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_roots: tuple[ImageRoot, ...] = ()

    def below_root(self) -> Iterator[tuple[tuple[str, ...], InputFile]]:
        """Each file below `root`, with the parts of its path from there on."""
        prefix = f"{self.root}/" if self.root else ""
        for path, file in self.files.items():
            if path.startswith(prefix):
                yield tuple(path[len(prefix) :].split("/")), file

    def open(self, path: str) -> BinaryIO:
        """A file's bytes as an unbuffered stream."""
        return open_for_reading(join(self.base, path))

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        return read_bytes(join(self.base, path))

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Whole small files, in order; those of an object store many at a time."""
        if not is_remote(self.base):
            yield from map(self.read_bytes, paths)
            return
        with concurrent.futures.ThreadPoolExecutor(_REMOTE_THREADS) as pool:
            yield from pool.map(self.read_bytes, paths)

    def read_text(self, path: str) -> str:
        """A whole UTF-8 file, with or without a byte order mark.

        Raises:
            InputError: it is not UTF-8.
        """
        try:
            return self.read_bytes(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path!r}: expected UTF-8, got {error.object[error.start : error.end]!r} "
                f"(byte {error.start})"
            ) from error

    def resolve(self, uri: str, *, folder: str) -> tuple[str, Blob]:
        """The name and the file that a row of a list means.

        Args:
            uri: a path relative to `folder`, to the input base or to an image root, an absolute
                path, or a url.
            folder: of the list, relative to `base`.

        Raises:
            RejectedInputError: OUTSIDE_INPUT_BASE, UNKNOWN_SCHEME, FILE_NOT_FOUND, or the file's
                own problem.
        """
        if (scheme := _SCHEME.match(uri)) and scheme[1].lower() not in _KNOWN_SCHEMES:
            raise RejectedInputError(
                "UNKNOWN_SCHEME", f"expected a path or one of {', '.join(_KNOWN_SCHEMES)}"
            )
        uri = uri.removeprefix("file://")
        inside = False
        for root, files, start in self._roots(folder):
            path = _below(uri, root, start)
            inside |= path is not None
            file = files.get(path) if path is not None else None
            if file is not None:
                if file.problem is not None:
                    raise RejectedInputError(*file.problem)
                location = file.path if root == self.base else join(root, file.path)
                return file.path, Blob(location, file.size)
        if inside:
            raise RejectedInputError("FILE_NOT_FOUND", "listed, but there is no such file")
        raise RejectedInputError(
            "OUTSIDE_INPUT_BASE", "expected a path below input_base or one of image_roots"
        )

    def _roots(self, folder: str) -> Iterator[tuple[str, Mapping[str, InputFile], str]]:
        yield self.base, self.files, folder
        if folder:
            yield self.base, self.files, ""
        for root in self.image_roots:
            yield root.base, root.files, ""


def _below(uri: str, root: str, start: str) -> str | None:
    """`uri` relative to `root`, read from its folder `start`; None where it leads out of it."""
    if "://" in uri or os.path.isabs(uri):
        whole = uri if "://" in uri else posixpath.normpath(uri)
        prefix = next((p for p in _spellings(root) if whole.startswith(p)), None)
        if prefix is None:
            return None
        path = posixpath.normpath(whole[len(prefix) :])
    else:
        path = posixpath.normpath(posixpath.join(start, uri))
    return None if path.startswith("../") or path in ("..", ".") else path


@functools.lru_cache(maxsize=64)
def _spellings(root: str) -> tuple[str, ...]:
    """What whole paths below `root` may begin with."""
    if is_remote(root):
        return (root.rstrip("/") + "/",)
    return tuple(
        path.rstrip("/") + "/"
        for path in dict.fromkeys((os.path.abspath(root), os.path.realpath(root)))
    )
