"""Give each split its share of each class of rows, in workers and without holding the rows.

    stratify_rows(folder, decisions, ASSIGNED, pieces, assigned, map_pieces=map_pieces)

A class is divided by rank: its rows are ordered by their hashes, and each split gets a range of
ranks. Only the rows at the bounds of these ranges have to be found. Hashes are uniform, so the hash
of a bound is known to within a small window, and only the rows in the windows are collected:

1. Count the rows of each class.
2. Count the rows of each class below each window, and collect the rows in it. Their order gives the
   bound. A window that misses its bound is widened.
3. Compare each row with the bounds of its class.

The launcher holds some numbers for each class and the collected rows: for a class of n rows, about
12 times the square root of n at each bound. If there are many classes, they are divided into
groups, so that at most one of 64 rows is held at a time.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.example_gen.row_pieces import read_columns
from components.example_gen.row_split_files import (
    STRATIFIED,
    count_splits,
    read_splits,
    write_splits,
)
from components.example_gen.row_splits import (
    Hashes,
    PieceAssignment,
    PieceToAssign,
    SplitDecisions,
    cast_or_null,
    hash_rows,
)
from components.example_gen.split_rules import EXCLUDED, Numbers
from components.runtime.tasks import Result

_MAX_HELD_ROWS, _MAX_HELD_SHARE = 1 << 22, 1 / 64  # rows in windows, each of 20 bytes
_MARGIN = 6.0  # half of a window, in standard deviations: one of 1e9 windows misses its bound
_WIDENED = 8.0  # factor after a miss
_ALL_HASHES = 2**64
_POSITION_BITS = 40  # of a row within its piece

Ints = npt.NDArray[np.int64]
_Words = Sequence[str | None]


class PieceMapper(Protocol):
    """Calls a function with groups of neighbouring pieces, and returns the results in order."""

    def __call__(
        self,
        step: str,
        function: Callable[[Sequence[PieceToAssign]], Result],
        pieces: Sequence[PieceToAssign],
    ) -> list[Result]:
        """Return the result for each group. `step` names the results in the working folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsToStratify:
    """The files of the rows, and the decisions about them."""

    folder: str  # the working folder
    decisions: SplitDecisions
    kind: str  # the folder of the splits to read

    def read(self, piece: PieceToAssign) -> tuple[Numbers, pa.DictionaryArray, Hashes]:
        """Return the split, the class and the hash of each row of a piece."""
        label = self.decisions.label
        assert label is not None
        columns, records = read_columns(self.folder, piece.number, [label.name])
        values = cast_or_null(columns, label, len(records)).cast(pa.string())
        splits = read_splits(self.folder, self.kind, piece.number)
        hashes = hash_rows(self.decisions.seed, piece, records)
        return splits, values.dictionary_encode(null_encoding="encode"), hashes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The hashes between which bounds are searched, for some classes."""

    words: _Words  # the classes, None for rows without a label
    lows: Hashes  # `(classes, bounds)`, the first hash of each window
    highs: Hashes  # `(classes, bounds)`, the last hash; below the first: the window is empty


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """The first row of each split but the first, by class: its hash and its position."""

    words: _Words
    hashes: Hashes  # `(classes, bounds)`
    positions: Ints  # `(classes, bounds)`; -1: before every row of that hash


# Below windows: `(classes, bounds)` counts. In windows: slot (class * bounds + bound), hash and
# position of each row.
_Collected = tuple[Ints, npt.NDArray[np.int32], Hashes, Ints]


def stratify_rows(
    folder: str,
    decisions: SplitDecisions,
    kind: str,
    pieces: Sequence[PieceToAssign],
    assigned: Sequence[PieceAssignment],
    *,
    map_pieces: PieceMapper,
) -> None:
    """Give each split its share of each class, and write the splits as `STRATIFIED`.

    Args:
        folder: the working folder.
        decisions: the decisions about splits.
        kind: the splits to read.
        pieces: the pieces.
        assigned: the assignments, which are updated.
        map_pieces: calls a function with groups of pieces, in workers.
    """
    rows = RowsToStratify(folder=folder, decisions=decisions, kind=kind)
    pieces = [dataclasses.replace(piece, bad=(), skipped=()) for piece in pieces]
    sizes = collections.Counter[str | None]()
    for counts in map_pieces("classes", functools.partial(count_classes, rows), pieces):
        sizes.update(counts)
    bounds = _find_bounds(rows, sizes, pieces, map_pieces)
    counts_of = map_pieces("stratify", functools.partial(apply_bounds, rows, bounds), pieces)
    counts_of_pieces = (counts for group in counts_of for counts in group)
    for assignment, of_splits in zip(assigned, counts_of_pieces, strict=True):
        assignment.counts = of_splits


def count_classes(
    rows: RowsToStratify, pieces: Sequence[PieceToAssign]
) -> collections.Counter[str | None]:
    """Return the number of rows of each class in some pieces."""
    sizes = collections.Counter[str | None]()
    for piece in pieces:
        splits, encoded, _ = rows.read(piece)
        codes = encoded.indices.to_numpy()[splits != EXCLUDED]
        words = encoded.dictionary.to_pylist()
        counts = np.bincount(codes, minlength=len(words)).tolist()
        sizes.update({word: n for word, n in zip(words, counts, strict=True) if n})
    return sizes


def collect_windows(
    rows: RowsToStratify, windows: Windows, pieces: Sequence[PieceToAssign]
) -> _Collected:
    """Count the rows below each window, and collect the rows in it."""
    num_classes, num_bounds = windows.lows.shape
    below = np.zeros((num_classes, num_bounds), np.int64)
    slots, hashes, positions = list[Ints](), list[Hashes](), list[Ints]()
    numbers = {word: number for number, word in enumerate(windows.words)}
    for piece in pieces:
        classes, hashes_of_rows, positions_of_rows = _rows_of_classes(rows, numbers, piece)
        for bound in range(num_bounds):
            lows, highs = windows.lows[classes, bound], windows.highs[classes, bound]
            is_below = hashes_of_rows < lows
            below[:, bound] += np.bincount(classes[is_below], minlength=num_classes)
            is_inside = ~is_below & (hashes_of_rows <= highs)
            slots.append(classes[is_inside] * num_bounds + bound)
            hashes.append(hashes_of_rows[is_inside])
            positions.append(positions_of_rows[is_inside])
    return (
        below,
        np.concatenate([np.zeros(0, np.int64), *slots]).astype(np.int32),
        np.concatenate([np.zeros(0, np.uint64), *hashes]),
        np.concatenate([np.zeros(0, np.int64), *positions]),
    )


def apply_bounds(
    rows: RowsToStratify, bounds: Bounds, pieces: Sequence[PieceToAssign]
) -> list[list[int]]:
    """Write the split of each row of some pieces, and return the rows of each split by piece."""
    rules, counts = rows.decisions.rules, []
    numbers = {word: number for number, word in enumerate(bounds.words)}
    for piece in pieces:
        splits = read_splits(rows.folder, rows.kind, piece.number)
        classes, hashes, positions = _rows_of_classes(rows, numbers, piece)
        shares = np.zeros(len(classes), np.int64)
        for bound in range(bounds.hashes.shape[1]):
            first, position = bounds.hashes[classes, bound], bounds.positions[classes, bound]
            shares += (hashes > first) | ((hashes == first) & (positions >= position))
        splits[splits != EXCLUDED] = rules.splits_of_shares(shares)
        write_splits(rows.folder, STRATIFIED, piece.number, splits)
        counts.append(count_splits(splits, len(rules.splits)))
    return counts


def _rows_of_classes(
    rows: RowsToStratify, numbers: dict[str | None, int], piece: PieceToAssign
) -> tuple[Ints, Hashes, Ints]:
    """Return the class, the hash and the position of each row that is in one of some classes."""
    splits, encoded, hashes = rows.read(piece)
    number_of = [numbers.get(word, -1) for word in encoded.dictionary.to_pylist()]
    classes = np.array([*number_of, -1], np.int64)[encoded.indices.to_numpy()]
    chosen = np.flatnonzero((classes >= 0) & (splits != EXCLUDED))
    return classes[chosen], hashes[chosen], chosen + (piece.number << _POSITION_BITS)


# Bounds ------------------------------------------------------------------------------------------


def _find_bounds(
    rows: RowsToStratify,
    sizes: collections.Counter[str | None],
    pieces: Sequence[PieceToAssign],
    map_pieces: PieceMapper,
) -> Bounds:
    """Find the bounds of all classes, some classes at a time."""
    rules = rows.decisions.rules
    words = [*sizes]
    counts = np.array([sizes[word] for word in words], np.int64)
    ranks = np.array(
        [rules.first_ranks(sizes[word], key=(word or "").encode()) for word in words], np.int64
    ).reshape(len(words), len(rules.hashed.ends) - 1)
    # Ranks of 0 and of all rows are no row's: every row is at or above, or below such a bound.
    hashes = np.where(ranks == 0, np.uint64(0), np.uint64(_ALL_HASHES - 1))
    positions = np.where(ranks == 0, -1, np.iinfo(np.int64).max)
    margin, step = _MARGIN, 0
    is_open = ((ranks > 0) & (ranks < counts[:, None])).any(axis=1)
    while is_open.any():
        missed = np.zeros(len(words), np.bool_)
        for group in _groups(np.flatnonzero(is_open), counts, ranks, margin):
            windows = _windows(words, counts, ranks, group, margin)
            collect = functools.partial(collect_windows, rows, windows)
            merged = _merge(map_pieces(f"windows-{step}", collect, pieces), ranks[group])
            step += 1
            is_known = (merged[1] >= 0) & (windows.lows <= windows.highs)
            hashes[group] = np.where(is_known, merged[0], hashes[group])
            positions[group] = np.where(is_known, merged[1], positions[group])
            missed[group] = ((merged[1] < 0) & (windows.lows <= windows.highs)).any(axis=1)
        is_open, margin = missed, margin * _WIDENED
    return Bounds(words=words, hashes=hashes, positions=positions)


def _half_widths(counts: Ints, ranks: Ints, margin: float) -> npt.NDArray[np.float64]:
    """Return half the width of each window, as a share of all hashes.

    The rank of a hash is binomial: its standard deviation is sqrt(n p (1 - p)). The second term
    covers the skew of small classes.
    """
    shares = ranks / counts[:, None]
    deviations = np.sqrt(shares * (1 - shares) / counts[:, None])
    widths: npt.NDArray[np.float64] = margin * deviations + 2 * margin / counts[:, None]
    return widths


def _windows(words: _Words, counts: Ints, ranks: Ints, group: Ints, margin: float) -> Windows:
    """Return the windows of a group of classes. A bound that is no row has an empty one."""
    counts, ranks = counts[group], ranks[group]
    shares, widths = ranks / counts[:, None], _half_widths(counts, ranks, margin)
    lows, highs = _hashes_at(shares - widths), _hashes_at(shares + widths)
    is_row = (ranks > 0) & (ranks < counts[:, None])
    return Windows(
        words=[words[number] for number in group.tolist()],
        lows=np.where(is_row, lows, np.uint64(1)),
        highs=np.where(is_row, highs, np.uint64(0)),
    )


def _hashes_at(shares: npt.NDArray[np.float64]) -> Hashes:
    """Return the hash at each share of all hashes; the first or last outside of 0 to 1."""
    is_last = shares >= 1
    inside = np.clip(np.where(is_last, 0, shares), 0, None) * float(_ALL_HASHES)
    return np.where(is_last, np.uint64(_ALL_HASHES - 1), inside.astype(np.uint64))


def _groups(classes: Ints, counts: Ints, ranks: Ints, margin: float) -> Iterator[Ints]:
    """Yield groups of classes whose windows are held together."""
    max_rows = max(_MAX_HELD_ROWS, int(counts.sum() * _MAX_HELD_SHARE))
    of_class = counts[classes, None]
    widths = np.minimum(2 * _half_widths(counts[classes], ranks[classes], margin), 1)
    held = np.cumsum((widths * of_class).sum(axis=1))
    start = 0
    while start < len(classes):
        before = held[start - 1] if start else 0.0
        stop = max(start + 1, int(np.searchsorted(held, before + max_rows, side="right")))
        yield classes[start:stop]
        start = stop


def _merge(collected: Sequence[_Collected], ranks: Ints) -> tuple[Hashes, Ints]:
    """Return the hash and the position at each rank; a position of -1: outside of the window."""
    below = sum((part[0] for part in collected), np.zeros(ranks.shape, np.int64)).ravel()
    slots, hashes, positions = (
        np.concatenate([part[1] for part in collected]),
        np.concatenate([part[2] for part in collected]),
        np.concatenate([part[3] for part in collected]),
    )
    order = np.lexsort((positions, hashes, slots))
    starts = np.searchsorted(slots[order], np.arange(len(below) + 1))
    places = starts[:-1] + ranks.ravel() - below
    is_inside = (places >= starts[:-1]) & (places < starts[1:])
    chosen = order[places[is_inside]]
    merged = np.zeros(len(below), np.uint64), np.full(len(below), -1, np.int64)
    merged[0][is_inside], merged[1][is_inside] = hashes[chosen], positions[chosen]
    return merged[0].reshape(ranks.shape), merged[1].reshape(ranks.shape)
