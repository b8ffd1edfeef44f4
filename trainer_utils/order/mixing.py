"""`weights=`: several datasets mixed, so that records of each come as often as its weight says.

ranges = mixed_ranges([photos, drawings], [3, 1])

An epoch is as long as it takes to see every record of all of them; those that run out begin again.
It is a list of parts of files like any other, so that all that holds for one dataset holds for
several: exact shares, orders, resuming.
"""

import itertools
from collections.abc import Sequence

from trainer_utils.dataset.opening import FileRange
from trainer_utils.dataset.selection import Source
from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import cut

__all__ = ["mixed_ranges"]

_PARTS = 840  # every lane has parts of all datasets, many enough to be mixed in its order


def mixed_ranges(sources: Sequence[Source], weights: Sequence[float] | None) -> list[FileRange]:
    """The parts of files that an epoch reads.

    Args:
        sources: what is read.
        weights: of each, in any unit; None: every record comes once.

    Raises:
        ConfigError: there is not a weight for each dataset, or one of them is empty.
    """
    if weights is None:
        return [part for source in sources for part in source.ranges]
    if len(weights) != len(sources) or not all(source.num_records for source in sources):
        raise ConfigError(
            f"weights: expected one for each of {len(sources)} datasets with records in them, "
            f"got {weights!r}"
        )
    longest = max(s.num_records / weight for s, weight in zip(sources, weights, strict=True))
    repeated = []
    for source, weight in zip(sources, weights, strict=True):
        records = round(longest * weight)
        times = -(-records // source.num_records)
        repeated.append((records, [*source.ranges] * times))
    parts = min(_PARTS, min(records for records, _ in repeated))
    return list(
        itertools.chain.from_iterable(
            cut(ranges, part * records // parts, (part + 1) * records // parts)
            for part in range(parts)
            for records, ranges in repeated
        )
    )
