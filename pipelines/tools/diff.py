"""Compare two datasets record by record, by name and content.

    difference = compare_datasets("datasets/4", "datasets/5", most=100)
    difference.counts                 # {'added': 10, 'removed': 0, 'changed': 3, 'moved': 1, …}
    difference.changes[0].name, difference.changes[0].features

Records are matched by name (`record_id`, `filename` or `id`), records without a name by content.
Two records with the same length and CRC-32C have the same content. The `index/` of our datasets
contains both, so no shard is read; values are compared only if length or CRC-32C differ. Both
datasets are numpy columns, 30 bytes per record, which are joined on all columns first and then on
fewer. So among records of the same name equal ones are paired first, and the rest in order.
"""

import collections
import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.report.records import ExampleReader
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table
from trainer_utils.dataset.opening import index_with_checksums
from trainer_utils.format.example import decode_example

KINDS = ("added", "removed", "changed", "moved")
_READ_AT_ONCE = 1 << 15  # pairs of records whose values are compared in one pass
_DIGEST = np.dtype(
    [("name", "<i8"), ("length", "<u8"), ("crc", "<u4"), ("split", "<u2"), ("number", "<i8")]
)
_Digests = npt.NDArray[np.void]
_Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a record: its split, and its number there from 0."""

    split: str
    number: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """A record that differs between the datasets; `features` names the features that differ."""

    kind: str
    name: str
    before: Place | None
    after: Place | None
    features: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference(TextReport):
    """The number of records by kind of change and of changed records by feature; listed changes."""

    uris: tuple[str, str]
    counts: Mapping[str, int]
    features: Mapping[str, int]
    changes: Sequence[Change]

    def to_json(self) -> JsonObject:
        """Return plain JSON types."""
        return {
            "before": self.uris[0],
            "after": self.uris[1],
            "counts": dict(self.counts),
            "features": dict(self.features),
            "changes": [dataclasses.asdict(change) for change in self.changes],
        }

    def parts(self) -> list[Part]:
        """Return the parts that `print_parts` prints."""
        parts: list[Part] = [", ".join(f"{count:,} {kind}" for kind, count in self.counts.items())]
        if self.changes:
            rows = [[change.kind, change.name, _where(change)] for change in self.changes]
            parts += ["", make_table(["change", "record", "where"], rows)]
            if more := sum(self.counts[kind] for kind in KINDS) - len(self.changes):
                parts += ["", f"… and {more:,} more (--most N)"]
        return parts


def _where(change: Change) -> str:
    """Return the splits of a change, and the features that differ."""
    places = [place.split for place in (change.before, change.after) if place is not None]
    splits = " to ".join(dict.fromkeys(places))
    return f"{splits}: {', '.join(change.features)}" if change.features else splits


def compare_datasets(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *,
    most: int = 100,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Difference:
    """Compare two datasets.

    Args:
        before: uri of the first dataset.
        after: uri of the second dataset.
        most: maximum number of changes to list for each kind; all are counted.
        advance: called regularly with the records read since the last call, and the total.

    Raises:
        DatasetError: a uri is not a dataset, or a record is damaged.
    """
    readers = ExampleReader(before), ExampleReader(after)
    total = sum(reader.count(split) for reader in readers for split in reader.splits)
    join = _Join(readers, advance=lambda done: advance(done, total))
    unchanged = len(join.pairs("name", "length", "crc", "split"))
    join.look_at_ambiguous()
    unchanged += len(join.pairs("name", "length", "crc", "split"))
    moved = [join.pairs("name", "length", "crc")]
    alike = np.concatenate([join.pairs("name", "split"), join.pairs("name")])
    features: collections.Counter[str] = collections.Counter()
    changed: list[Change] = []
    count = 0
    for chunk in np.array_split(alike, len(alike) // _READ_AT_ONCE + 1):
        pairs = join.in_order(chunk)
        sums = [join.feature_sums(side, pairs[:, side]) for side in (0, 1)]
        for pair in pairs:
            olds, news = sums[0][int(pair[0])], sums[1][int(pair[1])]
            differ = sorted(n for n in {*olds, *news} if olds.get(n) != news.get(n))
            features.update(differ)
            if differ:
                count += 1
                changed += [join.change("changed", pair, differ)] if len(changed) < most else []
            elif join.rows["split"][pair[0]] == join.rows["split"][pair[1]]:
                unchanged += 1  # equal values, other bytes: the order of features is arbitrary
            else:
                moved.append(pair[np.newaxis])
    added, removed = join.left(side=1), join.left(side=0)
    pairs_by_kind = {"added": added, "removed": removed, "moved": np.concatenate(moved)}
    listed = {
        kind: [join.change(kind, pair) for pair in join.in_order(pairs)[:most]]
        for kind, pairs in pairs_by_kind.items()
    } | {"changed": changed}
    counts = {kind: len(pairs) for kind, pairs in pairs_by_kind.items()} | {"changed": count}
    return Difference(
        uris=(os.fspath(before), os.fspath(after)),
        counts={**{kind: counts[kind] for kind in KINDS}, "unchanged": unchanged},
        features=dict(features.most_common()),
        changes=join.named([change for kind in KINDS for change in listed[kind]]),
    )


class _Join:
    """The records of both datasets as rows; a row is paired at most once.

    Pairs are row numbers of shape `(pairs, 2)`, with -1 for a side without the record.
    """

    def __init__(
        self, readers: tuple[ExampleReader, ExampleReader], *, advance: Callable[[int], None]
    ) -> None:
        self._readers = readers
        self._splits = list(dict.fromkeys(split for reader in readers for split in reader.splits))
        digests = [_read_digests(reader, self._splits, advance) for reader in readers]
        self.rows = np.concatenate(digests)
        self._sides = np.repeat([0, 1], [len(each) for each in digests])
        self._left = np.arange(len(self.rows))

    def left(self, *, side: int) -> _Rows:
        """Return the unpaired rows of one side, as pairs."""
        rows = self._left[self._sides[self._left] == side]
        pairs = np.full((len(rows), 2), -1)
        pairs[:, side] = rows
        return pairs

    def pairs(self, *fields: str) -> _Rows:
        """Pair rows with equal fields, in order, and return the pairs."""
        sides, columns = self._sides[self._left], [self.rows[field][self._left] for field in fields]
        order = np.lexsort([sides, *columns])  # stable: equal rows keep their order
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
        paired: _Rows = self._left[np.stack([order[olds[first]], order[news[second]]], axis=1)]
        self._left = np.setdiff1d(self._left, paired, assume_unique=True)
        return paired

    def look_at_ambiguous(self) -> None:
        """Digest the values of unpaired records whose name is on both sides and twice on one.

        Records with equal values may differ in bytes, because the order of features is arbitrary.
        """
        names, sides = self.rows["name"][self._left], self._sides[self._left]
        counted = [np.unique(names[sides == side], return_counts=True) for side in (0, 1)]
        twice = np.concatenate([name[count > 1] for name, count in counted])
        shared = np.intersect1d(counted[0][0], counted[1][0])
        for row in self._left[np.isin(names, np.intersect1d(shared, twice))]:
            split, number = self._splits[self.rows["split"][row]], int(self.rows["number"][row])
            ((_, _, record),) = self._readers[self._sides[row]].payloads(split, [number])
            self.rows["length"][row], self.rows["crc"][row] = -_content_of(record), 0

    def in_order(self, pairs: _Rows) -> _Rows:
        """Return pairs in the order of the second dataset, or of the first for removed records."""
        rows = self.rows[np.where(pairs[:, 1] < 0, pairs[:, 0], pairs[:, 1])]
        order = np.lexsort([rows["number"], rows["split"]])
        ordered: _Rows = pairs[order]
        return ordered

    def change(self, kind: str, pair: _Rows, features: Sequence[str] = ()) -> Change:
        """Return a pair as a change, without the name of the record."""
        before, after = (
            None
            if row < 0
            else Place(self._splits[self.rows["split"][row]], int(self.rows["number"][row]))
            for row in pair
        )
        return Change(kind=kind, name="", before=before, after=after, features=tuple(features))

    def feature_sums(self, side: int, rows: _Rows) -> dict[int, dict[str, bytes]]:
        """Return a digest of each feature of records on one side, by row."""
        sums_by_record = {}
        for split, name in enumerate(self._splits):
            mine = rows[self.rows["split"][rows] == split]
            by_number = {int(self.rows["number"][row]): int(row) for row in mine}
            for number, _, record in (
                self._readers[side].payloads(name, sorted(by_number)) if by_number else ()
            ):
                values = decode_example(record)
                sums_by_record[by_number[number]] = {n: _sum_of(sums) for n, sums in values.items()}
        return sums_by_record

    def named(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes with names, read from the second dataset if it has the record."""
        wanted: dict[tuple[int, str], dict[int, str]] = {}
        places = [
            (0, change.before) if change.after is None else (1, change.after) for change in changes
        ]
        for side, place in places:
            assert place is not None
            wanted.setdefault((side, place.split), {})[place.number] = ""
        for (side, split), names in wanted.items():
            for example in self._readers[side].read(split, sorted(names)):
                names[example.number] = example.name
        return [
            dataclasses.replace(change, name=wanted[side, place.split][place.number])
            for change, (side, place) in zip(changes, places, strict=True)
            if place is not None
        ]


def _read_digests(
    reader: ExampleReader, splits: Sequence[str], advance: Callable[[int], None]
) -> _Digests:
    """Return the CRC of the name, the length, the CRC and the place of each record."""
    digests_of_shards = [np.zeros(0, _DIGEST)]
    for split in reader.splits:
        for first, shard in reader.shards(split):
            index: Any = index_with_checksums(shard)
            digests = np.zeros(len(index), _DIGEST)
            digests["name"], digests["length"] = index.name_crcs, index.lengths
            digests["crc"] = index.payload_crcs
            rows = np.flatnonzero(index.name_crcs == 0)
            found_there = reader.payloads(split, (first + rows).tolist())
            digests["length"][rows] = digests["crc"][rows] = 0
            digests["name"][rows] = [_content_of(record) for _, _, record in found_there]
            digests["split"] = splits.index(split)
            digests["number"] = np.arange(first, first + len(digests))
            digests_of_shards.append(digests)
            advance(len(digests))
    return np.concatenate(digests_of_shards)


def _content_of(record: bytes) -> int:
    """Return a negative digest of a record's values, independent of the order of features."""
    values = decode_example(record)
    parts = (part for name in sorted(values) for part in (name, *values[name]))
    return -int.from_bytes(_sum_of([*parts])[:7], "little") - 1  # CRCs of names are positive


def _sum_of(values: Sequence[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        part = value if isinstance(value, memoryview) else repr(value).encode()
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
