"""A fingerprint is the sum of a hash of each fact."""

import hashlib
import random

from components.common.fingerprint import combine_facts, sum_facts


def test_facts_are_added_up_in_no_order_and_in_parts():
    facts = [((f"cat/{number}.jpg \udce9", number), number or None) for number in range(500)]
    total = sum(
        int.from_bytes(
            hashlib.blake2b(
                repr(fact).encode(), digest_size=16, key=bytes(8), person=b"inputs"
            ).digest(),
            "little",
        )
        for fact in facts
    )
    expected = f"{total % 2**128:032x}"
    shuffled = random.Random(0).sample(facts, len(facts))
    assert combine_facts(facts) == combine_facts(iter(shuffled)) == expected
    assert (sum_facts(facts[:99]) + sum_facts(facts[99:])) % 2**128 == sum_facts(facts)
    assert combine_facts(facts[1:]) != expected
    assert combine_facts([]) == "0" * 32
