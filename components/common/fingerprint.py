"""Adds up what is known of inputs to the fingerprint that a manifest has of them.

    combine_facts({("cat/1.jpg", 81_234): 0x1C291CA3, ("dog/2.jpg", 70_001): None})

A sum in no order: it does not matter how the inputs were listed, or on which worker each was read.
"""

from collections.abc import Mapping

from trainer_utils.format import keyed_hash

__all__ = ["combine_facts"]

_BITS = 128


def combine_facts(facts: Mapping[tuple[object, ...], object]) -> str:
    """The sum of what is known of each input, by its identity, as 32 hexadecimal digits.

    Args:
        facts: of each input its checksum, or None where it was not read.
    """
    total = 0
    for identity, known in facts.items():
        # `repr` tells the names a and b from the name a, b; a sum, zero from none.
        fact = repr((identity, known))
        total += keyed_hash(fact.encode(), seed=0, purpose="inputs")
    return f"{total % 2**_BITS:0{_BITS // 4}x}"
