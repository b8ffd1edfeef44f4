"""What an ExampleGen found: entries with the bytes and values that make their examples.

listing.entries[0]
# Entry(name='cat/1.jpg', split=None, blobs=(Blob(path='cat/1.jpg', size=81_234),), values=('cat',))
listing.columns       # (Column(name='label', kind='label'),)
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from trainer_utils.format import ConfigError, InputError

__all__ = [
    "KINDS",
    "Blob",
    "BlobColumn",
    "Column",
    "Entry",
    "ExcludedInput",
    "Listing",
    "join_listings",
    "with_excluded",
    "without_column",
]

KINDS = ("int", "float", "string", "label")
Scalar = int | float | str
Value = Scalar | tuple[Scalar, ...] | None


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


class BlobColumn(NamedTuple):
    """A feature whose bytes come from files: its name, and `image`, `label_map` or `audio`."""

    name: str
    kind: str


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
class ExcludedInput:
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
        excluded: those that are rejected or skipped before reading.
        columns: the features that `Entry.values` are of.
        blobs: the features that `Entry.blobs` are of.
        contents: checksums of what the layout read to find them, by name.
    """

    entries: tuple[Entry, ...]
    excluded: tuple[ExcludedInput, ...] = ()
    columns: tuple[Column, ...] = ()
    blobs: tuple[BlobColumn, ...] = (BlobColumn("image", "image"),)
    contents: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def found(self) -> int:
        """How many inputs there are."""
        return len(self.entries) + len(self.excluded)


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


def with_excluded(listing: Listing, excluded: Sequence[ExcludedInput]) -> Listing:
    """A listing with more excluded inputs."""
    return dataclasses.replace(listing, excluded=(*listing.excluded, *excluded))


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
        tuple(left for listing in listings for left in listing.excluded),
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
        ", ".join(
            [*(b.name for b in listing.blobs), *(f"{c.name} ({c.kind})" for c in listing.columns)]
        )
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
