"""The order of records in plain Python: a second implementation, the tests' oracle.

The author wrote it from docs/order.md alone, without having seen the code of `trainer_utils.order`.
It needs only the standard library. Read it next to that page, which has the same order of topics.
Clarity comes before speed.

`datasets` is a list of datasets, each a list of the sizes of its shards in records. `settings` is a
dict with the names of the page: batch_size (None: single examples), shuffle, seed, remainder,
weights, echoing, reshuffle_each_iteration, and mean_record_bytes, the `bytes` of `shuffle=True`.
"""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b, shake_128
from typing import NamedTuple

MASK = 2**64 - 1


# Positions


def number_of_records(datasets, weights):
    """Return `n`, the number of records of an epoch, on which the order depends."""
    totals = [sum(shards) for shards in datasets]
    if weights is None:
        return sum(totals)
    shares = whole_shares(weights)
    return max(math.ceil(Fraction(t * sum(shares), w)) for t, w in zip(totals, shares, strict=True))


# Batches


class Batches(NamedTuple):
    n: int  # the number of records of the list
    batch_size: int
    full: int  # the number of full batches
    last: list[int]  # the sizes of the batches after them: zero, one or two batches
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
    """Return 8 bytes, little endian; numbers outside of 64 bits and negative ones wrap around."""
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
    """Return the image of `x` under a permutation of `0 … count`."""
    return permutation_table(count, seed)[x] if count <= 65536 else feistel(x, count, seed)


@lru_cache(maxsize=64)
def permutation_table(count, seed):
    numbers = shake_128(b"permute" + uint64(seed)).digest(8 * count)
    numbers = [int.from_bytes(numbers[8 * x : 8 * x + 8], "little") for x in range(count)]
    ranks = [0] * count
    for rank, x in enumerate(
        sorted(range(count), key=numbers.__getitem__)
    ):  # stable: equal elements keep their order
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
    """Return the `N` of `shuffle=N` or `shuffle=True`."""
    if settings["shuffle"] is True:
        return max(1, math.floor(2**28 / (settings["mean_record_bytes"] + 40)))
    return settings["shuffle"]


def place_in_epoch(batches, blocks, key, batch, row):
    """Return the place in the sequence of the epoch for a row of a batch (blocks and strata)."""
    n, batch_size, full = batches.n, batches.batch_size, batches.full

    # The block of the batch; batches that are not full belong to the last block.
    block = blocks - 1
    while batch < block * full // blocks:
        block -= 1
    first, stop = block * full // blocks, (block + 1) * full // blocks
    base, height = (
        first * batch_size,
        stop - first,
    )  # `height` is `h` on the page, the number of places of a stratum
    places = (n if block == blocks - 1 else stop * batch_size) - base
    over = places - height * batch_size
    over = [(2 * i + 1) * places // (2 * over) for i in range(over)]

    if batch >= full:  # a last batch: all remaining places, or every second one
        return base + over[batch - full :: len(batches.last)][row]
    # The j-th step has the place with the j-th smallest random number (no two are equal).
    block_key = key("block", block)
    shuffled = sorted(range(height), key=lambda q: random(block_key, row * height + q))
    index = row * height + shuffled[batch - first]
    # The index counts only places that are not left over. There are `over[i] - i` of these before
    # the i-th leftover place.
    return base + index + bisect_right([place - i for i, place in enumerate(over)], index)


def position_of_place(n, chunk_size, key, place):
    """Return the position of the record at a place in the sequence of the epoch (chunks)."""
    chunk, chunks = place // chunk_size, n // chunk_size
    if chunk < chunks:
        chunk = permute(chunk, chunks, key("chunks") // 2)
    return (chunk * chunk_size + place % chunk_size + key("begin")) % n


def position(batches, settings, epoch, batch, row):
    """Return the position of the record in a row of a global batch."""
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


# Mixtures


def whole_shares(weights):
    """Return the smallest integers with the ratios of the weights, or rounded to 10,000 parts."""
    exact = [Fraction(repr(float(weight))) for weight in weights]
    unit = math.lcm(*(weight.denominator for weight in exact))
    shares = [int(weight * unit) for weight in exact]
    shares = [share // math.gcd(*shares) for share in shares]
    if sum(shares) > 10_000:
        shares = [max(1, round(weight / sum(exact) * 10_000)) for weight in exact]
        shares = [share // math.gcd(*shares) for share in shares]
    return shares


@lru_cache(maxsize=64)
def turns(shares):
    """Return the part of each row in one period of the mixture."""
    total, q = sum(shares), max(2, 2 * len(shares) - 2)
    come, rows = [0] * len(shares), []
    for row in range(total):
        waiting = []
        for part, w in enumerate(shares):
            j = come[part]
            if j < w and math.ceil(Fraction((j * q + 1) * total, q * w)) - 1 <= row:
                waiting.append(((j * q + q - 1) * total // (q * w), str(part), part))
        part = min(waiting)[-1]
        come[part] += 1
        rows.append(part)
    return rows


def mixed_positions(datasets, settings, epoch, batch):
    """Return the positions of all rows of a batch, for one stage and parts named by number."""
    totals = [sum(shards) for shards in datasets]
    shares = whole_shares(settings["weights"])
    whose, batches = turns(tuple(shares)), batches_of(datasets, settings, settings["workers"])
    start = epoch * batches.n + batches.begin(batch)
    rows = []  # part, its epoch, its block and the index there, position
    for row in range(start, start + batches.size(batch)):
        periods, place = divmod(row, len(whose))
        part = whose[place]
        own, place = divmod(periods * shares[part] + whose[:place].count(part), totals[part])
        seed = hash_number(settings.get("seed", 0), "part", str(part).encode()) % 2**63
        single = {**settings, "seed": seed, "batch_size": 1, "remainder": None}
        alone = Batches(totals[part], 1, totals[part], [], None)
        index = 0
        if settings["shuffle"] not in (False, "global"):
            index = index_in_block(alone, single, own, place)
        found = sum(totals[:part]) + position(alone, single, own, place, 0)
        rows.append((part, own, *(index or (0, 0)), found))
    for group in {row[:3] for row in rows}:
        places = [number for number, row in enumerate(rows) if row[:3] == group]
        if settings["shuffle"] in (False, "global"):
            continue
        for number, row in zip(places, sorted(rows[n] for n in places), strict=True):
            rows[number] = row
    return [row[-1] for row in rows]


def index_in_block(batches, settings, epoch, step):
    """Return the block of a step with a batch of one record, and the index of the record in it."""
    blocks = max(1, batches.full // records_per_block(settings))
    block = max(k for k in range(blocks) if k * batches.full // blocks <= step)
    first, stop = block * batches.full // blocks, (block + 1) * batches.full // blocks
    key = hash_number(settings["seed"], "block", uint64(epoch) + uint64(block))
    shuffled = sorted(range(stop - first), key=lambda q: random(key, q))
    return block, shuffled[step - first]


# Results


def steps_per_epoch(datasets, settings, workers):
    """Return the number of steps of an epoch."""
    return batches_of(datasets, settings, workers).count * settings.get("echoing", 1)


def positions(datasets, settings, workers, epoch, step, worker):
    """Return the positions of the records of a worker in a step, in the order of rows."""
    if not settings.get("reshuffle_each_iteration", True):
        epoch = 0
    batches = batches_of(datasets, settings, workers)
    batch = step // settings.get("echoing", 1)
    size = batches.size(batch)
    rows = range(worker * size // workers, (worker + 1) * size // workers)
    if settings.get("weights") is not None:
        mixed = {**settings, "workers": workers}
        return mixed_positions(datasets, mixed, epoch, batch)[rows.start : rows.stop]
    return [position(batches, settings, epoch, batch, row) for row in rows]
