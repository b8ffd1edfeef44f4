"""Which images, and which texts, are nearly the same, and what an image looks like otherwise.

Copies of an image were encoded anew, resized, made grey or mirrored. They are found by a perceptual
hash: the signs of the 64 lowest frequencies of a thumbnail, which a mirrored image has too, every
second one negated. Of those whose hashes agree but for some bits, the grey levels themselves are
compared. All is done in integers, so that every machine finds the same.

A text is the set of its words and of its pairs of words, without case and punctuation; in scripts
without spaces between words each letter is one. Texts are similar where at least 0.6 of both sets
is common (Jaccard's index); one word of twenty changed leaves 0.8. Candidates share one of 25 keys,
each of five values of a MinHash of 128; of these the index itself is worked out.

Source: C. Zauner, Implementation and benchmarking of perceptual image hash functions, 2010;
A. Broder, On the resemblance and containment of documents, 1997; P. Li, A. Owen and C.-H. Zhang,
One permutation hashing, 2012; A. Shrivastava and P. Li, Densifying one permutation hashing via
rotation for fast near neighbor search, 2014; R. Tarjan, Efficiency of a good but not linear set
union algorithm, 1975.
"""

import array
import contextlib
import functools
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

from trainer_utils.format.media_formats import image_size
from trainer_utils.storage.file_system import is_fault

Pixels = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

IMAGE_SKETCH = np.dtype([("hashes", "<u8", 2), ("grid", "<u2", (8, 8))])
"""What images are compared by: hashes as it is and mirrored, and sums of 4 x 4 grey levels."""

_THUMBNAIL_SIDE = 32
_DECODED_SIDE = 64  # at the least, of what a JPEG is decoded to: twice the thumbnail's
_FREQUENCIES = 8  # of each side
_BITS = _FREQUENCIES**2
_TABLES, _KEY_BITS = 20, 16
_ALIKE_IMAGES, _ALIKE_TEXTS = 16, 8  # of equal keys that one is compared with
_MOST_UNLIKE_BITS = 16  # of 64: hashes of two images that have nothing in common differ in 32
_AT_ONCE = 1 << 12
# Thumbnails of copies differ by noise, and by what scaling does, which grows with contrast.
_NOISE_LEVELS, _SHARE_OF_CONTRAST = 1.5, 0.25

LEAST_JACCARD = 0.6
_BANDS, _ROWS = 25, 5
_BIN_BITS = 7
_BINS = 1 << _BIN_BITS
_EMPTY = np.uint64((1 << 32) - 1)
_MOST_CHARACTERS = 100_000  # of a text that are looked at, so that a book takes no longer
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Thai and Lao, Burmese, Khmer, Chinese and Japanese: no spaces between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W{_UNSPACED}]+|(?=\w)[{_UNSPACED}]")


class DisjointSets:
    """Numbers from 0 on, below 2**31, each at first alone (union-find); four bytes a member."""

    def __init__(self, count: int) -> None:
        self._parents = array.array("i", range(count))  # whose items come ten times as fast

    def find(self, number: int) -> int:
        """The first member of a number's set."""
        parents = self._parents
        root = number
        while parents[root] != root:
            root = parents[root]
        while parents[number] != root:
            parents[number], number = root, parents[number]
        return root

    def unite(self, pairs: Numbers) -> None:
        """Unites the sets of each of `(pairs, 2)` numbers."""
        for one, other in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
            first, second = sorted((self.find(one), self.find(other)))
            self._parents[second] = first

    def groups(self) -> npt.NDArray[np.int32]:
        """`(count,) int32`, the first member of each number's set."""
        return np.array([self.find(number) for number in range(len(self._parents))], np.int32)


def pairs_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[Numbers]:
    """Pairs of indices of equal keys, `(pairs, 2)` at a time: each and `most` after it."""
    order = np.argsort(keys, kind="stable")
    held = keys[order]
    for distance in range(1, min(most, len(order) - 1) + 1):
        same = np.flatnonzero(held[:-distance] == held[distance:])
        if not len(same):  # then no further ones are
            return
        yield np.stack([order[same], order[same + distance]], axis=1)


class ImageLook(NamedTuple):
    """An image at a glance."""

    sketch: bytes  # an `IMAGE_SKETCH`
    height: int  # in pixels
    width: int
    brightness: float  # mean grey level, in [0, 255]
    contrast: float  # standard deviation of the grey levels at 32 x 32 pixels
    sharpness: float  # mean absolute Laplacian of the image at 64 x 64 pixels, in grey levels


def look_at_image(data: bytes) -> ImageLook | None:
    """Looks at an encoded image, a JPEG at an eighth of its size; None where Pillow reads none."""
    found = image_size(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size if found is None else (found.width, found.height)
            image.draft("L", (_DECODED_SIDE, _DECODED_SIDE))
            return _look(image.convert("L"), height, width)
    except Exception as error:  # Pillow raises a dozen kinds on hostile files
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
    quads = pixels.reshape(_THUMBNAIL_SIDE, 2, _THUMBNAIL_SIDE, 2).sum(axis=(1, 3))
    thumbnail = np.asarray(quads // 4, np.uint8)
    around = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    edges = np.abs(4 * pixels[1:-1, 1:-1] - around)
    sketch = np.zeros((), IMAGE_SKETCH)
    waves = _waves()
    frequencies = waves @ thumbnail.astype(np.float64) @ waves.T  # whole numbers below 2**53: exact
    mirrored = np.where(np.arange(_FREQUENCIES) % 2, -1, 1)
    both = np.stack([frequencies, frequencies * mirrored]) > 0
    sketch["hashes"] = np.packbits(both.reshape(2, _BITS), axis=1).view(np.uint64)[:, 0]
    sketch["grid"] = thumbnail.reshape(8, 4, 8, 4).sum(axis=(1, 3))
    return ImageLook(
        sketch=sketch.tobytes(),
        height=height,
        width=width,
        brightness=float(thumbnail.mean()),
        contrast=float(thumbnail.std()),
        sharpness=float(edges.mean()),
    )


@functools.cache
def _waves() -> npt.NDArray[np.float64]:
    places = (np.arange(_THUMBNAIL_SIDE) + 0.5) * np.pi / _THUMBNAIL_SIDE
    return np.round(1024 * np.cos(places * np.arange(_FREQUENCIES)[:, np.newaxis]))


def group_similar_images(sketches: bytes | bytearray) -> npt.NDArray[np.int32]:
    """`(images,)`, the first of those that each image is a copy of; of one `IMAGE_SKETCH` each."""
    images = np.frombuffer(sketches, IMAGE_SKETCH)
    sets, count, grids = DisjointSets(len(images)), len(images), images["grid"]
    either = images["hashes"].T.ravel()  # of each as it is, then of each mirrored
    drawn = np.random.Generator(np.random.PCG64(0))  # the same bits on all machines
    for _ in range(_TABLES):
        keys = np.zeros(2 * count, np.uint64)
        for place, shift in enumerate(drawn.permutation(_BITS)[:_KEY_BITS].tolist()):
            keys |= (either >> np.uint64(shift) & np.uint64(1)) << np.uint64(place)
        for pairs in pairs_of_equals(keys, most=_ALIKE_IMAGES):
            unlike = either[pairs[:, 0]] ^ either[pairs[:, 1]]
            bits = np.unpackbits(unlike[:, np.newaxis].view(np.uint8), axis=1).sum(axis=1)
            likely = np.unique(pairs[bits <= _MOST_UNLIKE_BITS] % count, axis=0)
            for start in range(0, len(likely), _AT_ONCE):
                some = likely[start : start + _AT_ONCE]
                sets.unite(some[_are_copies(grids[some[:, 0]], grids[some[:, 1]])])
    return sets.groups()


def _are_copies(some: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which pairs of grids show the same, one of them mirrored perhaps."""
    one, other = some / 16, others / 16
    contrast = np.minimum(one.std(axis=(1, 2)), other.std(axis=(1, 2)))
    most = (_NOISE_LEVELS + _SHARE_OF_CONTRAST * contrast) ** 2
    apart = [((one - view) ** 2).mean(axis=(1, 2)) for view in (other, other[:, :, ::-1])]
    return np.asarray(np.minimum(*apart) <= most)


class SketchedTexts(NamedTuple):
    """Some texts, as they are compared."""

    keys: Hashes  # `(texts, 25)`, by which similar texts are found
    members: npt.NDArray[np.uint32]  # hashes of words and pairs of words, sorted for each text
    counts: Numbers  # `(texts,)`, how many each text has. Those of 0 are like no other


class TextSketches(contextlib.ExitStack):
    """Sketches of many texts: 200 bytes a text in memory, and some 8 a word in a file."""

    def __init__(self) -> None:
        super().__init__()
        self._members = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._keys, self._ends = bytearray(), array.array("q", [0])

    def add(self, sketched: SketchedTexts) -> None:
        """Takes in some texts, numbered on."""
        self._keys += sketched.keys.tobytes()
        self._members.write(sketched.members.tobytes())
        self._ends.extend((self._ends[-1] + np.cumsum(sketched.counts)).tolist())

    def groups(self) -> npt.NDArray[np.int32]:
        """`(texts,)`, the first of those that each text is like."""
        keys = np.frombuffer(self._keys, np.uint64).reshape(-1, _BANDS)
        ends, sets = np.array(self._ends, np.int64), DisjointSets(len(keys))
        texts = np.flatnonzero(np.diff(ends))  # others say nothing
        if not len(texts):
            return sets.groups()
        self._members.flush()
        members = np.memmap(self._members, np.uint32, "r")
        for band in range(_BANDS):
            for pairs in pairs_of_equals(keys[texts, band], most=_ALIKE_TEXTS):
                for one, other in texts[pairs].tolist():
                    if sets.find(one) == sets.find(other):
                        continue
                    first, second = (members[ends[n] : ends[n + 1]] for n in (one, other))
                    common = len(np.intersect1d(first, second, assume_unique=True))
                    if common >= LEAST_JACCARD * (len(first) + len(second) - common):
                        sets.unite(np.array([[one, other]]))
        return sets.groups()


def split_words(text: str) -> list[str]:
    """The words of a text's beginning, without case and in one form of Unicode."""
    text = text[:_MOST_CHARACTERS]
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(plain)


def sketch_texts(words: Sequence[Sequence[str]]) -> SketchedTexts:
    """The sketches of a few thousand texts at the most, by the words of each."""
    said = "\n".join(itertools.chain.from_iterable(words)).encode(errors="surrogatepass")
    counts = np.array([*map(len, words)], np.int64)
    total = int(counts.sum())
    hashes = np.fromiter(map(zlib.crc32, said.split(b"\n") if total else ()), np.uint64, total)
    owners = np.repeat(np.arange(len(words)), counts)
    together = owners[1:] == owners[:-1]
    pairs = (hashes[:-1] * _MULTIPLIER + hashes[1:] + np.uint64(1 << 40))[together]
    members = _mix(np.concatenate([hashes, pairs]))
    owners = np.concatenate([owners, owners[1:][together]])
    # Of each text once, in order of their upper 32 bits.
    found = np.unique(owners.astype(np.uint64) << np.uint64(32) | members >> np.uint64(32))
    owners, upper = (found >> np.uint64(32)).astype(np.int64), found & _EMPTY
    keys = _keys(upper, owners, len(words))
    return SketchedTexts(keys, upper.astype(np.uint32), np.bincount(owners, minlength=len(words)))


def _mix(values: Hashes) -> Hashes:
    """Hashes of numbers (the finaliser of SplitMix64)."""
    mixed = (values + _MULTIPLIER) * _MULTIPLIER
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


def _keys(members: Hashes, owners: Numbers, count: int) -> Hashes:
    """`(texts, 25)`: of the least value of each of 128 bins of a text's members."""
    mixed = _mix(members)
    bins = owners << _BIN_BITS | (mixed >> np.uint64(64 - _BIN_BITS)).astype(np.int64)
    least = np.full(count << _BIN_BITS, _EMPTY)
    np.minimum.at(least, bins, mixed & _EMPTY)
    least = least.reshape(count, _BINS)
    for power in range(_BIN_BITS):  # an empty bin takes the value of the next one that is not
        least = np.where(least == _EMPTY, np.roll(least, -(1 << power), axis=1), least)
    order = np.random.Generator(np.random.PCG64(0)).permutation(_BINS)[: _BANDS * _ROWS]
    keys = np.tile(np.arange(_BANDS, dtype=np.uint64), (count, 1))
    for row in least[:, order].reshape(count, _BANDS, _ROWS).transpose(2, 0, 1):
        keys = _mix(keys ^ row)
    return keys
