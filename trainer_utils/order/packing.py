"""Pack documents of tokens into rows of one length, by index. No document is rewritten.

index = PackIndex(lengths, PackOptions(length=4096, strategy="best_fit", eos=2))
index.pieces(np.array([17]))       # the documents, first tokens and token counts of row 17
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.settings import (
    NumberRule,
    Settings,
    documents_settings,
    one_of,
    setting,
    text,
)
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions

STRATEGIES = ("concat", "best_fit", "one_document")

PACK_FEATURES = ("tokens", "targets", "segment_ids", "positions", "loss_mask")
"""The features of a batch of packs, each of shape `(batch, length)`."""

MAX_TOKEN = 2**31 - 1
"""The largest token: tokens of a batch are int32."""

_WINDOW_PACKS = 1024  # packs that best_fit fills together; about 0.1% of their space stays empty
# The minimum of tokens and the maximum of documents that one numpy step lays out.
_WINDOW_TOKENS, _WINDOW_DOCUMENTS = 1 << 22, 1 << 17

Numbers = npt.NDArray[np.int64]


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class PackOptions(Settings):
    """The settings of packing documents of tokens into rows of one length."""

    length: int = setting(2048, NumberRule(2, 2**31 - 1), "number of tokens in a row.")
    strategy: str = setting(
        "concat",
        one_of(*STRATEGIES),
        '`"concat"`: concatenate the documents and cut them where a row is full; only the last row '
        'is padded. `"best_fit"`: cut only documents longer than a row, and place the pieces where '
        "they fit best, among neighbouring documents of some thousand rows. "
        '`"one_document"`: each row has one document, or a part of one.',
    )
    eos: int | None = setting(
        None, NumberRule(0, MAX_TOKEN), "token to append to every document. None: no token."
    )
    feature: str = setting("tokens", text, "the feature that holds the tokens.")


class Pieces(NamedTuple):
    """Pieces of documents that fill rows from the left.

    Attributes:
        rows: `(pieces,) int64`, ascending: the row of each piece.
        records: `(pieces,) int64`: the index of its document among all records.
        offsets, lengths: `(pieces,) int64`: its first token in the document, and its token count.
    """

    rows: Numbers
    records: Numbers
    offsets: Numbers
    lengths: Numbers


class DocumentPart(NamedTuple):
    """A part of a document: the record, its first token, and its number of tokens."""

    record: RecordName
    offset: int
    length: int


class PackIndex:
    """The packs of documents, at 12 bytes of memory per piece.

    Args:
        lengths: `(documents,)`, the token count of each document.
        options: the settings of packing.
        ranges: the ranges of files that hold the documents, to name them.

    Attributes:
        num_tokens: the tokens of all packs, including the `eos` tokens.
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
        """Pickle the arguments: another process rebuilds the index."""
        return PackIndex, (self.lengths, self.options, self._ranges)

    @property
    def num_packs(self) -> int:
        """Number of rows."""
        return len(self._starts) - 1

    @property
    def num_pieces(self) -> int:
        """Number of pieces of documents in all rows."""
        return int(self._starts[-1])

    @property
    def padding(self) -> float:
        """Fraction of all rows that is padding."""
        return 1 - self.num_tokens / max(self.num_packs * self.options.length, 1)

    def pieces(self, packs: Numbers) -> Pieces:
        """Return the pieces of packs, row by row."""
        begins, ends = self._starts[packs], self._starts[packs + 1]
        counts = ends - begins
        rows = np.repeat(np.arange(len(packs)), counts)
        places = np.arange(counts.sum()) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        columns = (array[places].astype(np.int64) for array in self._arrays)
        return Pieces(rows, *columns)

    def documents(self, pack: int) -> list[DocumentPart]:
        """Return the parts of documents in a pack, from its first token to its last."""
        _, records, offsets, lengths = self.pieces(np.array([pack]))
        names = self._files.locate(records)
        parts = zip(names, offsets.tolist(), lengths.tolist(), strict=True)
        return [DocumentPart(*part) for part in parts]

    def packs_of(self, record: RecordName) -> list[int]:
        """Return the packs that contain a part of a document, in ascending order."""
        places = self._files.positions_of(record)
        pieces = np.flatnonzero(np.isin(self._arrays[0], places))
        packs = np.searchsorted(self._starts, pieces, side="right") - 1
        return sorted({*packs.tolist()})


def _windows(
    lengths: npt.NDArray[np.integer[Any]], options: PackOptions
) -> Iterator[tuple[int, Numbers]]:
    """Yield runs of documents that are laid out together: the first index, and all sizes."""
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
    """Lay out documents one after the other.

    Returns:
        Record, offset and length of each piece, and whether it opens a pack.
    """
    ends = np.cumsum(sizes) + before
    starts = ends - sizes
    counts = np.where(sizes > 0, (ends - 1) // length - starts // length + 1, 0)
    records = np.repeat(np.arange(len(sizes)), counts)
    packs = starts[records] // length + _numbers_within(counts)
    begins = np.maximum(starts[records], packs * length)
    stops = np.minimum(ends[records], (packs + 1) * length)
    return records, begins - starts[records], stops - begins, begins % length == 0


def _one_document(sizes: Numbers, length: int, before: int) -> _Layout:
    """Lay out each document by itself, in as many packs as it needs."""
    counts = -(-sizes // length)
    records = np.repeat(np.arange(len(sizes)), counts)
    offsets = _numbers_within(counts) * length
    return records, offsets, np.minimum(sizes[records] - offsets, length), offsets >= 0


def _best_fit(sizes: Numbers, length: int, before: int) -> _Layout:
    """Fill whole packs from long documents, then put each rest into the fullest pack it fits in.

    Packs are in the order of their first documents, and documents keep their order within a pack.
    """
    full, rest = np.divmod(sizes, length)
    whole = np.repeat(np.arange(len(sizes)), full)
    short = np.flatnonzero(rest)
    short = short[np.argsort(-rest[short], kind="stable")]
    records = np.concatenate([whole, short])
    offsets = np.concatenate([_numbers_within(full), full[short]]) * length
    counts = np.concatenate([np.full(len(whole), length), rest[short]])
    packs = np.concatenate(
        [np.arange(len(whole)), _best_fit_decreasing(rest[short], length) + len(whole)]
    )
    firsts = np.full(int(packs.max(initial=-1)) + 1, len(sizes))
    np.minimum.at(firsts, packs, records)
    places = np.empty(len(firsts), np.int64)
    places[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    packs = places[packs]
    order = np.lexsort((records, packs))
    opens = np.diff(packs[order], prepend=-1) > 0
    return records[order], offsets[order], counts[order], opens


def _best_fit_decreasing(sizes: Numbers, length: int) -> Numbers:
    """Return a bin for each of the descending sizes: the fullest bin that still has the space.

    Bins with the same space are interchangeable, so all items of a size are placed in a few steps:
    the work grows with the number of distinct sizes, not of items.

    Source: D. S. Johnson, "Near-optimal bin packing algorithms", 1973 (best fit decreasing).
    """
    chosen = np.empty(len(sizes), np.int64)
    bins, place = _Bins(length), 0
    distinct, counts = np.unique(sizes, return_counts=True)
    for size, left in zip(distinct[::-1].tolist(), counts[::-1].tolist(), strict=True):
        while left:
            space = bins.least_space(size)
            items_per_bin = space // size
            taken = bins.take(space, -(-left // items_per_bin))
            items = min(len(taken) * items_per_bin, left)
            chosen[place : place + items] = np.repeat(taken, items_per_bin)[:items]
            items_in_last = items - (len(taken) - 1) * items_per_bin
            bins.put_back(taken[:-1], space - items_per_bin * size)
            bins.put_back(taken[-1:], space - items_in_last * size)
            place, left = place + items, left - items
    return chosen


class _Bins:
    """Bins by their free space.

    Args:
        length: the free space of a new bin.
    """

    def __init__(self, length: int) -> None:
        self._length, self._num_opened = length, 0
        self._by_space: dict[int, list[Numbers]] = {}
        self._spaces = 0  # bit n is set if a bin has n free

    def least_space(self, size: int) -> int:
        """Return the least free space of a bin that has at least `size`, perhaps a new one."""
        fitting = self._spaces >> size
        return size + (fitting & -fitting).bit_length() - 1 if fitting else self._length

    def take(self, space: int, count: int) -> Numbers:
        """Take at least one and at most `count` bins with this free space; open new ones if needed.

        Only new bins have all of their space, since `put_back` gets bins that something is in.
        """
        if not self._spaces >> space & 1:
            self._num_opened += count
            return np.arange(self._num_opened - count, self._num_opened)
        groups = self._by_space[space]
        bins = groups.pop()
        if len(bins) > count:
            groups.append(bins[count:])
        elif not groups:
            self._spaces &= ~(1 << space)
        return bins[:count]

    def put_back(self, bins: Numbers, space: int) -> None:
        """Put back bins that have this free space now; full ones are not needed any more."""
        if len(bins) and space:
            self._by_space.setdefault(space, []).append(bins)
            self._spaces |= 1 << space


def _numbers_within(counts: Numbers) -> Numbers:
    """Return each element's index within its group, for consecutive groups of these sizes."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


_LAYOUTS: Mapping[str, Callable[[Numbers, int, int], _Layout]] = dict(
    zip(STRATEGIES, (_concat, _best_fit, _one_document), strict=True)
)
