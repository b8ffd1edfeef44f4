"""Which texts say nearly the same: of the same words, but few.

    sketch = sketch_text("The cat sat on the mat.")        # (128,) uint32
    unite_similar_texts(np.stack(sketches), sets)

A text is the set of its words and of its pairs of words, without case and punctuation. Of 128 hash
functions the least value over the set is kept: the share of equal ones estimates how much of both
sets is common (Jaccard's index), and texts are similar from 0.6 on. One word of twenty changed
leaves 0.8. Candidates share four values in a row, of which there are 32.

Source: A. Broder, On the resemblance and containment of documents, 1997; the hash functions:
M. Dietzfelbinger and others, A reliable randomized algorithm for the closest-pair problem, 1997.
"""

import hashlib
import re
import unicodedata
import zlib

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.disjoint_sets import DisjointSets

__all__ = ["TEXT_SKETCH_VALUES", "sketch_text", "split_words", "unite_similar_texts"]

TEXT_SKETCH_VALUES = 128
_BANDS, _ROWS = 32, 4
_LEAST_EQUAL = 0.6  # share of equal values from which on texts are similar
_MOST_WORDS = 1 << 14  # of a text that are looked at, so that a book takes no longer than a page
_NEIGHBOURS = 8  # of equal bands that a text is compared with
_WORD = re.compile(r"\w+")

Sketch = npt.NDArray[np.uint32]


def _factors() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    noise = hashlib.shake_128(b"tfx-shards similar texts").digest(16 * TEXT_SKETCH_VALUES)
    numbers = np.frombuffer(noise, "<u8").astype(np.uint64)
    return numbers[:TEXT_SKETCH_VALUES] | np.uint64(1), numbers[TEXT_SKETCH_VALUES:]


_MULTIPLIERS, _ADDENDS = _factors()


def split_words(text: str) -> list[str]:
    """The words of a text, without case and in one form of Unicode."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def sketch_text(text: str) -> Sketch | None:
    """The least hash values of a text, `(128,) uint32`; None where it has no word."""
    words = split_words(text)[:_MOST_WORDS]
    if not words:
        return None
    singles = np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words], np.uint64)
    pairs = singles[:-1] * np.uint64(0x9E3779B97F4A7C15) + singles[1:] + np.uint64(1 << 40)
    members = np.unique(np.concatenate([singles, pairs]))
    least = np.full(TEXT_SKETCH_VALUES, 2**32 - 1, np.uint64)
    for start in range(0, len(members), 1 << 10):
        some = members[start : start + (1 << 10), np.newaxis]
        mixed = some ^ some >> np.uint64(29)
        values = (mixed * _MULTIPLIERS + _ADDENDS) >> np.uint64(32)
        least = np.minimum(least, values.min(axis=0))
    return least.astype(np.uint32)


def unite_similar_texts(sketches: Sketch, sets: DisjointSets) -> None:
    """Unites texts that are similar.

    Args:
        sketches: `(texts, 128) uint32`, as `sketch_text` makes them; may be a file's.
        sets: of the texts' numbers.
    """
    for band in range(_BANDS):
        columns = np.ascontiguousarray(sketches[:, band * _ROWS : (band + 1) * _ROWS])
        order = np.lexsort(columns.T)
        held = columns[order]
        for distance in range(1, min(_NEIGHBOURS, len(order) - 1) + 1):
            same = (held[:-distance] == held[distance:]).all(axis=1)
            pairs = np.stack([order[:-distance][same], order[distance:][same]], axis=1)
            for start in range(0, len(pairs), 1 << 12):
                some = pairs[start : start + (1 << 12)]
                some = some[sets.apart(some)]
                equal = (sketches[some[:, 0]] == sketches[some[:, 1]]).mean(axis=1)
                sets.unite(some[equal >= _LEAST_EQUAL])
