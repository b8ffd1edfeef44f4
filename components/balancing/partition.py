"""Cut records into shards of equal bytes, or spread classes evenly over shards.

All functions are pure and take time linear in the number of records.
"""

import numpy as np
import numpy.typing as npt

from trainer_utils.format import keyed_hash

Ints = npt.NDArray[np.int64]


def equal_byte_bounds(sizes: Ints, *, num_shards: int) -> Ints:
    """Cut records, in order, into shards whose sizes differ by at most the largest record.

    Such cuts always exist (Bárány and Grinberg, "Block partitions of sequences", 2015). The
    algorithm: let `least` be the largest size that every shard can reach. After j shards of `least`
    to `least + largest` bytes, the possible ends of the j-th shard form a range without gaps, since
    no record is larger than that span. The cuts can therefore be chosen from the last backwards.

    Args:
        sizes: `(records,) int64`, bytes of each record, at least 1.
        num_shards: at most the number of records.

    Returns:
        `(num_shards + 1,) int64`; no shard is empty.
    """
    ends = np.concatenate([[0], np.cumsum(sizes)])
    largest = int(sizes.max(initial=0))
    low, high = 0, int(ends[-1]) // num_shards
    while low < high:  # find the largest `least` that leaves enough for every shard
        middle = (low + high + 1) // 2
        if _shortest_cuts(ends, middle, num_shards) is None:
            high = middle - 1
        else:
            low = middle
    earliest = _shortest_cuts(ends, low, num_shards)
    assert earliest is not None
    latest = [0]
    for _ in range(num_shards):
        reach = ends[latest[-1]] + low + largest
        latest.append(int(np.searchsorted(ends, reach, side="right")) - 1)
    bounds = [len(sizes)]
    for shard in range(num_shards - 1, 0, -1):
        stop = int(ends[bounds[-1]])
        first = max(int(np.searchsorted(ends, stop - low - largest)), earliest[shard])
        last = min(int(np.searchsorted(ends, stop - low, side="right")) - 1, latest[shard])
        ideal = int(np.searchsorted(ends, stop - stop // (shard + 1)))
        bounds.append(min(max(ideal, first), last))
    return np.array([0, *reversed(bounds)], np.int64)


def _shortest_cuts(ends: Ints, least: int, num_shards: int) -> list[int] | None:
    """Return the ends of shards that are closed on reaching `least`; None if bytes run out."""
    cuts = [0]
    for _ in range(num_shards):
        cut = int(np.searchsorted(ends, ends[cuts[-1]] + least))
        if cut == len(ends):
            return None
        cuts.append(cut)
    return cuts


def assign_positions_by_class(
    classes: Ints, *, num_shards: int, order: Ints, seed: int
) -> tuple[Ints, Ints]:
    """Assign the records of each class to the shards in turn (round-robin).

    Each class starts at the shard after the one where the previous class ended. Every shard
    therefore has the share of each class, and the same number of records, to within one record.

    Args:
        classes: `(records,) int64`, the class of each record.
        num_shards: at most the number of records.
        order: `(records,) int64`, a permutation: the rank of each record. Records of a class are
            assigned, and ordered within a shard, by rank.
        seed: the seed of the order of shards.

    Returns:
        The position of each record, `(records,) int64`, and the bounds of the shards,
        `(num_shards + 1,)`.
    """
    records = len(classes)
    turn = np.empty(records, np.int64)
    turn[np.lexsort((order, classes))] = np.arange(records)
    hashes = [
        keyed_hash(shard.to_bytes(8, "little"), seed=seed, purpose="deal")
        for shard in range(num_shards)
    ]
    shards = np.argsort(np.argsort(np.array(hashes, object)))[turn % num_shards]
    places = np.empty(records, np.int64)
    places[np.lexsort((order, shards))] = np.arange(records)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=num_shards))])
    return places, bounds.astype(np.int64)
