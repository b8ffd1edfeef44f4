"""Which texts say nearly the same: of the same words but few.

A text is the set of its words and of its pairs of words, without case and punctuation; in scripts
without spaces between words each letter is one. Texts are similar where at least 0.6 of both sets
is common (Jaccard's index); one word of twenty changed leaves 0.8. Candidates share one of 25 keys,
each of five values of a MinHash of 128; of these the index itself is worked out.

Source: A. Broder, On the resemblance and containment of documents, 1997; P. Li, A. Owen and
C.-H. Zhang, One permutation hashing, 2012; A. Shrivastava and P. Li, Densifying one permutation
hashing via rotation for fast near neighbor search, 2014.
"""

import array
import contextlib
import itertools
import re
import tempfile
import unicodedata
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from components.auditing.grouping import DisjointSets, pairs_of_equals

LEAST_JACCARD = 0.6
_BANDS, _ROWS = 25, 5
_BIN_BITS = 7
_BINS = 1 << _BIN_BITS
_EMPTY = np.uint64((1 << 32) - 1)
_NEIGHBOURS = 8  # of equal keys that a text is compared with
_MOST_CHARACTERS = 100_000  # of a text that are looked at, so that a book takes no longer
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

# Thai and Lao, Burmese, Khmer, Chinese and Japanese: no spaces between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W{_UNSPACED}]+|(?=\w)[{_UNSPACED}]")

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


class SketchedTexts(NamedTuple):
    """Some texts, as they are compared."""

    keys: Hashes  # `(texts, 25) uint64`, by which similar texts are found
    members: Words  # `uint32`, the hashes of all texts' words and pairs of words, sorted for each
    counts: Numbers  # `(texts,) int64`, how many each text has. Those of 0 are like no other


class TextSketches(contextlib.ExitStack):
    """Sketches of many texts, in temporary files: 200 bytes a text, and some 8 a word."""

    def __init__(self) -> None:
        super().__init__()
        self._key_file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._member_file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._ends = array.array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, sketched: SketchedTexts) -> None:
        """Takes in some texts, numbered on."""
        self._key_file.write(sketched.keys.tobytes())
        self._member_file.write(sketched.members.tobytes())
        self._ends.extend((self._ends[-1] + np.cumsum(sketched.counts)).tolist())

    @property
    def ends(self) -> Numbers:
        """`(texts + 1,)`: where the members of each begin, and where those of the last one end."""
        return np.array(self._ends, np.int64)

    @property
    def keys(self) -> Hashes:
        """`(texts, 25)`, mapped from the disk."""
        return map_file(self._key_file, np.dtype(np.uint64), (len(self), _BANDS))

    @property
    def members(self) -> Words:
        """Of all texts, mapped from the disk."""
        return map_file(self._member_file, np.dtype(np.uint32), (self._ends[-1],))


def map_file(stream: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """What was written to a file as an array; an empty file cannot be mapped."""
    stream.flush()
    return np.memmap(stream, dtype, "r", shape=shape) if 0 not in shape else np.empty(shape, dtype)


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
    hashes = np.fromiter(map(zlib.crc32, said.split(b"\n")), np.uint64, total) if total else _NONE
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


_NONE: Hashes = np.empty(0, np.uint64)


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


def unite_similar_texts(sketches: TextSketches, sets: DisjointSets) -> None:
    """Unites texts that are similar.

    Args:
        sketches: of the texts.
        sets: of the texts' numbers.
    """
    keys, members, ends = sketches.keys, sketches.members, sketches.ends
    texts = np.flatnonzero(np.diff(ends))  # others say nothing
    for band in range(_BANDS):
        for pairs in pairs_of_equals(keys[texts, band], most=_NEIGHBOURS):
            for one, other in texts[pairs].tolist():
                if sets.find(one) == sets.find(other):
                    continue
                first, second = (members[ends[n] : ends[n + 1]] for n in (one, other))
                common = len(np.intersect1d(first, second, assume_unique=True))
                if common >= LEAST_JACCARD * (len(first) + len(second) - common):
                    sets.unite(np.array([[one, other]]))
