"""What an ExampleGen found: entries with the bytes and values that make their examples.

listing = Listing.of(entries, columns=(Column("label", "label"),))
listing.entries[0]
# Entry(name='cat/1.jpg', split=None, blobs=(Blob(path='cat/1.jpg', size=81_234),), values=('cat',))
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from components.common.entries import Entries
from components.common.entry import BlobColumn, Column, Entry, ExcludedInput
from trainer_utils.format import InputError

__all__ = ["Listing", "join_listings", "with_excluded", "without_column"]

_IMAGE = (BlobColumn("image", "image"),)


@dataclasses.dataclass(frozen=True)
class Listing:
    """All inputs.

    Args:
        entries: to read, as columns.
        excluded: those that are rejected or skipped before reading.
        columns: the features that `Entry.values` are of.
        blobs: the features that `Entry.blobs` are of.
        contents: checksums of what the layout read to find them, by name.
        vocabularies: labels in the order of their ids, by feature, where the layout says it.
    """

    entries: Entries
    excluded: tuple[ExcludedInput, ...] = ()
    columns: tuple[Column, ...] = ()
    blobs: tuple[BlobColumn, ...] = _IMAGE
    contents: Mapping[str, int] = dataclasses.field(default_factory=dict)
    vocabularies: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        excluded: Iterable[ExcludedInput] = (),
        columns: tuple[Column, ...] = (),
        blobs: tuple[BlobColumn, ...] = _IMAGE,
    ) -> "Listing":
        """The listing of entries that may be made one by one; `excluded` is taken after them."""
        held = Entries.of(entries, columns=columns, num_blobs=len(blobs))
        return cls(held, tuple(excluded), columns, blobs)

    @property
    def found(self) -> int:
        """How many inputs there are."""
        return len(self.entries) + len(self.excluded)


def without_column(listing: Listing, name: str) -> Listing:
    """A listing without one of its columns."""
    place = [column.name for column in listing.columns].index(name)
    values = listing.entries.values
    return dataclasses.replace(
        listing,
        entries=dataclasses.replace(listing.entries, values=values[:place] + values[place + 1 :]),
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
    if len(listings) == 1:
        return listings[0]
    columns: dict[str, Column] = {}
    for listing in listings:
        for column in listing.columns:
            columns[column.name] = _common(columns.get(column.name, column), column, listings)
    if any(listing.blobs != listings[0].blobs for listing in listings):
        _refuse_joining(listings)
    places = [{c.name: place for place, c in enumerate(listing.columns)} for listing in listings]
    return Listing(
        Entries.join(
            [listing.entries for listing in listings],
            [[place.get(name) for name in columns] for place in places],
            columns=tuple(columns.values()),
        ),
        tuple(left for listing in listings for left in listing.excluded),
        tuple(columns.values()),
        listings[0].blobs,
        vocabularies={name: v for one in listings for name, v in one.vocabularies.items()},
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
