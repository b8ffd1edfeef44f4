"""Bytes that nobody vouches for, changed at random: their readers raise our own errors alone."""

import random

import pytest

from tests.faults.counts import some_or_many
from tests.faults.fuzz_seeds import seeds
from tests.faults.fuzz_targets import TARGETS, is_ours

QUICK, LONG = 60, 20_000  # inputs of each target
_WORDS = (b"0", b"-1", b"18446744073709551616", b"1e999", b"null", b"[]", b"{}", b'"', b",", b"\n")
_WORDS += (
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xed\xa0\x80",
    b"NaN",
    b"\xef\xbb\xbf",
)


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Some changes in turn: bits, words, parts missing, doubled or of another input."""
    for _ in range(chance.choice([1, 1, 2, 3, 8])):
        first, last = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        middle = data[first:last]
        kind = chance.randrange(6)
        if kind == 0 and first < len(data):
            bit = bytes([data[first] ^ 1 << chance.randrange(8)])
            data = data[:first] + bit + data[first + 1 :]
        elif kind == 1:
            word = chance.choice(_WORDS)
            data = data[:first] + word + data[first + chance.choice([0, len(word)]) :]
        elif kind == 2:
            data = data[:first] + data[min(last, first + 40) :]
        elif kind == 3:
            data = data[:last] + middle[:200] + data[last:]
        elif kind == 4:
            data = data[:first] + other[chance.randint(0, len(other)) :][:100] + data[first:]
        else:
            data = data[:first] + chance.randbytes(min(4, len(middle))) + data[first + 4 :]
    return data


def error_of(name: str, data: bytes) -> Exception | None:
    """What the target raises, if anything."""
    try:
        TARGETS[name](data)
    except Exception as error:
        return error
    return None


@some_or_many(QUICK, LONG)
@pytest.mark.parametrize("name", TARGETS)
def test_only_our_own_errors_come_out(name, count, chance):
    good = seeds()[name]
    for _ in range(count):
        data = mutate(chance.choice(good), chance.choice(good), chance)
        error = error_of(name, data)
        assert error is None or is_ours(error), f"{name}: {error!r}: {data!r}"


def test_every_target_takes_a_good_input_to_begin_from():
    assert seeds().keys() == TARGETS.keys()
    for name, good in seeds().items():
        assert None in [error_of(name, data) for data in good], name
