"""Test hashes, permutations and the division into shards."""

import hashlib
import itertools

import numpy as np
import pytest

from trainer_utils.format import hashing, keyed_hash, num_shards_for, shard_bounds
from trainer_utils.order.permutation import permute

SMALL, LARGE = 1000, 70_001  # below and above the limit of the small permutation


def test_permutation_is_a_bijection(subtests):
    sizes = (1, 2, 3, 17, SMALL, 65_536, 65_537, LARGE)
    for size, seed in itertools.product(sizes, (0, -1, 2**62)):
        with subtests.test(size=size):
            places = permute(np.arange(size), num_records=size, seed=seed)
            assert np.array_equal(np.sort(places), np.arange(size))
    some = permute(np.arange(0, 10**8, 10**4), num_records=10**8 + 7, seed=5)
    assert len(np.unique(some)) == 10**4
    assert 0 <= some.min() < some.max() < 10**8 + 7


@pytest.mark.parametrize(("size", "seeds"), [(20, 4000), (LARGE, 400)])
def test_permutation_is_uniform(size, seeds):
    cells = 20
    record = size // 3
    counts = np.zeros(cells)
    for seed in range(seeds):
        (place,) = permute(np.array([record]), num_records=size, seed=seed)
        counts[place * cells // size] += 1
    chi_square = np.sum((counts - seeds / cells) ** 2 / (seeds / cells))
    # 19 degrees of freedom: a value over 60 occurs once in four million times.
    assert chi_square < 60


def test_hash_is_keyed_blake2b():
    digest = hashlib.blake2b(
        b"cat/1.jpg", digest_size=16, key=(7).to_bytes(8, "little"), person=b"split"
    ).digest()
    assert keyed_hash(b"cat/1.jpg", seed=7, purpose="split") == int.from_bytes(digest, "little")


def test_shards_are_equal_and_near_the_target_size(subtests):
    for records, shards in ((10, 3), (10, 10), (0, 1), (1000, 7)):
        with subtests.test(records=records):
            sizes = np.diff(shard_bounds(num_records=records, num_shards=shards))
            assert (sizes.sum(), len(sizes)) == (records, shards)
            assert sizes.max() - sizes.min() <= 1
    for records, size, shards in ((100, 10_000, 10), (100, 10_600, 11), (3, 10_000, 3), (0, 0, 1)):
        with subtests.test(records=records):
            wished = {"num_bytes": size, "target_shard_bytes": 1000}
            assert num_shards_for(num_records=records, **wished) == shards


@pytest.mark.parametrize("modulus", [1, 3, 2**47 + 5])
def test_batch_hashes_match_single_hashes(modulus):
    identities = [f"cats/{number}.jpg".encode() for number in range(100)]
    digests = hashing.keyed_digests(iter(identities), seed=-3, purpose="split")
    hashes = [hashing.keyed_hash(each, seed=-3, purpose="split") for each in identities]
    assert [int(upper) << 64 | int(lower) for lower, upper in digests] == hashes
    remainders = hashing.remainders(digests, modulus)
    assert remainders.tolist() == [number % modulus for number in hashes]
    assert hashing.keyed_digests([], seed=0, purpose="split").shape == (0, 2)


def test_hashes_of_parts_match_splitmix64():
    start = keyed_hash(b"a file", seed=7, purpose="row") % 2**64
    hashes = hashing.keyed_hashes(np.arange(5), identity=b"a file", seed=7, purpose="row")
    expected, state = [], start
    for _ in range(5):  # the reference implementation: https://prng.di.unimi.it/splitmix64.c
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        expected.append(mixed ^ mixed >> 31)
    assert hashes.tolist() == expected
