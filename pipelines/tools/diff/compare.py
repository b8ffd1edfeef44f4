"""Compares two datasets: which records were added, removed, changed, or moved to another split.

difference = compare_datasets("datasets/4", "datasets/5", most=100)
difference.changes[0].name, difference.changes[0].features

Records are the same where their names are (`record_id`, `filename` or `id`); those without a name,
where their content is. Their content is the same where fold and CRC-32C are, 96 bits, which
datasets of ours have in `index/`, so that no shard is read; only where these differ values are
compared. Records of one name are paired in order, equal ones first.
"""

import collections
import dataclasses
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.tools.diff.digests import (
    Digests,
    content_at,
    feature_sums,
    read_digests,
    spill_digests,
)
from pipelines.tools.records import ExampleReader
from trainer_utils.dataset import ShardFile
from trainer_utils.format.json_text import JsonObject
from trainer_utils.text_output import Part, Shown, make_table

__all__ = ["KINDS", "Change", "Difference", "Place", "compare_datasets"]

KINDS = ("added", "removed", "changed", "moved")
_BUCKET_RECORDS = 1 << 18  # of both datasets, that are held at a time
_LOOKED_UP_AT_ONCE = 1 << 15  # changed records, in the order in which they lie
_CONTENT = ("fold", "crc")


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
    records = sum(reader.count(split) for reader in readers for split in reader.splits)
    buckets = records // _BUCKET_RECORDS + 1
    found = _Found(readers, splits, most)
    kept, kept_records = _kept_shards(readers)
    found.add_unchanged(kept_records)
    advance(2 * kept_records, records)

    def contents(side: int, row: Row) -> int:
        return content_at(readers[side], splits[row.split], row.number)

    with tempfile.TemporaryDirectory(prefix="tfx-shards-diff-") as folder:
        folders = [f"{folder}/{name}" for name in ("before", "after")]
        for reader, spilled in zip(readers, folders, strict=True):
            spill_digests(
                reader,
                splits,
                spilled,
                buckets,
                is_left_out=lambda shard, split: shard.path in kept,
                advance=lambda done: advance(done, records),
            )
        for bucket in range(buckets):
            olds, news = (read_digests(spilled, bucket) for spilled in folders)
            olds, news, same = _without_same(olds, news)
            found.add_unchanged(same)
            for pair in _pairs(olds, news, contents):
                found.add(*pair)
    return found.difference((before, after))


class Row(NamedTuple):
    """A record's digest."""

    name: bytes
    fold: int
    crc: int
    split: int
    number: int


def _kept_shards(readers: Sequence[ExampleReader]) -> tuple[set[str], int]:
    """The files that are the same in both datasets by all sums of the manifests.

    What they hold is unchanged, and need not be read: equal records of one name are paired first.

    Returns:
        Their paths in both, and the records of one side.
    """
    by_content: list[dict[object, list[ShardFile]]] = [{}, {}]
    for reader, found in zip(readers, by_content, strict=True):
        for split in reader.splits:
            for _, shard in reader.shards(split):
                if shard.entry is not None and shard.entry.content is not None:
                    entry = shard.entry
                    sums = split, entry.records, entry.bytes, entry.crc32c, entry.content
                    found.setdefault(sums, []).append(shard)
    pairs = [
        pair
        for sums, olds in by_content[0].items()
        for pair in zip(olds, by_content[1].get(sums, ()), strict=False)
    ]
    return {shard.path for pair in pairs for shard in pair}, sum(
        old.num_records for old, _ in pairs
    )


def _without_same(before: Digests, after: Digests) -> tuple[Digests, Digests, int]:
    """What is left without names that come once in each, where all is the same but the place."""
    both = np.concatenate([before, after])
    halves = np.frombuffer(both["name"].tobytes(), "<u8").reshape(-1, 2)
    order = np.argsort(halves[:, 0], kind="stable")
    low = halves[order, 0]
    is_first = np.ones(len(low), bool)
    is_first[1:] = low[1:] != low[:-1]
    starts = np.flatnonzero(is_first)
    pairs = starts[np.diff(np.append(starts, len(low))) == 2]
    old, new = order[pairs], order[pairs + 1]  # stable: of the first dataset first
    same = (old < len(before)) & (new >= len(before)) & (halves[old, 1] == halves[new, 1])
    for field in (*_CONTENT, "split"):
        same &= both[field][old] == both[field][new]
    is_left = np.ones(len(both), bool)
    is_left[old[same]] = is_left[new[same]] = False
    return before[is_left[: len(before)]], after[is_left[len(before) :]], int(same.sum())


Pair = tuple[Row | None, Row | None]
Contents = Callable[[int, Row], int]  # of a record of one side, whatever its features' order


def _pairs(before: Digests, after: Digests, contents: Contents) -> Iterator[Pair]:
    """Records of one name side by side."""
    names: dict[bytes, tuple[list[Row], list[Row]]] = {}
    for side, digests in enumerate((before, after)):
        for row in map(Row._make, digests.tolist()):
            names.setdefault(row.name, ([], []))[side].append(row)
    for olds, news in names.values():
        if len(olds) == len(news) == 1:
            yield olds[0], news[0]
        else:
            yield from _pairs_of_name(olds, news, contents)


def _pairs_of_name(olds: list[Row], news: list[Row], contents: Contents) -> Iterator[Pair]:
    """Several records of one name: those that are alike in most ways first, and else in order."""
    olds, news = yield from _matched(olds, news, (*_CONTENT, "split"))
    if olds and news:  # their bytes differ, but do their values?
        olds, news = (
            [row._replace(fold=contents(side, row), crc=0) for row in rows]
            for side, rows in enumerate((olds, news))
        )
    for same in ((*_CONTENT, "split"), _CONTENT, ("split",), ()):
        olds, news = yield from _matched(olds, news, same)
    yield from ((row, None) for row in olds)
    yield from ((None, row) for row in news)


def _matched(
    olds: list[Row], news: list[Row], same: Sequence[str]
) -> Generator[Pair, None, tuple[list[Row], list[Row]]]:
    """Pairs that are equal in some fields; returns what is left of both."""
    waiting: dict[tuple[object, ...], collections.deque[Row]] = {}
    for row in news:
        waiting.setdefault(
            tuple(getattr(row, field) for field in same), collections.deque()
        ).append(row)
    rest = []
    for row in olds:
        if candidates := waiting.get(tuple(getattr(row, field) for field in same)):
            yield row, candidates.popleft()
        else:
            rest.append(row)
    return rest, [row for rows in waiting.values() for row in rows]


class _Found:
    """Counts all changes, and keeps the first ones of each kind."""

    def __init__(self, readers: Sequence[ExampleReader], splits: Sequence[str], most: int) -> None:
        self._readers, self._splits, self._most = readers, splits, most
        self._counts = dict.fromkeys((*KINDS, "unchanged"), 0)
        self._features: collections.Counter[str] = collections.Counter()
        self._kept: dict[str, list[Change]] = {kind: [] for kind in KINDS}
        self._changed: list[tuple[Place, Place]] = []  # that are to be looked at

    def add(self, old: Row | None, new: Row | None) -> None:
        """Takes a pair in."""
        kind = _kind(old, new)
        before, after = (None if row is None else self._place(row) for row in (old, new))
        if kind == "changed":
            assert before is not None
            assert after is not None
            self._changed.append((before, after))
            if len(self._changed) >= _LOOKED_UP_AT_ONCE:
                self._look_at_changed()
        else:
            self._count(Change(kind=kind, name="", before=before, after=after))

    def _look_at_changed(self) -> None:
        """Finds out which features of changed records differ."""
        sides = [
            _feature_sums(reader, [pair[side] for pair in self._changed], self._splits)
            for side, reader in enumerate(self._readers)
        ]
        for before, after in self._changed:
            olds, news = sides[0][before], sides[1][after]
            differ = sorted(n for n in {*olds, *news} if olds.get(n) != news.get(n))
            kind = "changed"
            if not differ:  # its bytes alone: writers order features as they like
                kind = "unchanged" if before.split == after.split else "moved"
            self._features.update(differ)
            self._count(
                Change(kind=kind, name="", before=before, after=after, features=tuple(differ))
            )
        self._changed.clear()

    def _count(self, change: Change) -> None:
        self._counts[change.kind] += 1
        if change.kind == "unchanged":
            return
        kept = self._kept[change.kind]
        kept.append(change)
        if len(kept) > 2 * self._most + 100:
            self._drop_later(kept)

    def add_unchanged(self, records: int) -> None:
        """Takes in that so many are the same."""
        self._counts["unchanged"] += records

    def difference(self, uris: tuple[str, str]) -> Difference:
        """All of it, with the names of what is listed."""
        self._look_at_changed()
        for kept in self._kept.values():
            self._drop_later(kept)
        changes = [change for kept in self._kept.values() for change in kept]
        shown = [_shown(change) for change in changes]
        names = [
            _names(reader, [place for of, place in shown if of == side], self._splits)
            for side, reader in enumerate(self._readers)
        ]
        return Difference(
            uris=uris,
            counts=self._counts,
            features=dict(self._features.most_common()),
            changes=[
                dataclasses.replace(change, name=names[side][place])
                for change, (side, place) in zip(changes, shown, strict=True)
            ],
        )

    def _place(self, row: Row) -> Place:
        return Place(self._splits[row.split], row.number)

    def _drop_later(self, changes: list[Change]) -> None:
        changes.sort(key=self._order)
        del changes[self._most :]

    def _order(self, change: Change) -> tuple[int, int]:
        _, place = _shown(change)
        return self._splits.index(place.split), place.number


def _shown(change: Change) -> tuple[int, Place]:
    """The side that a change is shown of, and where it is there: the second, where it has it."""
    if change.after is not None:
        return 1, change.after
    assert change.before is not None
    return 0, change.before


def _kind(old: Row | None, new: Row | None) -> str:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    if (old.fold, old.crc) != (new.fold, new.crc):
        return "changed"
    return "unchanged" if old.split == new.split else "moved"


def _feature_sums(
    reader: ExampleReader, places: Sequence[Place], splits: Sequence[str]
) -> dict[Place, dict[str, bytes]]:
    """The sums of each feature of some records, which are read in the order that they have."""
    return {
        Place(split, number): feature_sums(record)
        for split, numbers in _numbers(places, splits)
        for number, _, record in reader.payloads(split, numbers)
    }


def _names(
    reader: ExampleReader, places: Sequence[Place], splits: Sequence[str]
) -> dict[Place, str]:
    """What some records are called, which are read as those of `_feature_sums` are."""
    return {
        Place(split, example.number): example.name
        for split, numbers in _numbers(places, splits)
        for example in reader.read(split, numbers)
    }


def _numbers(places: Sequence[Place], splits: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """The splits of some records, and the numbers of these in rising order."""
    for split in splits:
        numbers = sorted(place.number for place in places if place.split == split)
        if numbers:
            yield split, numbers
