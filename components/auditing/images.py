"""What an image looks like, in a kilobyte: for finding its copies, and images that are odd.

Copies are images that were encoded anew, resized, made grey or mirrored. They are found by a
perceptual hash: the signs of the 64 lowest frequencies of the thumbnail, which a mirrored image has
too, every second one negated. Of those whose hashes agree but for some bits, the thumbnails
themselves are compared. All is done in integers, so that every machine finds the same.

Source: C. Zauner, Implementation and benchmarking of perceptual image hash functions, 2010.
"""

import dataclasses
import functools
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from components.auditing.grouping import DisjointSets, pairs_of_equals
from trainer_utils.format.images import image_size
from trainer_utils.storage.faults import is_fault

THUMBNAIL_SIDE = 32
_NOT_READ = (
    OSError,
    SyntaxError,
    ValueError,
    ArithmeticError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,  # where warnings are errors
)
_DECODED_SIDE = 64  # at the least, of what a JPEG is decoded to: twice the thumbnail's
_FREQUENCIES = 8  # of each side
_BITS = _FREQUENCIES**2
_TABLES, _KEY_BITS = 20, 16
_NEIGHBOURS = 16  # of equal keys that an image is compared with
_MOST_UNLIKE_BITS = 16  # of 64: hashes of two images that have nothing in common differ in 32
_AT_ONCE = 1 << 12
# Thumbnails of copies differ by noise, and by what scaling does, which grows with contrast.
_NOISE_LEVELS, _SHARE_OF_CONTRAST = 1.5, 0.25

Pixels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageLook:
    """An image at a glance."""

    thumbnail: Pixels  # `(32, 32) uint8`, mean grey levels of equal parts of the image
    height: int  # in pixels
    width: int
    brightness: float  # mean grey level, in [0, 255]
    contrast: float  # standard deviation of the thumbnail's grey levels
    sharpness: float  # mean absolute Laplacian of the image at 64 x 64 pixels, in grey levels


def look_at_image(data: bytes) -> ImageLook | None:
    """Looks at an encoded image, a JPEG at an eighth of its size; None where Pillow reads none."""
    found = image_size(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size if found is None else (found.width, found.height)
            image.draft("L", (_DECODED_SIDE, _DECODED_SIDE))
            return _look(image.convert("L"), height, width)
    except _NOT_READ as error:
        if is_fault(error):
            raise
        return None


def look_at_pixels(pixels: Pixels) -> ImageLook:
    """The same of `(height, width, channels) uint8`, of 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    return _look(image.convert("L"), height, width)


def _look(grey: Image.Image, height: int, width: int) -> ImageLook:
    small = grey.resize((_DECODED_SIDE, _DECODED_SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small, np.int32)
    quads = pixels.reshape(THUMBNAIL_SIDE, 2, THUMBNAIL_SIDE, 2).sum(axis=(1, 3))
    thumbnail = np.asarray(quads // 4, np.uint8)
    around = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    edges = np.abs(4 * pixels[1:-1, 1:-1] - around)
    return ImageLook(
        thumbnail=thumbnail,
        height=height,
        width=width,
        brightness=float(thumbnail.mean()),
        contrast=float(thumbnail.std()),
        sharpness=float(edges.mean()),
    )


def unite_similar_images(thumbnails: Pixels, sets: DisjointSets) -> None:
    """Unites images that are copies of one another; 16 bytes an image are held in memory.

    Args:
        thumbnails: `(images, 32, 32) uint8`; may be a file's.
        sets: of the images' numbers.
    """
    count = len(thumbnails)
    hashes = np.empty((count, 2), np.uint64)  # of each as it is, and mirrored
    for start in range(0, count, _AT_ONCE):
        hashes[start : start + _AT_ONCE] = _hashes(thumbnails[start : start + _AT_ONCE])
    either = hashes.T.ravel()
    for shifts in _shifts_of_tables():
        keys = np.zeros(2 * count, np.uint64)
        for place, shift in enumerate(shifts):
            keys |= (either >> np.uint64(shift) & np.uint64(1)) << np.uint64(place)
        for pairs in pairs_of_equals(keys, most=_NEIGHBOURS):
            unlike = either[pairs[:, 0]] ^ either[pairs[:, 1]]
            bits = np.unpackbits(unlike[:, np.newaxis].view(np.uint8), axis=1).sum(axis=1)
            likely = np.unique(pairs[bits <= _MOST_UNLIKE_BITS] % max(count, 1), axis=0)
            likely = likely[likely[:, 0] != likely[:, 1]]
            for start in range(0, len(likely), _AT_ONCE):
                some = likely[start : start + _AT_ONCE]
                sets.unite(some[_are_copies(thumbnails[some[:, 0]], thumbnails[some[:, 1]])])


@functools.cache
def _shifts_of_tables() -> list[list[int]]:
    """The bits of a hash that make the key of each table, drawn once for all machines."""
    drawn = np.random.Generator(np.random.PCG64(0))
    return [drawn.permutation(_BITS)[:_KEY_BITS].tolist() for _ in range(_TABLES)]


def _hashes(thumbnails: Pixels) -> npt.NDArray[np.uint64]:
    """`(images, 2) uint64`: the signs of the lowest frequencies, seen as it is and mirrored."""
    places = (np.arange(THUMBNAIL_SIDE) + 0.5) * np.pi / THUMBNAIL_SIDE
    waves = np.round(1024 * np.cos(places * np.arange(_FREQUENCIES)[:, np.newaxis]))
    seen = waves @ thumbnails.astype(np.float64)  # whole numbers below 2**53: exact
    mirrored = np.where(np.arange(_FREQUENCIES) % 2, -1, 1)
    frequencies = seen @ waves.T
    both = np.stack([frequencies, frequencies * mirrored], axis=1) > 0
    return np.packbits(both.reshape(-1, 2, _BITS), axis=2).view(np.uint64)[:, :, 0]


def _are_copies(some: Pixels, others: Pixels) -> npt.NDArray[np.bool_]:
    """Which pairs of thumbnails show the same, one of them mirrored perhaps."""
    one, other = (_grid(thumbnails) for thumbnails in (some, others))
    contrast = np.minimum(one.std(axis=(1, 2)), other.std(axis=(1, 2)))
    most = (_NOISE_LEVELS + _SHARE_OF_CONTRAST * contrast) ** 2
    apart = [((one - view) ** 2).mean(axis=(1, 2)) for view in (other, other[:, :, ::-1])]
    return np.asarray(np.minimum(*apart) <= most)


def _grid(thumbnails: Pixels) -> npt.NDArray[np.float64]:
    parts = thumbnails.reshape(-1, 8, THUMBNAIL_SIDE // 8, 8, THUMBNAIL_SIDE // 8)
    return np.asarray(parts.mean(axis=(2, 4)))
