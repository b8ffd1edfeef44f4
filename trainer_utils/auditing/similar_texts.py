"""Which texts say nearly the same: of the same words, but few.

    with TextSketches() as sketches:
        sketches.add(texts)
        sets = DisjointSets(len(sketches))
        unite_similar_texts(sketches, sets)

Texts are similar where at least 0.6 of all their words and pairs of words are common (Jaccard's
index). One word of twenty changed leaves 0.8. Candidates share one of 40 keys and a part of 64
values; of these the index itself is worked out.

Source: A. Broder, On the resemblance and containment of documents, 1997.
"""

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.candidates import neighbours_of_equals
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.text_sketch import BANDS, TextSketches, Words, jaccard

__all__ = ["LEAST_JACCARD", "unite_similar_texts"]

LEAST_JACCARD = 0.6
# Of 64: 26 differ at 0.6, give or take 3.9, and 48 give or take 3.5 at 0.25.
_MOST_UNLIKE = 39
_NEIGHBOURS = 8  # of equal keys that a text is compared with
_AT_ONCE = 1 << 12  # pairs
_WORDS_AT_ONCE = 1 << 16

Numbers = npt.NDArray[np.int64]


def unite_similar_texts(sketches: TextSketches, sets: DisjointSets) -> None:
    """Unites texts that are similar.

    Args:
        sketches: of the texts.
        sets: of the texts' numbers.
    """
    keys, words, ends = sketches.keys, sketches.words, sketches.ends
    texts = np.flatnonzero(np.diff(ends))  # others say nothing
    values = np.ascontiguousarray(keys[:, BANDS:]).view(np.uint8)
    for band in range(BANDS):
        for pairs in neighbours_of_equals(keys[texts, band], most=_NEIGHBOURS):
            for start in range(0, len(pairs), _AT_ONCE):
                some = texts[pairs[start : start + _AT_ONCE]]
                unlike = (values[some[:, 0]] != values[some[:, 1]]).sum(axis=1)
                _unite(some[unlike <= _MOST_UNLIKE], words, ends, sets)


def _unite(pairs: Numbers, words: Words, ends: Numbers, sets: DisjointSets) -> None:
    """Unites those of some pairs that are similar."""
    pairs = pairs[sets.apart(pairs)]
    while len(pairs):
        sizes = np.cumsum((ends[pairs + 1] - ends[pairs]).sum(axis=1))
        stop = max(1, int(np.searchsorted(sizes, _WORDS_AT_ONCE)))
        some, pairs = pairs[:stop], pairs[stop:]
        some = some[sets.apart(some)]
        sets.unite(some[jaccard(words, ends, some) >= LEAST_JACCARD])
