"""Cuts a sequence of records into shards of equal bytes, or spreads classes evenly over shards.

Pure functions of arrays, in time linear in the records.
"""

import numpy as np
import numpy.typing as npt

from trainer_utils.format import keyed_hash

Ints = npt.NDArray[np.int64]


def equal_byte_bounds(sizes: Ints, *, num_shards: int) -> Ints:
    """Cuts records, in their order, into shards whose bytes differ by at most the largest record.

    Such cuts always exist (Bárány and Grinberg, "Block partitions of sequences", 2015). Found
    so: let `least` be the most that every shard can be given. After j shards of `least` to
    `least + largest` bytes, the places where the j-th can end are a range without gaps, since no
    record is larger than that span; so the cuts can be chosen from the last backwards.

    Args:
        sizes: `(records,) int64`, in bytes, each at least 1.
        num_shards: at most the number of records.

    Returns:
        `(num_shards + 1,) int64`; no shard is empty.
    """
    ends = np.concatenate([[0], np.cumsum(sizes)])
    largest = int(sizes.max(initial=0))
    low, high = 0, int(ends[-1]) // num_shards
    while low < high:  # the largest `least` that leaves enough for every shard
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
    """Where shards end that are closed as soon as they have `least`; None where bytes run out."""
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
    """Assigns the records of each class to the shards in turn (round-robin).

    The first class's turn ends at some shard; the next class's begins behind it. So each shard has
    each class's share to within one record, and as many records as any other to within one.

    Args:
        classes: `(records,) int64`, each record's class.
        num_shards: at most the number of records.
        order: `(records,) int64`, a permutation: each record's position in the order in which the
            records of a class are assigned, and stand in a shard.
        seed: of the order in which the shards take turns.

    Returns:
        Each record's position, `(records,) int64`, and the shards' bounds, `(num_shards + 1,)`.
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
