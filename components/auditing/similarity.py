"""Measures of similarity for images and text, and basic statistics of an image.

Images are compared by thumbnails: components/auditing/image_copies.py.

A text is the set of its words and pairs of words, without case and punctuation. In scripts without
spaces between words, each letter is a word. Texts are similar if their sets have a Jaccard index of
at least 0.6; changing one word in twenty leaves 0.8. Candidates share one of 25 keys, and each key
combines five of 128 MinHash values. The exact index is computed for candidates only.

Source: A. Broder, On the resemblance and containment of documents, 1997; P. Li, A. Owen and C.-H.
Zhang, One permutation hashing, 2012; A. Shrivastava and P. Li, Densifying one permutation hashing
via rotation for fast near neighbor search, 2014.
"""

import array
import contextlib
import io
import itertools
import re
import tempfile
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from components.auditing.disjoint_sets import DisjointSets
from components.auditing.image_copies import (
    IMAGE_SKETCH,
    THUMBNAIL_SIDE,
    ImageSketches,
    group_similar_images,
)
from components.media.image_opening import in_eight_bits, open_by_format
from trainer_utils.format.media_formats import format_of, image_size
from trainer_utils.storage.host_errors import is_host_error

__all__ = [
    "IMAGE_SKETCH",
    "MIN_JACCARD",
    "DisjointSets",
    "ImageLook",
    "ImageSketches",
    "SketchedTexts",
    "TextSketches",
    "group_similar_images",
    "look_at_image",
    "look_at_pixels",
    "pairs_of_equals",
    "sketch_texts",
    "split_words",
]

Pixels = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_DECODED_SIDE = 2 * THUMBNAIL_SIDE  # minimum side of a decoded JPEG
_ALIKE_TEXTS = 8  # texts with the same key that each text is compared with

MIN_JACCARD = 0.6
_BANDS, _ROWS = 25, 5
_BIN_BITS = 7
_BINS = 1 << _BIN_BITS
_EMPTY = np.uint64((1 << 32) - 1)
_MAX_CHARACTERS = 100_000  # used of each text, which bounds the time for a book
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Thai and Lao, Burmese, Khmer, Chinese and Japanese: no spaces between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W{_UNSPACED}]+|(?=\w)[{_UNSPACED}]")


def pairs_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[Numbers]:
    """Yield pairs of indices of equal keys, `(pairs, 2)`: each with up to `most` after it."""
    order = np.argsort(keys, kind="stable")
    held = keys[order]
    for distance in range(1, min(most, len(order) - 1) + 1):
        same = np.flatnonzero(held[:-distance] == held[distance:])
        if not len(same):  # no pairs at greater distances either
            return
        yield np.stack([order[same], order[same + distance]], axis=1)


class ImageLook(NamedTuple):
    """Basic statistics and the sketch of an image."""

    sketch: bytes  # an `IMAGE_SKETCH`
    height: int  # pixels
    width: int
    brightness: float  # mean grey level, in [0, 255]
    contrast: float  # standard deviation of the grey levels at 32 x 32 pixels
    sharpness: float  # mean absolute Laplacian of the image at 64 x 64 pixels, in grey levels


def look_at_image(data: bytes) -> ImageLook | None:
    """Measure an encoded image, a JPEG at an eighth of its size; return None if unreadable."""
    header_size = image_size(data)
    try:
        with _open(data) as image:
            width, height = (
                image.size if header_size is None else (header_size.width, header_size.height)
            )
            image.draft("L", (_DECODED_SIDE, _DECODED_SIDE))
            return _look(in_eight_bits(image).convert("L"), height, width)
    except Exception as error:  # Pillow raises a dozen types for hostile files
        if is_host_error(error):
            raise
        return None


def _open(data: bytes) -> Image.Image:
    stream = io.BytesIO(data)
    if format_of(data[:64]) is not None:  # images of any size, including HEIC
        return open_by_format(stream, data[:64])
    return Image.open(stream)


def look_at_pixels(pixels: Pixels) -> ImageLook:
    """Measure pixels, `(height, width, channels) uint8` with 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    return _look(image.convert("L"), height, width)


def _look(grey: Image.Image, height: int, width: int) -> ImageLook:
    """Measure a grey image: a thumbnail to compare, brightness, contrast and sharpness."""
    small = grey.resize((_DECODED_SIDE, _DECODED_SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small, np.int32)
    quads = pixels.reshape(THUMBNAIL_SIDE, 2, THUMBNAIL_SIDE, 2).sum(axis=(1, 3))
    thumbnail = np.asarray(quads // 4, np.uint8)
    around = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    edges = np.abs(4 * pixels[1:-1, 1:-1] - around)
    return ImageLook(
        sketch=thumbnail.tobytes(),
        height=height,
        width=width,
        brightness=float(thumbnail.mean()),
        contrast=float(thumbnail.std()),
        sharpness=float(edges.mean()),
    )


class SketchedTexts(NamedTuple):
    """A batch of texts, in a form for comparisons."""

    keys: Hashes  # `(texts, 25)`, used to find similar texts
    members: npt.NDArray[np.uint32]  # hashes of words and word pairs, sorted for each text
    counts: Numbers  # `(texts,)`, members of each text; texts without members are never similar


class TextSketches(contextlib.ExitStack):
    """Sketches of many texts: 200 bytes per text in memory, and about 8 per word in a file."""

    def __init__(self) -> None:
        super().__init__()
        self._members = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._keys, self._ends = bytearray(), array.array("q", [0])

    def add(self, sketched: SketchedTexts) -> None:
        """Add a batch of texts, numbered consecutively."""
        self._keys += sketched.keys.tobytes()
        self._members.write(sketched.members.tobytes())
        self._ends.extend((self._ends[-1] + np.cumsum(sketched.counts)).tolist())

    def groups(self) -> npt.NDArray[np.int32]:
        """Return for each text the first text of its group of similar ones, `(texts,) int32`."""
        keys = np.frombuffer(self._keys, np.uint64).reshape(-1, _BANDS)
        ends, sets = np.array(self._ends, np.int64), DisjointSets(len(keys))
        texts = np.flatnonzero(np.diff(ends))  # others have no members
        if not len(texts):
            return sets.groups()
        self._members.flush()
        members = np.memmap(self._members, np.uint32, "r")
        for band in range(_BANDS):
            for pairs in pairs_of_equals(keys[texts, band], most=_ALIKE_TEXTS):
                for text, other in texts[pairs].tolist():
                    if sets.find(text) == sets.find(other):
                        continue
                    first, second = (members[ends[n] : ends[n + 1]] for n in (text, other))
                    common = len(np.intersect1d(first, second, assume_unique=True))
                    if common >= MIN_JACCARD * (len(first) + len(second) - common):
                        sets.unite(np.array([[text, other]]))
        return sets.groups()


def split_words(text: str) -> list[str]:
    """Return the words of a text's beginning, lower-cased and in one Unicode form."""
    text = text[:_MAX_CHARACTERS]
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(plain)


def sketch_texts(words: Sequence[Sequence[str]]) -> SketchedTexts:
    """Return the sketches of up to a few thousand texts, given the words of each."""
    said = "\n".join(itertools.chain.from_iterable(words)).encode(errors="surrogatepass")
    counts = np.array([*map(len, words)], np.int64)
    total = int(counts.sum())
    hashes = np.fromiter(map(zlib.crc32, said.split(b"\n") if total else ()), np.uint64, total)
    owners = np.repeat(np.arange(len(words)), counts)
    together = owners[1:] == owners[:-1]
    pairs = (hashes[:-1] * _MULTIPLIER + hashes[1:] + np.uint64(1 << 40))[together]
    members = _mix(np.concatenate([hashes, pairs]))
    owners = np.concatenate([owners, owners[1:][together]])
    # Each once per text, ordered by their upper 32 bits.
    sketches = np.unique(owners.astype(np.uint64) << np.uint64(32) | members >> np.uint64(32))
    owners, upper = (sketches >> np.uint64(32)).astype(np.int64), sketches & _EMPTY
    keys = _keys(upper, owners, len(words))
    return SketchedTexts(keys, upper.astype(np.uint32), np.bincount(owners, minlength=len(words)))


def _mix(values: Hashes) -> Hashes:
    """Hash numbers (the finaliser of SplitMix64)."""
    mixed = (values + _MULTIPLIER) * _MULTIPLIER
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


def _keys(members: Hashes, owners: Numbers, count: int) -> Hashes:
    """Return keys `(texts, 25)` from the minima of 128 bins of each text's members."""
    mixed = _mix(members)
    bins = owners << _BIN_BITS | (mixed >> np.uint64(64 - _BIN_BITS)).astype(np.int64)
    least = np.full(count << _BIN_BITS, _EMPTY)
    np.minimum.at(least, bins, mixed & _EMPTY)
    least = least.reshape(count, _BINS)
    for power in range(_BIN_BITS):  # an empty bin takes the value of the next non-empty one
        least = np.where(least == _EMPTY, np.roll(least, -(1 << power), axis=1), least)
    order = np.random.Generator(np.random.PCG64(0)).permutation(_BINS)[: _BANDS * _ROWS]
    keys = np.tile(np.arange(_BANDS, dtype=np.uint64), (count, 1))
    for row in least[:, order].reshape(count, _BANDS, _ROWS).transpose(2, 0, 1):
        keys = _mix(keys ^ row)
    return keys
