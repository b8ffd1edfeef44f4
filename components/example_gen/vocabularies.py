"""Labels and their ids.

vocabularies = make_vocabularies(listing, given={})     # {'label': ('cat', 'dog')}
entries, unknown = with_ids(listing, vocabularies)
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from components.common.listing import Column, Entry, LeftOut, Listing, Value
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.naming import vocabulary_file
from trainer_utils.format.printable import printable
from trainer_utils.storage import display_path

__all__ = ["check_vocabulary", "label_column", "make_vocabularies", "with_ids"]


def label_column(columns: Sequence[Column]) -> int | None:
    """The place of the column whose classes are counted and kept in proportion."""
    for place, column in enumerate(columns):
        if column.kind == "label" or column.name in ("label", "labels"):
            return place
    return None


def make_vocabularies(
    listing: Listing, *, given: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The vocabulary of each feature of labels: as given, or its values, sorted.

    Raises:
        ConfigError: one is given for no such feature.
        InputError: a label cannot be a line of a file.
    """
    columns = {c.name: place for place, c in enumerate(listing.columns) if c.kind == "label"}
    for name in given:
        if name not in columns:
            raise ConfigError(
                f"vocabulary[{name!r}]: expected a feature of labels "
                f"({', '.join(columns) or 'there is none'})"
            )
    vocabularies = {}
    for name, place in columns.items():
        if name in given:
            vocabularies[name] = given[name]
        else:
            labels = {label for entry in listing.entries for label in _labels(entry.values[place])}
            vocabularies[name] = tuple(sorted(labels, key=os.fsencode))
        check_vocabulary(name, vocabularies[name])
    return vocabularies


def check_vocabulary(name: str, labels: Sequence[str]) -> None:
    """Refuses a label that cannot be a line of a file, or a name that no file can have.

    Raises:
        InputError: the message names the label.
        ConfigError: the message names the feature.
    """
    vocabulary_file(name)
    for label in labels:
        if "\n" in label or "\r" in label:
            raise InputError(
                f"{printable(name)} {label!r}: expected one line, since a vocabulary has one each"
            )
        if label != display_path(label):
            raise InputError(
                f"{printable(name)} {display_path(label)!r}: expected a name in UTF-8. "
                "Rename that folder."
            )


def _labels(value: Value) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def with_ids(
    listing: Listing, vocabularies: Mapping[str, Sequence[str]]
) -> tuple[list[Entry], list[LeftOut]]:
    """The entries with ids for labels, and those whose label a given vocabulary does not hold."""
    ids = {
        place: {label: number for number, label in enumerate(vocabularies[column.name])}
        for place, column in enumerate(listing.columns)
        if column.kind == "label"
    }
    entries, unknown = [], []
    for entry in listing.entries:
        values = list(entry.values)
        try:
            for place, known in ids.items():
                values[place] = _ids(values[place], known)
        except KeyError as error:
            name = listing.columns[place].name
            detail = f"{name} {error.args[0]!r} is not in the vocabulary"
            unknown.append(LeftOut(entry.name, entry.split, "UNKNOWN_LABEL", detail))
        else:
            entries.append(entry._replace(values=tuple(values)) if ids else entry)
    return entries, unknown


def _ids(value: Value, known: Mapping[str, int]) -> Value:
    if isinstance(value, tuple):
        return tuple(known[cast(str, label)] for label in value)
    return None if value is None else known[cast(str, value)]
