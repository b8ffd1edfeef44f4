"""Hashes of names: equal for equal names, wherever they lie, and else as chance has it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tools.diff.name_hashes import hash_names

NAMES = st.lists(st.one_of(st.binary(max_size=10), st.binary(max_size=300)), max_size=30)


def hashes(names: list[bytes], before: bytes = b"", behind: bytes = b"") -> list[bytes]:
    data = b"".join(before + name + behind for name in names)
    around, lengths = len(before) + len(behind), np.array([len(n) for n in names], np.int64)
    ends = np.cumsum(lengths + around) - len(behind)
    return [found.tobytes() for found in hash_names(data, ends - lengths, ends)]


@given(NAMES, st.binary(max_size=9), st.binary(max_size=9))
def test_what_is_around_a_name_makes_no_difference(names, before, behind):
    whole = hashes(names)
    assert hashes(names, before, behind) == whole
    assert whole == [found for name in names for found in hashes([name])]
    assert len(set(whole)) == len(set(names))


def test_neighbouring_names_share_no_half_of_a_hash():
    names = [b"cat/%d.jpg" % n for n in range(100_000)] + [bytes(n) for n in range(100)]
    found = np.frombuffer(b"".join(hashes(names)), "<u8").reshape(-1, 2)
    for half in (0, 1):
        assert len(np.unique(found[:, half])) == len(names)
        ones = np.unpackbits(found[:, half : half + 1].copy().view(np.uint8), axis=1).mean(axis=0)
        assert abs(ones - 0.5).max() < 0.01  # every bit, of a hundred thousand
