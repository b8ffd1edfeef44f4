"""Choose the number of shards, and the records of each.

shard_bounds(num_records=10, num_shards=3)         # [0, 3, 6, 10]
"""

import numpy as np
import numpy.typing as npt


def shard_bounds(*, num_records: int, num_shards: int) -> npt.NDArray[np.int64]:
    """Return the bounds of shards, `(num_shards + 1,) int64`. Sizes differ by at most one."""
    return np.arange(num_shards + 1, dtype=np.int64) * num_records // num_shards


def num_shards_for(
    *,
    num_records: int,
    num_bytes: int,
    target_shard_bytes: int,
    shard_multiple: int = 1,
    num_shards: int | None = None,
) -> int:
    """Return the number of shards that brings each closest to the target size, with none empty.

    It is at least 1, since TFX's readers expect a file even for an empty split.

    Args:
        num_records: the number of records in the split.
        num_bytes: the size of the split in bytes.
        target_shard_bytes: the desired size of each shard.
        shard_multiple: a number, such as the number of workers. The result is rounded up to a
            multiple of it, or down if there are too few records.
        num_shards: the desired number of shards, which replaces the target.
    """
    wished = num_shards or max(1, round(num_bytes / target_shard_bytes))
    wished += -wished % shard_multiple
    if wished > num_records > shard_multiple:
        return num_records - num_records % shard_multiple
    return max(1, min(wished, num_records))
