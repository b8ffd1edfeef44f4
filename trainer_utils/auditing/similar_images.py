"""Which images are copies of one another: encoded anew, resized, cropped a little, grey, mirrored.

    sets = DisjointSets(len(thumbnails))
    unite_similar_images(thumbnails, sets)

An image is compared by an 8 x 8 grid of grey levels. So that a crop is found, every image is looked
at through windows that leave out up to a tenth of each side; so that a mirrored one is found, as
itself and reversed. Candidates share a key: 16 signs of sums over half of the grid's cells against
the other half (random hyperplanes), and the mean level, which are others in each of 20 tables; and
most of 64 further signs.
Candidates are copies where all of their cells agree, through the window that suits them best. Most
are ruled out before: a cell of one lies too far from all that the windows show there of the other.

All sums are of whole numbers below 2**53, which float64 holds exactly, so that every machine finds
the same.

Source: M. Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002.
"""

import functools
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.candidates import ComparedPairs, random_directions
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.image_sketch import THUMBNAIL_SIDE

__all__ = ["unite_similar_images"]

_GRID = 8
_CELLS = _GRID * _GRID
_TABLES, _SIGNS = 20, 16
_MOST_UNLIKE_SIGNS = 20  # of 64 others: two images that have nothing in common differ in 32
_LEVEL_STEP = 40  # grey levels that one key spans: a crop shifts the mean by some
_LEVELS = 16  # grid levels to one grey level
_NEIGHBOURS = 16  # of equal keys that an image is compared with
_AT_ONCE = 1 << 11  # images
_COMPARED_AT_ONCE = 1 << 8  # pairs
_MOST_AT_ONCE = 1 << 18  # images whose keys are held at a time

# Windows along one side, in tenths of a thumbnail's pixel: start and length.
_PIXEL = 10
_WHOLE = (0, THUMBNAIL_SIDE * _PIXEL)
_TENTH_LESS = [(start, 288) for start in (0, 16, 32)]
_TWENTIETH_LESS = [(start, 304) for start in (0, 8, 16)]
_WHOLE_ALONE = (_WHOLE,)
_INDEXED = (_WHOLE, *_TENTH_LESS)
_COMPARED = (_WHOLE, *_TENTH_LESS, *_TWENTIETH_LESS)
_VIEWS = len(_INDEXED) ** 2 + 1
_KEYS = np.dtype([("signs", "<u8"), ("tables", "<i4", (_TABLES,))])
# Of an image: its cells seen whole, what all windows show of each at the least and the most, and
# the mean and the standard deviation of its pixels.
_EXTENT = np.dtype(
    [
        ("whole", "<i2", (_CELLS,)),
        ("least", "<i2", (_CELLS,)),
        ("most", "<i2", (_CELLS,)),
        ("mean", "<f8"),
        ("spread", "<f8"),
    ]
)

# Copies differ by noise, and by what a window misses of the right place, which grows with contrast.
_NOISE_LEVELS = 0.7
_SHARE_OF_CONTRAST = 0.22

Thumbnails = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Grids = npt.NDArray[np.float64]
Extents = npt.NDArray[np.void]


def unite_similar_images(thumbnails: Thumbnails, sets: DisjointSets) -> None:
    """Unites images that are copies of one another.

    Some 1,900 bytes an image lie on the disk meanwhile, and some hundred in memory.

    Args:
        thumbnails: `(images, 32, 32) uint8`, as `sketch_image` makes them; may be a file's.
        sets: of the images' numbers.
    """
    if not len(thumbnails):
        return
    parts = -(-len(thumbnails) // _MOST_AT_ONCE)
    with (
        tempfile.TemporaryFile(prefix="tfx-shards-keys-") as key_file,
        tempfile.TemporaryFile(prefix="tfx-shards-extents-") as extent_file,
    ):
        keys = np.memmap(key_file, _KEYS, "w+", shape=(len(thumbnails), _VIEWS))
        extents = np.memmap(extent_file, _EXTENT, "w+", shape=(len(thumbnails),))
        for start in range(0, len(thumbnails), _AT_ONCE):
            keys[start : start + _AT_ONCE] = _keys(thumbnails[start : start + _AT_ONCE])
        for start in range(0, len(thumbnails), _COMPARED_AT_ONCE):
            some = slice(start, start + _COMPARED_AT_ONCE)
            extents[some] = _extents(thumbnails[some])
        search = _Search(thumbnails, extents, sets)
        for table in range(_TABLES):
            for part in range(parts):
                search.unite_copies(_candidates(keys, table, part, parts))
        del keys, extents


class _Search:
    """The images, what is known of each, and the sets of copies so far."""

    def __init__(self, thumbnails: Thumbnails, extents: Extents, sets: DisjointSets) -> None:
        self._thumbnails, self._extents, self._sets = thumbnails, extents, sets
        self._compared = ComparedPairs()

    def unite_copies(self, pairs: Numbers) -> None:
        """Unites those of some pairs that are copies."""
        for start in range(0, len(pairs), _AT_ONCE):
            some = self._compared.new(pairs[start : start + _AT_ONCE])
            self._compared.add(some)
            likely = _may_be_copies(self._extents[some[:, 0]], self._extents[some[:, 1]])
            for first in range(0, len(some[likely]), _COMPARED_AT_ONCE):
                self._compare(some[likely][first : first + _COMPARED_AT_ONCE])

    def _compare(self, pairs: Numbers) -> None:
        pairs = pairs[self._sets.apart(pairs)]
        one, other = self._thumbnails[pairs[:, 0]], self._thumbnails[pairs[:, 1]]
        self._sets.unite(pairs[_are_copies(one, other)])


def _candidates(keys: npt.NDArray[np.void], table: int, part: int, parts: int) -> Numbers:
    """Pairs of images that share a key of a table, of one part of all keys."""
    held: list[tuple[Numbers, npt.NDArray[np.uint64], Numbers]] = []
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        of_table = some["tables"][:, :, table].ravel().astype(np.int64)
        numbers = np.repeat(np.arange(start, start + len(some)), _VIEWS)
        # Windows of an image that have one key count once, or they would hide its neighbours.
        _, first = np.unique(numbers << 32 | of_table, return_index=True)
        first = first[of_table[first] % parts == part]
        held.append((of_table[first], some["signs"].ravel()[first], numbers[first]))
    values, signs, numbers = (np.concatenate(column) for column in zip(*held, strict=True))
    order = np.lexsort((numbers, signs, values))
    values, signs, numbers = values[order], signs[order], numbers[order]
    found = [np.empty((0, 2), np.int64)]
    for distance in range(1, min(_NEIGHBOURS, len(values) - 1) + 1):
        places = np.flatnonzero(values[:-distance] == values[distance:])
        unlike = _count_bits(signs[places] ^ signs[places + distance])
        places = places[unlike <= _MOST_UNLIKE_SIGNS]
        pairs = np.stack([numbers[places], numbers[places + distance]], axis=1)
        found.append(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1))
    return np.unique(np.concatenate(found), axis=0)


def _keys(thumbnails: Thumbnails) -> npt.NDArray[np.void]:
    """What images are found by, `(images, views)` of `_KEYS`: through windows, and mirrored."""
    grids = _grids(thumbnails, _INDEXED)
    mirrored = grids[:, 0].reshape(-1, _GRID, _GRID)[:, :, ::-1].reshape(-1, 1, _CELLS)
    seen = np.concatenate([grids, mirrored], axis=1)
    bits = seen @ _directions().T > 0
    levels = seen.sum(axis=-1).astype(np.int64) // (_CELLS * _LEVELS)
    keys = np.empty(bits.shape[:2], _KEYS)
    keys["signs"] = np.packbits(bits[:, :, -64:], axis=2).view(">u8")[:, :, 0]
    weights = 1 << np.arange(_SIGNS)
    for table in range(_TABLES):
        signs = bits[:, :, table * _SIGNS : (table + 1) * _SIGNS] @ weights
        shift = table * _LEVEL_STEP // _TABLES
        keys["tables"][:, :, table] = signs << 8 | (levels + shift) // _LEVEL_STEP
    return keys


def _count_bits(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """How many bits of each value are 1."""
    octets = values[:, np.newaxis].view(np.uint8)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1), np.int64)


@functools.cache
def _directions() -> Grids:
    return random_directions("similar images", _TABLES * _SIGNS + 64, _CELLS)


@functools.cache
def _weights(windows: tuple[tuple[int, int], ...]) -> tuple[Grids, npt.NDArray[np.int64]]:
    """How much of each of 32 pixels each cell has, `(windows * 8, 32)`; and the cells' lengths."""
    rows, lengths = [], []
    pixels = np.arange(THUMBNAIL_SIDE) * _PIXEL
    for start, length in windows:
        side = length // _GRID
        for cell in range(_GRID):
            begin = start + cell * side
            overlap = np.minimum(pixels + _PIXEL, begin + side) - np.maximum(pixels, begin)
            rows.append(np.maximum(overlap, 0).astype(np.float64))
            lengths.append(side)
    return np.stack(rows), np.array(lengths)


def _grids(thumbnails: Thumbnails, windows: tuple[tuple[int, int], ...]) -> Grids:
    """Grey levels in sixteenths through all pairs of windows: `(images, windows ** 2, 64)`."""
    weights, lengths = _weights(windows)
    rows = thumbnails.astype(np.float64).reshape(-1, THUMBNAIL_SIDE) @ weights.T
    rows = rows.reshape(len(thumbnails), THUMBNAIL_SIDE, len(weights))
    sums = weights @ rows
    levels = np.floor(sums * _LEVELS / np.outer(lengths, lengths))
    count = len(windows)
    split = levels.reshape(len(thumbnails), count, _GRID, count, _GRID)
    split = split.transpose(0, 1, 3, 2, 4)
    return split.reshape(len(thumbnails), count * count, _CELLS)


def _extents(thumbnails: Thumbnails) -> Extents:
    """What rules most candidates out, of some images."""
    found = np.empty(len(thumbnails), _EXTENT)
    seen = _grids(thumbnails, _COMPARED)
    found["whole"] = _grids(thumbnails, _WHOLE_ALONE)[:, 0]
    found["least"], found["most"] = seen.min(axis=1), seen.max(axis=1)
    pixels = thumbnails.reshape(-1, THUMBNAIL_SIDE**2).astype(np.float64)
    found["mean"], found["spread"] = pixels.mean(axis=1), pixels.std(axis=1)
    return found


def _may_be_copies(some: Extents, others: Extents) -> npt.NDArray[np.bool_]:
    """Which pairs are about as bright and contrasty as copies are, and may agree in all cells.

    None that `_are_copies` says yes to is left out for its cells: what any window shows of a cell
    lies between the least and the most.
    """
    most = 4 * _NOISE_LEVELS + 0.4 * np.maximum(some["spread"], others["spread"])
    found = np.abs(some["mean"] - others["mean"]) <= most
    found &= np.abs(some["spread"] - others["spread"]) <= most
    places = np.flatnonzero(found)
    found[places] = _may_agree(some[places], others[places])
    return np.asarray(found)


def _may_agree(some: Extents, others: Extents) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(some), bool)
    for wide, narrow in ((some, others), (others, some)):
        whole = narrow["whole"].astype(np.int32).reshape(-1, _GRID, _GRID)
        most = _most_unlike(whole)
        for view in (whole, whole[:, :, ::-1]):
            cells = view.reshape(-1, _CELLS)
            away = np.maximum(np.maximum(wide["least"] - cells, cells - wide["most"]), 0)
            found |= np.einsum("pc,pc->p", away, away, dtype=np.float64) / _CELLS <= most
    return found


def _most_unlike(whole: npt.NDArray[Any]) -> Grids:
    """The mean square by which the cells of a copy may differ from an image's, seen whole."""
    spread = whole.reshape(-1, _CELLS).astype(np.float64).std(axis=1)
    most = _NOISE_LEVELS * _LEVELS + _SHARE_OF_CONTRAST * spread
    return np.asarray(most**2)


def _are_copies(some: Thumbnails, others: Thumbnails) -> npt.NDArray[np.bool_]:
    """Which pairs are copies: one seen whole is like the other seen through some window."""
    found = np.zeros(len(some), bool)
    for wide, narrow in ((some, others), (others, some)):
        whole = _grids(narrow, _WHOLE_ALONE)[:, 0].reshape(-1, _GRID, _GRID)
        seen = _grids(wide, _COMPARED)
        most = _most_unlike(whole)
        for view in (whole, whole[:, :, ::-1]):
            differences = seen - view.reshape(-1, 1, _CELLS)
            least = np.einsum("pwc,pwc->pw", differences, differences).min(axis=1) / _CELLS
            found |= least <= most
    return found
