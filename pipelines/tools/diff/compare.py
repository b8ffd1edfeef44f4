"""Compares two datasets: which records were added, removed, changed, or moved to another split.

difference = compare_datasets("datasets/4", "datasets/5", most=100)
difference.changes[0].name, difference.changes[0].features

Records are the same where their names are (`record_id`, `filename` or `id`); those without a name,
where their content is. Their content is the same where length and CRC-32C are, which
datasets of ours have in `index/`, so that no shard is read; only where these differ values are
compared. Both datasets are columns of numpy, 30 bytes a record, which are joined: by all of them
first, then by fewer, so that of records of one name equal ones are paired first, and else in order.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.tools.diff.digests import Digests, content_at, feature_sums, read_digests
from pipelines.tools.records import ExampleReader
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.text_output import Part, Shown, make_table

__all__ = ["KINDS", "Change", "Difference", "Place", "compare_datasets"]

KINDS = ("added", "removed", "changed", "moved")
_LOOKED_UP_AT_ONCE = 1 << 15  # changed records, in the order in which they lie


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a record is: its split, and its number in it from 0 on."""

    split: str
    number: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One record that is not the same in both.

    Args:
        kind: `added`, `removed`, `changed` (it may have moved as well) or `moved`.
        name: of the record.
        before: where it is in the first dataset; None where it was added.
        after: where it is in the second; None where it was removed.
        features: of a changed one: those whose values differ, in order.
    """

    kind: str
    name: str
    before: Place | None
    after: Place | None
    features: Sequence[str] = ()

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference(Shown):
    """What is different.

    Args:
        uris: of both datasets.
        counts: of records by kind of change, with `unchanged`.
        features: how many of the changed records differ in each feature.
        changes: those that were asked for, by kind and in the order of the datasets.
    """

    uris: tuple[str, str]
    counts: Mapping[str, int]
    features: Mapping[str, int]
    changes: Sequence[Change]

    @property
    def is_equal(self) -> bool:
        """Whether both hold the same records in the same splits, in whatever order."""
        return not any(self.counts[kind] for kind in KINDS)

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "before": self.uris[0],
            "after": self.uris[1],
            "counts": dict(self.counts),
            "features": dict(self.features),
            "changes": [change.to_json() for change in self.changes],
        }

    def parts(self) -> list[Part]:
        """What a person sees, as `print_parts` takes it."""
        parts: list[Part] = [", ".join(f"{count:,} {kind}" for kind, count in self.counts.items())]
        if self.changes:
            rows = [[change.kind, change.name, _where(change)] for change in self.changes]
            parts += ["", make_table(["change", "record", "where"], rows)]
            if more := sum(self.counts[kind] for kind in KINDS) - len(self.changes):
                parts += ["", f"… and {more:,} more (--most N)"]
        return parts


def _where(change: Change) -> str:
    """The splits of a change, and the features that differ."""
    places = [place.split for place in (change.before, change.after) if place is not None]
    splits = " to ".join(dict.fromkeys(places))
    return f"{splits}: {', '.join(change.features)}" if change.features else splits


def compare_datasets(
    before: str,
    after: str,
    *,
    most: int = 100,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Difference:
    """Compares two datasets.

    Args:
        before: uri of the first.
        after: uri of the second.
        most: changes of each kind that are listed; all are counted.
        advance: called now and then with the records that were read since, and how many there are.

    Raises:
        DatasetError: one of them is none, or a record is damaged.
    """
    readers = ExampleReader(before), ExampleReader(after)
    splits = list(dict.fromkeys(split for reader in readers for split in reader.splits))
    total = sum(reader.count(split) for reader in readers for split in reader.splits)
    join = _Join(
        *(read_digests(r, splits, advance=lambda done: advance(done, total)) for r in readers)
    )
    unchanged = len(join.pairs("name", "fold", "crc", "split"))
    for side, reader in enumerate(readers):  # of the same names, whose bytes differ: their values?
        for digest in join.ambiguous(side):
            split, number = splits[digest["split"]], int(digest["number"])
            digest["fold"], digest["crc"] = content_at(reader, split, number), 0
    unchanged += len(join.pairs("name", "fold", "crc", "split"))
    moved = join.pairs("name", "fold", "crc")
    alike = [*join.pairs("name", "split"), *join.pairs("name")]
    rest: list[list[Pair]] = [
        [(row, None) for row in join.left(0)],
        [(None, row) for row in join.left(1)],
    ]
    counts = dict(zip(KINDS, (len(rest[1]), len(rest[0]), 0, len(moved)), strict=True))
    changes = []
    for kind, pairs in (("removed", rest[0]), ("added", rest[1]), ("moved", moved)):
        pairs = sorted(pairs, key=join.place)[:most]
        changes += [join.change(kind, pair, splits) for pair in pairs]
    features: collections.Counter[str] = collections.Counter()
    for start in range(0, len(alike), _LOOKED_UP_AT_ONCE):
        looked_at = [
            join.change("changed", pair, splits)
            for pair in alike[start : start + _LOOKED_UP_AT_ONCE]
        ]
        sums = [_feature_sums(reader, looked_at, side) for side, reader in enumerate(readers)]
        for change in looked_at:
            olds, news = (sums[side][place] for side, place in enumerate(_places(change)))
            differ = sorted(n for n in {*olds, *news} if olds.get(n) != news.get(n))
            kind = "changed"
            if not {*NAME_FEATURES}.isdisjoint(differ):  # of names whose sums are alike
                counts["removed"], counts["added"] = counts["removed"] + 1, counts["added"] + 1
                changes.append(dataclasses.replace(change, kind="removed", after=None))
                changes.append(dataclasses.replace(change, kind="added", before=None))
                continue
            if not differ:  # its bytes alone: writers order features as they like
                kind = (
                    "unchanged" if len({place.split for place in _places(change)}) == 1 else "moved"
                )
            features.update(differ)
            if kind == "unchanged":
                unchanged += 1
            else:
                counts[kind] += 1
                changes.append(dataclasses.replace(change, kind=kind, features=tuple(differ)))
    return Difference(
        uris=(before, after),
        counts={**counts, "unchanged": unchanged},
        features=dict(features.most_common()),
        changes=_named(_first(changes, splits, most), readers),
    )


Pair = tuple[int | None, int | None]  # rows of both sides


class _Join:
    """The records of two datasets; those that were paired are left out of all that follows.

    Args:
        before, after: their digests.
    """

    def __init__(self, before: Digests, after: Digests) -> None:
        self._sides = before, after
        self._left = [np.arange(len(before)), np.arange(len(after))]

    def left(self, side: int) -> list[int]:
        """The rows of a side that were not paired."""
        rows: list[int] = self._left[side].tolist()
        return rows

    def pairs(self, *fields: str) -> list[Pair]:
        """Pairs rows that have some fields alike, the first of each with the first."""
        rows = np.concatenate(self._left)
        sides = np.repeat([0, 1], [len(left) for left in self._left])
        columns = [
            np.concatenate([d[f][left] for d, left in zip(self._sides, self._left, strict=True)])
            for f in fields
        ]
        order = np.lexsort([sides, *columns])  # stable: rows that are alike stay in order
        is_first = np.ones(len(order), bool)
        is_first[1:] = np.any([c[order][1:] != c[order][:-1] for c in columns], axis=0)
        group = np.cumsum(is_first)
        is_first[1:] |= np.diff(sides[order]) != 0
        place = np.arange(len(order))
        rank = place - np.maximum.accumulate(np.where(is_first, place, 0))
        keys = group * (len(order) + 1) + rank
        olds, news = (np.flatnonzero(sides[order] == side) for side in (0, 1))
        _, first, second = np.intersect1d(
            keys[olds], keys[news], assume_unique=True, return_indices=True
        )
        paired = [rows[order[olds[first]]], rows[order[news[second]]]]
        for side, found in enumerate(paired):
            self._left[side] = np.setdiff1d(self._left[side], found, assume_unique=True)
        return [*zip(paired[0].tolist(), paired[1].tolist(), strict=True)]

    def ambiguous(self, side: int) -> Iterable[Any]:
        """The digests of a side whose name is in both, and in one of them several times."""
        names = [d["name"][left] for d, left in zip(self._sides, self._left, strict=True)]
        several = [np.unique(each, return_counts=True) for each in names]
        twice = np.concatenate([name[count > 1] for name, count in several])
        is_such = np.isin(names[side], np.intersect1d(np.intersect1d(*names), twice))
        return (self._sides[side][row] for row in self._left[side][is_such].tolist())

    def place(self, pair: Pair) -> tuple[int, int]:
        """What changes are sorted by: split and number, of the second dataset where it has it."""
        side = 0 if pair[1] is None else 1
        digest = self._sides[side][pair[side]]
        return int(digest["split"]), int(digest["number"])

    def change(self, kind: str, pair: Pair, splits: Sequence[str]) -> Change:
        """What became of a pair, without its name."""
        before, after = (
            None if row is None else Place(splits[side[row]["split"]], int(side[row]["number"]))
            for side, row in zip(self._sides, pair, strict=True)
        )
        return Change(kind=kind, name="", before=before, after=after)


def _places(change: Change) -> list[Place]:
    """Where a record is in the datasets that have it."""
    return [place for place in (change.before, change.after) if place is not None]


def _first(changes: Sequence[Change], splits: Sequence[str], most: int) -> list[Change]:
    """The first changes of each kind, in the order of the datasets."""

    def order(change: Change) -> tuple[int, int]:
        place = _places(change)[-1]
        return splits.index(place.split), place.number

    return [
        change
        for kind in KINDS
        for change in sorted((c for c in changes if c.kind == kind), key=order)[:most]
    ]


def _named(changes: Sequence[Change], readers: Sequence[ExampleReader]) -> list[Change]:
    """Changes with what the records are called, in the second dataset where it has them."""
    sides = [[c for c in changes if (c.after is None) == (side == 0)] for side in (0, 1)]
    names = [
        {
            Place(split, example.number): example.name
            for split, numbers in _numbers(_places(change)[-1] for change in of_side)
            for example in reader.read(split, numbers)
        }
        for reader, of_side in zip(readers, sides, strict=True)
    ]
    return [
        dataclasses.replace(c, name=names[0 if c.after is None else 1][_places(c)[-1]])
        for c in changes
    ]


def _feature_sums(
    reader: ExampleReader, changes: Sequence[Change], side: int
) -> dict[Place, dict[str, bytes]]:
    """The sums of each feature of the records of one side, which are read in their order."""
    return {
        Place(split, number): feature_sums(record)
        for split, numbers in _numbers(_places(change)[side] for change in changes)
        for number, _, record in reader.payloads(split, numbers)
    }


def _numbers(places: Iterable[Place]) -> Iterable[tuple[str, list[int]]]:
    """The splits of some records, and the numbers of these in rising order."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.split, []).append(place.number)
    return [(split, sorted(numbers)) for split, numbers in found.items()]
