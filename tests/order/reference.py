"""The order of records in plain Python: a second implementation, the tests' oracle.

It was written from docs/order.md alone, by somebody who had not seen the code of
`trainer_utils.order`, and needs nothing but the standard library. It is to be read next to that
page, in whose order it is: clarity goes before speed.

`datasets` is a list of datasets, each a list of the sizes of its shards in records; `settings` is a
dict with the names of the page: batch_size (None: single examples), shuffle, seed, remainder,
weights, echoing, reshuffle_each_iteration, and mean_record_bytes, the `bytes` of `shuffle=True`.
"""

import math
from bisect import bisect_right
from functools import lru_cache
from hashlib import blake2b, shake_128
from typing import NamedTuple

MASK = 2**64 - 1


# Positions


def number_of_records(datasets, weights):
    """`n`, the length of the list that an epoch reads: the order needs to know no more of it."""
    totals = [sum(shards) for shards in datasets]
    if weights is None:
        return sum(totals)
    present = [(total, weight) for total, weight in zip(totals, weights, strict=True) if total > 0]
    longest = max((total / weight for total, weight in present), default=0)
    return sum(round(longest * weight) for _, weight in present)


# Batches


class Batches(NamedTuple):
    n: int  # the records of the list
    batch_size: int
    full: int  # the number of full batches
    last: list[int]  # the sizes of the batches after them: none, one or two
    remainder: str | None

    @property
    def count(self):
        return self.full + len(self.last)

    def size(self, batch):
        return self.batch_size if batch < self.full else self.last[batch - self.full]

    def begin(self, batch):
        if batch <= self.full:
            return batch * self.batch_size
        return self.full * self.batch_size + sum(self.last[: batch - self.full])


def batches_of(datasets, settings, workers):
    n = number_of_records(datasets, settings.get("weights"))
    batch_size, remainder = settings["batch_size"], settings.get("remainder")
    if batch_size is None:
        batch_size, remainder = workers, "drop"
    full, rest = divmod(n, batch_size)
    last = [rest] if rest else []
    if remainder == "drop":
        last = []
    elif remainder == "balance" and full > 0 and rest > 0:
        both = batch_size + rest
        full, last = full - 1, [both - both // 2, both // 2]
    return Batches(n, batch_size, full, last, remainder)


# Random numbers


def uint64(number):
    """8 bytes, little endian; what is outside of 64 bits, negative numbers too, wraps around."""
    return (number & MASK).to_bytes(8, "little")


def hash_number(key, purpose, data):
    digest = blake2b(data, digest_size=16, key=uint64(key), person=purpose.encode("ascii")).digest()
    return int.from_bytes(digest[:8], "little")


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def random(key, i):
    return mix((key + (i + 1) * 0x9E3779B97F4A7C15) & MASK)


def permute(x, count, seed):
    """Where a permutation of `0 … count` sends `x`."""
    return permutation_table(count, seed)[x] if count <= 65536 else feistel(x, count, seed)


@lru_cache(maxsize=64)
def permutation_table(count, seed):
    numbers = shake_128(b"permute" + uint64(seed)).digest(8 * count)
    numbers = [int.from_bytes(numbers[8 * x : 8 * x + 8], "little") for x in range(count)]
    ranks = [0] * count
    for rank, x in enumerate(
        sorted(range(count), key=numbers.__getitem__)
    ):  # stable: of equal ones the first
        ranks[x] = rank
    return ranks


def feistel(x, count, seed):
    side = math.isqrt(count - 1) + 1
    keys = [hash_number(seed, "permute", bytes([j])) for j in range(8)]
    while True:
        a, b = x // side, x % side
        for key in keys:
            a, b = b, (a + mix(b ^ key) % side) % side
        x = a * side + b
        if x < count:
            return x


# The three orders


def records_per_block(settings):
    """The `N` of `shuffle=N` or `shuffle=True`."""
    if settings["shuffle"] is True:
        return max(1, math.floor(2**28 / (settings["mean_record_bytes"] + 40)))
    return settings["shuffle"]


def place_in_epoch(batches, blocks, key, batch, row):
    """Blocks and strata: the place in the epoch's sequence that is the row of a batch."""
    n, batch_size, full = batches.n, batches.batch_size, batches.full

    # The block that has the batch; the last block has those that are not full.
    block = blocks - 1
    while batch < block * full // blocks:
        block -= 1
    first, stop = block * full // blocks, (block + 1) * full // blocks
    base, height = (
        first * batch_size,
        stop - first,
    )  # `height` is the page's `h`, the places of a stratum
    places = (n if block == blocks - 1 else stop * batch_size) - base
    over = places - height * batch_size
    over = [(2 * i + 1) * places // (2 * over) for i in range(over)]

    if batch >= full:  # a last batch: all places that are over, or every second one
        return base + over[batch - full :: len(batches.last)][row]
    # The j-th step has the place with the j-th smallest random number (no two are equal).
    block_key = key("block", block)
    shuffled = sorted(range(height), key=lambda q: random(block_key, row * height + q))
    index = row * height + shuffled[batch - first]
    # That index is among the places that are not over. Before the i-th that is over are
    # `over[i] - i` of them.
    return base + index + bisect_right([place - i for i, place in enumerate(over)], index)


def position_of_place(n, chunk_size, key, place):
    """Chunks: the position that has a place of the epoch's sequence."""
    chunk, chunks = place // chunk_size, n // chunk_size
    if chunk < chunks:
        chunk = permute(chunk, chunks, key("chunks") // 2)
    return (chunk * chunk_size + place % chunk_size + key("begin")) % n


def position(batches, settings, epoch, batch, row):
    """The position of the record that is in a row of a global batch."""
    n, shuffle = batches.n, settings["shuffle"]

    def key(purpose, number=0):
        return hash_number(settings.get("seed", 0), purpose, uint64(epoch) + uint64(number))

    index = batches.begin(batch) + row
    if shuffle is False:
        dropped = n - batches.full * batches.batch_size if batches.remainder == "drop" else 0
        return (index + epoch * dropped) % n
    if shuffle == "global":
        return permute(index, n, key("global") // 2)

    steps_per_block = -(-records_per_block(settings) // batches.batch_size)  # rounded up
    blocks = max(1, batches.full // steps_per_block)
    chunk_size = max(1, batches.full // blocks * batches.batch_size // 256)
    return position_of_place(n, chunk_size, key, place_in_epoch(batches, blocks, key, batch, row))


# What is asked for


def steps_per_epoch(datasets, settings, workers):
    """The number of steps of an epoch."""
    return batches_of(datasets, settings, workers).count * settings.get("echoing", 1)


def positions(datasets, settings, workers, epoch, step, worker):
    """The positions of the records that are a worker's rows of a step, in the rows' order."""
    if not settings.get("reshuffle_each_iteration", True):
        epoch = 0
    batches = batches_of(datasets, settings, workers)
    batch = step // settings.get("echoing", 1)
    size = batches.size(batch)
    rows = range(worker * size // workers, (worker + 1) * size // workers)
    return [position(batches, settings, epoch, batch, row) for row in rows]
