"""Adds up what is known of inputs to the fingerprint that a manifest has of them.

    combine_facts([(("cat/1.jpg", 81_234), 0x1C291CA3), (("dog/2.jpg", 70_001), None)])

A sum in no order: it does not matter how the inputs were listed, or on which worker each was read.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from components.common.entry import Blob
from trainer_utils.format.planning import keyed_digests

__all__ = ["combine_facts", "sum_blobs", "sum_facts"]

_BITS = 128


def combine_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> str:
    """The sum of what is known of each input, by its identity, as 32 hexadecimal digits.

    Args:
        facts: of each input its identity, and its checksum or None where it was not read.
    """
    return f"{sum_facts(facts):0{_BITS // 4}x}"


def sum_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> int:
    """The same as a number; sums of parts make that of the whole, modulo 2**128."""
    # `repr` tells the names a and b from the name a, b; a sum, zero from none.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    parts: list[int] = digests.view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    return sum(part << 32 * place for place, part in enumerate(parts)) % (1 << _BITS)


def sum_blobs(facts: Iterable[tuple[Blob, int | None]], roots: Sequence[str] = ()) -> int:
    """`sum_facts` of files and parts of files, each with its CRC-32C or None.

    Args:
        roots: folders by which a path begins that is none of the input base: it is known by what
            follows, wherever the inputs lie.
    """
    folders = [f"{root.rstrip('/')}/" for root in roots]

    def name(path: str) -> str:
        return path.removeprefix(next((f for f in folders if path.startswith(f)), ""))

    return sum_facts(((name(blob.path), *blob[1:]), crc) for blob, crc in facts)
