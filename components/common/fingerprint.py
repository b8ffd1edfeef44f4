"""Adds up what is known of inputs to the fingerprint that a manifest has of them.

    combine_facts([(("cat/1.jpg", 81_234), 0x1C291CA3), (("dog/2.jpg", 70_001), None)])

A sum in no order: it does not matter how the inputs were listed, or on which worker each was read.
"""

from collections.abc import Iterable

import numpy as np

from trainer_utils.format.planning import keyed_digests

__all__ = ["combine_facts"]

_BITS = 128


def combine_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> str:
    """The sum of what is known of each input, by its identity, as 32 hexadecimal digits.

    Args:
        facts: of each input its identity, and its checksum or None where it was not read. A fact
            counts once, however often it is given. They are taken one by one.
    """
    # `repr` tells the names a and b from the name a, b; a sum, zero from none.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    digests = digests[np.lexsort(digests.T)]
    is_new = np.ones(len(digests), np.bool_)
    is_new[1:] = (digests[1:] != digests[:-1]).any(axis=1)
    parts = digests[is_new].view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    total = sum(int(part) << 32 * place for place, part in enumerate(parts))
    return f"{total % 2**_BITS:0{_BITS // 4}x}"
