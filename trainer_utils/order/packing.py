"""Packs: documents of tokens in rows of one length, by index. No document is written anew.

index = PackIndex(lengths, PackOptions(length=4096, strategy="best_fit", eos=2))
index.pieces(np.array([17]))       # which documents, from which token on, how many tokens
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format.settings import (
    Settings,
    documents_settings,
    number,
    one_of,
    setting,
    text,
)
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions

STRATEGIES = ("concat", "best_fit", "one_document")

PACK_FEATURES = ("tokens", "targets", "segment_ids", "positions", "loss_mask")
"""What a batch of packs has, each `(batch, length)`."""

MOST_TOKEN = 2**31 - 1
"""Tokens of a batch are int32."""

_WINDOW_PACKS = 1024  # that best_fit fills together: what is left over is some 0.1% of them
_WINDOW_TOKENS, _WINDOW_DOCUMENTS = 1 << 22, 1 << 17  # of a step of numpy, at least and at most

Numbers = npt.NDArray[np.int64]


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class PackOptions(Settings):
    """How documents of tokens fill rows of one length."""

    length: int = setting(2048, number(2, 2**31 - 1), "tokens of a row.")
    strategy: str = setting(
        "concat",
        one_of(*STRATEGIES),
        '`"concat"`: one document after the other, cut where a row is full; only the last row is '
        'padded. `"best_fit"`: a document is cut only where it is longer than a row; what is left '
        "goes where it fits best, among neighbouring documents of some thousand rows. "
        '`"one_document"`: each row has one document, or a part of one.',
    )
    eos: int | None = setting(
        None, number(0, MOST_TOKEN), "a token that is put after every document. None: none is."
    )
    feature: str = setting("tokens", text, "the feature that holds the tokens.")


class Pieces(NamedTuple):
    """Neighbouring tokens of documents, which fill rows from the left.

    Attributes:
        rows: `(pieces,) int64`, rising: which row each is in.
        records: `(pieces,) int64`: the document, as its place among all records.
        offsets, lengths: `(pieces,) int64`: its first token there, and how many they are.
    """

    rows: Numbers
    records: Numbers
    offsets: Numbers
    lengths: Numbers


class DocumentPart(NamedTuple):
    """A part of a document: the record, its first token there, and how many tokens it is."""

    record: RecordName
    offset: int
    length: int


class PackIndex:
    """The packs of some documents, of so many tokens each, in 12 bytes of memory for each piece.

    `ranges` are the parts of files that hold the documents, to name them by; `num_tokens` are those
    of all packs, with what `eos` adds.
    """

    def __init__(
        self,
        lengths: npt.NDArray[np.integer[Any]],
        options: PackOptions,
        ranges: Sequence[FileRange] = (),
    ) -> None:
        self.lengths, self.options, self._ranges = lengths, options, ranges
        self._files = RecordPositions(ranges)
        lay_out, length = _LAYOUTS[options.strategy], options.length
        number_type = np.uint32 if len(lengths) < 1 << 32 else np.int64
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        before = 0  # tokens
        for first, sizes in _windows(lengths, options):
            records, offsets, counts, opens = lay_out(sizes, length, before)
            numbers = (offsets.astype(np.uint32), counts.astype(np.uint32))
            parts.append(((records + first).astype(number_type), *numbers, opens))
            before += int(sizes.sum())
        self.num_tokens = before
        nothing = np.zeros(0, number_type)
        *self._arrays, opened = map(np.concatenate, zip(*(parts or [(nothing,) * 4]), strict=True))
        self._starts = np.append(np.flatnonzero(opened), len(opened))

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which makes it anew."""
        return PackIndex, (self.lengths, self.options, self._ranges)

    @property
    def num_packs(self) -> int:
        """How many rows there are."""
        return len(self._starts) - 1

    @property
    def padding(self) -> float:
        """The share of all rows that holds no token."""
        return 1 - self.num_tokens / max(self.num_packs * self.options.length, 1)

    def pieces(self, packs: Numbers) -> Pieces:
        """What some packs hold, row by row."""
        begins, ends = self._starts[packs], self._starts[packs + 1]
        counts = ends - begins
        rows = np.repeat(np.arange(len(packs)), counts)
        places = np.arange(counts.sum()) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        found = (one[places].astype(np.int64) for one in self._arrays)
        return Pieces(rows, *found)

    def documents(self, pack: int) -> list[DocumentPart]:
        """What a pack holds, from its first token to its last."""
        _, records, offsets, lengths = self.pieces(np.array([pack]))
        names = self._files.locate(records)
        parts = zip(names, offsets.tolist(), lengths.tolist(), strict=True)
        return [DocumentPart(*part) for part in parts]

    def packs_of(self, record: RecordName) -> list[int]:
        """The packs that hold some of a document, in rising order."""
        places = self._files.positions_of(record)
        pieces = np.flatnonzero(np.isin(self._arrays[0], places))
        found = np.searchsorted(self._starts, pieces, side="right") - 1
        return sorted({*found.tolist()})


def _windows(
    lengths: npt.NDArray[np.integer[Any]], options: PackOptions
) -> Iterator[tuple[int, Numbers]]:
    """Neighbouring documents that are laid out together: the first one, and the sizes of all."""
    tokens = max(_WINDOW_PACKS * options.length, _WINDOW_TOKENS)
    first = 0
    while first < len(lengths):
        sizes = lengths[first : first + _WINDOW_DOCUMENTS].astype(np.int64)
        sizes += options.eos is not None
        sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), tokens)) + 1]
        yield first, sizes
        first += len(sizes)


_Layout = tuple[Numbers, Numbers, Numbers, npt.NDArray[np.bool_]]


def _concat(sizes: Numbers, length: int, before: int) -> _Layout:
    """Documents one after the other: record, offset, length of pieces, and which open a pack."""
    ends = np.cumsum(sizes) + before
    starts = ends - sizes
    counts = np.where(sizes > 0, (ends - 1) // length - starts // length + 1, 0)
    records = np.repeat(np.arange(len(sizes)), counts)
    packs = starts[records] // length + _numbers_within(counts)
    begins = np.maximum(starts[records], packs * length)
    stops = np.minimum(ends[records], (packs + 1) * length)
    return records, begins - starts[records], stops - begins, begins % length == 0


def _one_document(sizes: Numbers, length: int, before: int) -> _Layout:
    """Each document by itself, in as many packs as it takes."""
    counts = -(-sizes // length)
    records = np.repeat(np.arange(len(sizes)), counts)
    offsets = _numbers_within(counts) * length
    return records, offsets, np.minimum(sizes[records] - offsets, length), offsets >= 0


def _best_fit(sizes: Numbers, length: int, before: int) -> _Layout:
    """Full packs of long documents; what is left of each in the fullest pack that has room.

    Packs come in the order of their first documents, and documents in their order within a pack.
    """
    full, rest = np.divmod(sizes, length)
    whole = np.repeat(np.arange(len(sizes)), full)
    short = np.flatnonzero(rest)
    short = short[np.argsort(-rest[short], kind="stable")]
    records = np.concatenate([whole, short])
    offsets = np.concatenate([_numbers_within(full), full[short]]) * length
    counts = np.concatenate([np.full(len(whole), length), rest[short]])
    packs = np.concatenate([np.arange(len(whole)), _fit(rest[short], length) + len(whole)])
    firsts = np.full(int(packs.max(initial=-1)) + 1, len(sizes))
    np.minimum.at(firsts, packs, records)
    places = np.empty(len(firsts), np.int64)
    places[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    packs = places[packs]
    order = np.lexsort((records, packs))
    opens = np.diff(packs[order], prepend=-1) > 0
    return records[order], offsets[order], counts[order], opens


def _fit(sizes: Numbers, length: int) -> Numbers:
    """The bin that each of falling sizes goes to: that with the least room which is enough.

    Bins with the same room are alike, so that all items of a size are placed in a few steps: the
    work grows with the number of different sizes, not with that of items.

    Source: D. S. Johnson, "Near-optimal bin packing algorithms", 1973 (best fit decreasing).
    """
    bins = np.empty(len(sizes), np.int64)
    free: dict[int, list[Numbers]] = {}  # bins by their room
    rooms = 0  # the bit of each room that some bin has
    opened = place = 0
    distinct, numbers = np.unique(sizes, return_counts=True)
    for size, left in zip(distinct[::-1].tolist(), numbers[::-1].tolist(), strict=True):
        while left:
            fitting = rooms >> size
            room = size + (fitting & -fitting).bit_length() - 1 if fitting else length
            each = room // size
            wanted = -(-left // each)
            if fitting:
                some = free[room].pop()
                if len(some) > wanted:
                    free[room].append(some[wanted:])
                elif not free[room]:
                    rooms &= ~(1 << room)
            else:
                some = np.arange(opened, opened + wanted)
                opened += wanted
            some = some[:wanted]
            items = min(len(some) * each, left)
            bins[place : place + items] = np.repeat(some, each)[:items]
            last = items - (len(some) - 1) * each  # in the last of these bins
            for others, taken in ((some[:-1], each), (some[-1:], last)):
                if len(others) and (now := room - taken * size):
                    free.setdefault(now, []).append(others)
                    rooms |= 1 << now
            place, left = place + items, left - items
    return bins


def _numbers_within(counts: Numbers) -> Numbers:
    """0, 1, … for each of some groups of so many."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


_LAYOUTS: Mapping[str, Callable[[Numbers, int, int], _Layout]] = dict(
    zip(STRATEGIES, (_concat, _best_fit, _one_document), strict=True)
)
