"""What a text says, in some bytes a word: for finding texts of the same words but few.

    with TextSketches() as sketches:
        sketches.add(["The cat sat on the mat.", "…"])
        sketches.keys.shape                    # (2, 56)
        sketches.words[: sketches.ends[1]]     # hashes of the first one's six words

A text is the set of its words and of its pairs of words, without case and punctuation; in scripts
without spaces between words each letter is one. Of each set 64 values are kept for a moment: its
members are shared out by a hash to 64 bins, and of each bin the least hash value counts; an empty
bin takes that of the next one. The share of equal values estimates how much of two sets is common
(Jaccard's index). What stays are keys of four values each, by which similar texts are found; a byte
of each value; and the words' hashes, by which they are compared.

All is worked out for many texts at once, without a Python object for a word.

Source: A. Broder, On the resemblance and containment of documents, 1997; P. Li, A. Owen and
C.-H. Zhang, One permutation hashing, 2012; A. Shrivastava and P. Li, Densifying one permutation
hashing via rotation for fast near neighbor search, 2014.
"""

import array
import functools
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.candidates import random_order

__all__ = [
    "BANDS",
    "BINS",
    "SketchedTexts",
    "TextSketches",
    "jaccard",
    "sketch_texts",
    "split_words",
]

BANDS, _ROWS = 40, 4
_BIN_BITS = 6
BINS = 1 << _BIN_BITS
_EMPTY = np.uint64((1 << 32) - 1)
_MOST_CHARACTERS = 100_000  # of a text that are looked at, so that a book takes no longer
_AT_ONCE, _MOST_TEXTS_AT_ONCE = 1 << 18, 1 << 12  # characters, texts
_MULTIPLIER = 0x9E3779B97F4A7C15
_MIXER = np.uint64(0xBF58476D1CE4E5B9)
_SPLITMIX = (np.uint64(_MULTIPLIER), np.uint64(30), np.uint64(27))
_BETWEEN, _OF_A_WORD, _A_WORD = 0, 1, 2  # what a character is

# Thai and Lao, Burmese, Khmer, Chinese and Japanese: no spaces between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W{_UNSPACED}]+|(?=\w)[{_UNSPACED}]")

Hashes = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]
Keys = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]


class SketchedTexts(NamedTuple):
    """Some texts, as they are compared.

    Args:
        keys: `(texts, 56) uint32`: 40 keys, by which similar texts are found, and 64 bytes.
        words: `(words,) uint32`, the hashes of all texts' words in their order.
        counts: `(texts,) int64`, how many each text has. Those of 0 are like no other.
    """

    keys: Keys
    words: Words
    counts: Numbers


class TextSketches:
    """Sketches of many texts, in temporary files: 224 bytes a text, and 4 a word."""

    def __init__(self) -> None:
        self._key_file = tempfile.TemporaryFile(prefix="tfx-shards-texts-")  # noqa: SIM115
        self._word_file = tempfile.TemporaryFile(prefix="tfx-shards-texts-")  # noqa: SIM115
        self._ends = array.array("q", [0])

    def __enter__(self) -> "TextSketches":
        return self

    def __exit__(self, *_: object) -> None:
        self._key_file.close()
        self._word_file.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, texts: Sequence[str]) -> None:
        """Takes in some texts, numbered on."""
        for sketched in sketch_texts(texts):
            self.append(sketched)

    def append(self, sketched: SketchedTexts) -> None:
        """The same of texts that were sketched."""
        self._key_file.write(sketched.keys.astype("<u4").tobytes())
        self._word_file.write(sketched.words.astype("<u4").tobytes())
        self._ends.extend((self._ends[-1] + np.cumsum(sketched.counts)).tolist())

    @property
    def ends(self) -> Numbers:
        """`(texts + 1,)`: where the words of each begin, and where those of the last one end."""
        return np.array(self._ends, np.int64)

    @property
    def keys(self) -> Keys:
        """`(texts, 56) uint32`, mapped from the disk."""
        return _mapped(self._key_file, (len(self), BANDS + BINS // 4))

    @property
    def words(self) -> Words:
        """Of all texts, mapped from the disk."""
        return _mapped(self._word_file, (self._ends[-1],))


def _mapped(stream: BinaryIO, shape: tuple[int, ...]) -> Words:
    stream.flush()
    return np.memmap(stream, "<u4", "r", shape=shape) if shape[0] else np.empty(shape, "<u4")


def split_words(text: str) -> list[str]:
    """The words of a text, without case and in one form of Unicode."""
    return _WORD.findall(_folded(text))


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def sketch_texts(
    texts: Sequence[str], each: Callable[..., Iterator[SketchedTexts]] = map
) -> Iterator[SketchedTexts]:
    """The sketches of some texts, those of a few thousand at a time.

    Args:
        texts: in order.
        each: `map`, or that of an executor whose threads do it.
    """
    return each(_sketch, _parts(texts))


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        part.append(text[:_MOST_CHARACTERS])
        size += len(part[-1])
        if size >= _AT_ONCE or len(part) == _MOST_TEXTS_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _sketch(texts: Sequence[str]) -> SketchedTexts:
    joined = "\n".join(texts)
    if joined.isascii():
        joined = joined.lower()
    else:
        texts = [_folded(text)[:_MOST_CHARACTERS] for text in texts]
        joined = "\n".join(texts)
    ends_of_texts = np.cumsum([len(text) + 1 for text in texts])
    words, ends_of_words = _hash_words(joined + "\n")
    counts = np.diff(np.searchsorted(ends_of_words, ends_of_texts), prepend=0)
    values = _least_values(words, np.repeat(np.arange(len(texts)), counts), len(texts))
    return SketchedTexts(_keys(values), words.astype(np.uint32), counts)


def _hash_words(joined: str) -> tuple[Hashes, Numbers]:
    """The 32-bit hash of each word, and where it ends."""
    if joined.isascii():
        count, characters = 128, np.frombuffer(joined.encode("ascii"), np.uint8)
    else:
        encoded = joined.encode("utf-32-le", "surrogatepass")
        count, characters = 0x110000, np.frombuffer(encoded, "<u4")
    values = _letter_values(count)[characters]
    around = np.full(len(joined) + 2, _BETWEEN, np.uint8)
    around[1:-1] = kinds = _kinds(count)[characters]
    before, after = around[:-2], around[2:]
    alone, joins = kinds == _A_WORD, kinds == _OF_A_WORD
    starts = np.flatnonzero(alone | joins & (before != _OF_A_WORD))
    stops = np.flatnonzero(alone | joins & (after != _OF_A_WORD)) + 1
    # A word is a polynomial of its letters, which is a difference of sums up to its ends.
    powers, inverses = _powers(1 << max(16, len(joined).bit_length()))
    sums = np.cumsum(values * powers[: len(values)])
    before_words = np.where(starts > 0, sums[starts - 1], np.uint64(0))
    polynomials = (sums[stops - 1] - before_words) * inverses[starts]
    return _mix(polynomials) >> np.uint64(32), stops


@functools.cache
def _kinds(count: int) -> npt.NDArray[np.uint8]:
    """What each of the first characters of Unicode is."""
    kinds = np.zeros(count, np.uint8)
    characters = np.arange(count, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    for match in re.finditer(r"\w+", characters):
        kinds[match.start() : match.end()] = _OF_A_WORD
    for first, last in re.findall("(.)-(.)", _UNSPACED):
        letters = kinds[ord(first) : ord(last) + 1]
        letters[letters == _OF_A_WORD] = _A_WORD
    return kinds


@functools.cache
def _letter_values(count: int) -> Hashes:
    return _mix(np.arange(count, dtype=np.uint64))


@functools.cache
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """The powers of an odd number modulo 2**64, and of its inverse."""
    factors = _MULTIPLIER, pow(_MULTIPLIER, -1, 1 << 64)
    powers, inverses = (np.full(count, factor, np.uint64) for factor in factors)
    powers[0] = inverses[0] = 1
    return np.multiply.accumulate(powers), np.multiply.accumulate(inverses)


def _mix(values: Hashes) -> Hashes:
    """Hashes of numbers (the finaliser of SplitMix64)."""
    golden, first, second = _SPLITMIX
    mixed = (values + golden) * golden
    mixed ^= mixed >> first
    mixed *= _MIXER
    mixed ^= mixed >> second
    mixed *= golden
    mixed ^= mixed >> first
    return mixed


def _members(words: Hashes, together: npt.NDArray[np.bool_]) -> tuple[Hashes, Hashes]:
    """Hashes of words, and of those pairs of neighbours that are of one text."""
    pairs = (words[:-1] * np.uint64(_MULTIPLIER) + words[1:] + np.uint64(1 << 40))[together]
    return _mix(words), _mix(pairs)


def _least_values(words: Hashes, owners: Numbers, count: int) -> Hashes:
    """`(texts, 64)`, the least value of each bin; that of the next one where it is empty."""
    together = owners[:-1] == owners[1:]
    members = np.concatenate(_members(words, together))
    owners = np.concatenate([owners, owners[1:][together]])
    places = owners << _BIN_BITS | (members >> np.uint64(64 - _BIN_BITS)).astype(np.int64)
    values = np.minimum(members & _EMPTY, _EMPTY - np.uint64(1))
    least = np.full(count << _BIN_BITS, _EMPTY)
    while len(places):  # of several for one place the last is kept, and lower ones come again
        least[places] = values
        lower = values < least[places]
        places, values = places[lower], values[lower]
    least = least.reshape(count, BINS)
    for power in range(_BIN_BITS):  # an empty bin takes the value of the next one that is not
        least = np.where(least == _EMPTY, np.roll(least, -(1 << power), axis=1), least)
    return least


def _keys(values: Hashes) -> Keys:
    mixed = np.arange(BANDS, dtype=np.uint64)
    for bins in _bins_of_bands():
        mixed = _mix(mixed ^ values[:, bins])
    octets = values.astype(np.uint8).view("<u4")
    return np.concatenate([(mixed >> np.uint64(32)).astype(np.uint32), octets], axis=1)


@functools.cache
def _bins_of_bands() -> Numbers:
    """`(4, bands)`: the bins whose values make the key of each band."""
    orders = [random_order(f"texts {BINS + n}", BINS) for n in range(-(-BANDS * _ROWS // BINS))]
    return np.concatenate(orders)[: BANDS * _ROWS].reshape(BANDS, _ROWS).T


def jaccard(words: Words, ends: Numbers, pairs: Numbers) -> npt.NDArray[np.float64]:
    """Which part of the words and pairs of words of two texts both have, `(pairs,)`.

    Args:
        words, ends: of all texts, as `TextSketches` has them.
        pairs: `(pairs, 2)`, numbers of texts that have words; at most 2**20.
    """
    counts = ends[pairs + 1] - ends[pairs]
    starts = np.cumsum(counts) - counts.ravel()
    places = np.arange(counts.sum()) + np.repeat(ends[pairs].ravel() - starts, counts.ravel())
    owners = np.repeat(np.arange(pairs.size), counts.ravel())
    together = owners[:-1] == owners[1:]
    members = np.concatenate(_members(words[places].astype(np.uint64), together))
    owners = np.concatenate([owners, owners[1:][together]]).astype(np.uint64)
    # A pair's number, 43 bits of the member, and the side, so that what both have lies together.
    keys = owners >> np.uint64(1) << np.uint64(44) | members >> np.uint64(21) << np.uint64(1)
    keys = np.unique(keys | owners & np.uint64(1))
    of_pairs = (keys >> np.uint64(44)).astype(np.int64)
    is_common = keys[1:] >> np.uint64(1) == keys[:-1] >> np.uint64(1)
    sizes = np.bincount(of_pairs, minlength=len(pairs))
    common = np.bincount(of_pairs[1:][is_common], minlength=len(pairs))
    return np.asarray(common / (sizes - common))
