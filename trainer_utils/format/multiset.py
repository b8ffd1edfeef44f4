"""A checksum of records that does not depend on their order: the same before and after a shuffle.

    multiset_checksum(block.lengths, block.payload_crcs)
    combine_checksums([sum_of_one_shard, sum_of_another])      # of both together

Each record's length and CRC-32C are mixed to 64 bits, and these are added: a lost record, one that
is there twice, or one put in another's stead changes the sum.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from trainer_utils.format.planning import splitmix64


def multiset_checksum(lengths: npt.NDArray[np.int64], payload_crcs: npt.NDArray[np.uint32]) -> int:
    """The order-free checksum of some records.

    Args:
        lengths: `(records,) int64`, each payload's length in bytes.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C as its frame has it.

    Returns:
        64 bits, unsigned; 0 for no records.
    """
    mixed = lengths.astype(np.uint64) << np.uint64(32) | payload_crcs.astype(np.uint64)
    return int(np.sum(splitmix64(mixed, np.uint64(1)), dtype=np.uint64))


def combine_checksums(sums: Iterable[int]) -> int:
    """The checksum of several lots of records together."""
    return sum(sums) % 2**64
