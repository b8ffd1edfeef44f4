"""Find images that are copies of one another among thumbnails.

    group_similar_images(b"".join(thumbnails))      # [0, 1, 0]: the third is a copy of the first

Copies were encoded again, resized, cropped by up to 5 % of each side, made grey or mirrored. They
are found by perceptual hashes: the signs of the 64 lowest frequencies. Each image has 17 views with
a hash each: the whole, 15 windows that leave out up to a tenth of its height and width, and the
whole mirrored. The hash of a crop is that of its original's window. Views whose hashes agree but
for some bits are compared by 8 x 8 grey levels.

Sums are of whole numbers below 2**53, which float64 holds exactly in any order of summation, so
every machine finds the same.

Source: C. Zauner, Implementation and benchmarking of perceptual image hash functions, 2010.
"""

import contextlib
import functools
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditing.disjoint_sets import DisjointSets

THUMBNAIL_SIDE = 32
IMAGE_SKETCH = np.dtype([("thumbnail", "u1", (THUMBNAIL_SIDE, THUMBNAIL_SIDE))])
"""What images are compared by: mean grey levels of equal parts, whatever the image's shape."""

_FREQUENCIES = 8  # of each side
_BITS = _FREQUENCIES**2
_TABLES = 20
# Bits of a key: one more where the keys double, so that few images share one by chance.
_MIN_KEY_BITS, _KEYS_OF_LEAST = 20, 1 << 22
_NEIGHBOURS = 16  # of equal keys that one is compared with
_MAX_UNLIKE_BITS = 16  # of 64: hashes of two images that have nothing in common differ in 32
# Windows along one side, start and length in tenths of a thumbnail's pixel: the whole, and 0.9.
_PIXEL = 10
_WINDOWS = ((0, 320), (0, 288), (16, 288), (32, 288))
_HASHED_CELLS, _COMPARED_CELLS = 16, 8  # that a window is divided into, along one side
_MIRRORED = len(_WINDOWS) ** 2  # the view after all pairs of windows
_VIEWS = _MIRRORED + 1
_LEVELS = 16  # steps of a cell to one grey level
# Cells of copies differ by noise, and by what scaling does, which grows with contrast.
_NOISE_LEVELS, _SHARE_OF_CONTRAST = 1.5, 0.25
_HASHED_AT_ONCE, _COMPARED_AT_ONCE = 1 << 12, 1 << 12
_IMAGES_OF_PART = 1 << 18  # whose keys are sorted at a time

Thumbnails = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class ImageSketches(contextlib.ExitStack):
    """Sketches of many images, in a temporary file: a kilobyte an image."""

    def __init__(self) -> None:
        super().__init__()
        self._file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._count = 0

    def add(self, sketch: bytes) -> None:
        """Add one image's sketch; images are numbered from 0 on."""
        self._file.write(sketch)
        self._count += 1

    def groups(self) -> npt.NDArray[np.int32]:
        """Return the first of the images that each image is a copy of, `(images,)`."""
        if not self._count:
            return np.zeros(0, np.int32)
        self._file.flush()
        return group_similar_images(np.memmap(self._file, IMAGE_SKETCH, "r"))


def group_similar_images(sketches: Any) -> npt.NDArray[np.int32]:
    """Return the first of the images that each image is a copy of, `(images,)`.

    Some 140 bytes an image are held in memory, and 100 MB.

    Args:
        sketches: a buffer of one `IMAGE_SKETCH` for each image, such as bytes or a mapped file.
    """
    thumbnails = np.frombuffer(sketches, IMAGE_SKETCH)["thumbnail"]
    count = len(thumbnails)
    sets, hashes = DisjointSets(count), np.empty((count, _VIEWS), np.uint64)
    for start in range(0, count, _HASHED_AT_ONCE):
        chunk = slice(start, start + _HASHED_AT_ONCE)
        hashes[chunk] = _hash_views(thumbnails[chunk])
    flat = hashes.reshape(-1)
    key_bits = _MIN_KEY_BITS
    while len(flat) > _KEYS_OF_LEAST << (key_bits - _MIN_KEY_BITS):
        key_bits += 1
    parts = max(1, -(-count // _IMAGES_OF_PART))
    drawn = np.random.Generator(np.random.PCG64(0))  # the same bits on all machines
    for _ in range(_TABLES):
        shifts = drawn.permutation(_BITS)[:key_bits].tolist()
        groups = sets.groups()
        for part in range(parts):
            for pairs in _likely_pairs(flat, *_sorted_keys(flat, shifts, part, parts)):
                first, second = groups[pairs // _VIEWS].T
                apart = pairs[first != second]
                for start in range(0, len(apart), _COMPARED_AT_ONCE):
                    some_pairs = apart[start : start + _COMPARED_AT_ONCE]
                    copies = some_pairs[_are_copies(thumbnails, some_pairs)]
                    sets.unite(copies // _VIEWS)
    return sets.groups()


def _hash_views(thumbnails: Thumbnails) -> Hashes:
    """Return the hash of each view of some images, `(images, views)`."""
    waves = _wave_weights()
    by_column = np.tensordot(thumbnails.astype(np.float64), waves, ([1], [2]))
    frequencies = np.tensordot(by_column, waves, ([1], [2]))  # (images, window, 8, window, 8)
    views = frequencies.transpose(0, 1, 3, 2, 4).reshape(-1, _MIRRORED, _FREQUENCIES, _FREQUENCIES)
    signs = np.where(np.arange(_FREQUENCIES) % 2, -1, 1)
    bits = np.concatenate([views, views[:, :1] * signs], axis=1) > 0
    packed = np.packbits(bits.reshape(len(thumbnails), _VIEWS, _BITS), axis=2)
    return np.asarray(packed.view("<u8")[:, :, 0], np.uint64)


@functools.cache
def _wave_weights() -> npt.NDArray[np.float64]:
    """Return how much each row of a thumbnail counts for each frequency, `(windows, 8, 32)`."""
    places = (np.arange(_HASHED_CELLS) + 0.5) * np.pi / _HASHED_CELLS
    waves = np.round(1024 * np.cos(places * np.arange(_FREQUENCIES)[:, np.newaxis]))
    weights: npt.NDArray[np.float64] = waves @ _cell_weights(_HASHED_CELLS)
    return weights


@functools.cache
def _cell_weights(cells: int) -> npt.NDArray[np.float64]:
    """Return how many tenths of each row of a thumbnail each cell has, `(windows, cells, 32)`."""
    rows = np.arange(THUMBNAIL_SIDE) * _PIXEL
    weights = np.zeros((len(_WINDOWS), cells, THUMBNAIL_SIDE))
    for window, (start, length) in enumerate(_WINDOWS):
        side = length // cells
        for cell in range(cells):
            begin = start + cell * side
            overlap = np.minimum(rows + _PIXEL, begin + side) - np.maximum(rows, begin)
            weights[window, cell] = np.maximum(overlap, 0)
    return weights


def _sorted_keys(
    hashes: Hashes, shifts: Sequence[int], part: int, parts: int
) -> tuple[Hashes, Numbers]:
    """Return the keys of one part of all, sorted, and which view each is of.

    Views of one image that share a key count once, or they would hide its neighbours.
    """
    found_keys, found_views = [], []
    step = _IMAGES_OF_PART * _VIEWS
    for start in range(0, len(hashes), step):
        block = hashes[start : start + step]
        keys = np.zeros(len(block), np.uint64)
        for place, shift in enumerate(shifts):
            keys |= (block >> np.uint64(shift) & np.uint64(1)) << np.uint64(place)
        chosen = np.flatnonzero(keys % np.uint64(parts) == part)
        found_keys.append(keys[chosen])
        found_views.append(chosen + start)
    keys, views = np.concatenate([*found_keys, []]), np.concatenate([*found_views, []])
    keys, views = keys.astype(np.uint64), views.astype(np.int64)
    images = (views // _VIEWS).astype(np.uint64)
    _, first = np.unique(keys << np.uint64(32) | images, return_index=True)
    return keys[first], views[first]


def _likely_pairs(hashes: Hashes, keys: Hashes, views: Numbers) -> Iterator[Numbers]:
    """Yield pairs of views of equal keys whose hashes agree but for some bits, `(pairs, 2)`."""
    view_hashes = hashes[views]
    for distance in range(1, min(_NEIGHBOURS, len(keys) - 1) + 1):
        same = np.flatnonzero(keys[:-distance] == keys[distance:])
        if not len(same):  # then no further ones are
            return
        unlike = view_hashes[same] ^ view_hashes[same + distance]
        likely = same[_count_bits(unlike) <= _MAX_UNLIKE_BITS]
        yield np.stack([views[likely], views[likely + distance]], axis=1)


@functools.cache
def _bits_of_words() -> npt.NDArray[np.uint8]:
    octets = np.arange(1 << 16, dtype=np.uint16)[:, np.newaxis].view(np.uint8)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.uint8))


def _count_bits(values: Hashes) -> npt.NDArray[np.uint8]:
    """Return how many bits of each value are 1."""
    bits = _bits_of_words()
    words = np.ascontiguousarray(values).view(np.uint16).reshape(-1, 4)
    return np.asarray(sum(bits[words[:, place]] for place in range(4)))


def _are_copies(thumbnails: Thumbnails, pairs: Numbers) -> npt.NDArray[np.bool_]:
    """Return which pairs of views, `(pairs, 2)`, show the same."""
    first, other = (_grids(thumbnails, pairs[:, column]) for column in (0, 1))
    squares = np.minimum(_spread(first), _spread(other))
    most = _LEVELS * _NOISE_LEVELS + _SHARE_OF_CONTRAST * np.sqrt(squares)
    unlike = ((first - other) ** 2).sum(axis=1) / first.shape[1]
    return np.asarray(unlike <= most**2)


def _spread(grids: Numbers) -> npt.NDArray[np.float64]:
    """Return the variance of each grid's cells, from whole numbers."""
    count = grids.shape[1]
    return np.asarray((count * (grids**2).sum(axis=1) - grids.sum(axis=1) ** 2) / count**2)


def _grids(thumbnails: Thumbnails, views: Numbers) -> Numbers:
    """Return the grey levels of some views in sixteenths, `(views, 64)`."""
    images, places = np.divmod(views, _VIEWS)
    is_mirrored = places == _MIRRORED
    windows = np.divmod(np.where(is_mirrored, 0, places), len(_WINDOWS))
    weights = _cell_weights(_COMPARED_CELLS)
    sides = np.array([length // _COMPARED_CELLS for _, length in _WINDOWS])
    rows, columns = weights[windows[0]], weights[windows[1]]
    sums = rows @ thumbnails[images].astype(np.float64) @ columns.transpose(0, 2, 1)
    areas = (sides[windows[0]] * sides[windows[1]])[:, np.newaxis, np.newaxis]
    levels = (sums.astype(np.int64) * _LEVELS) // areas
    levels[is_mirrored] = levels[is_mirrored][:, :, ::-1]
    return np.asarray(levels.reshape(len(views), -1))
