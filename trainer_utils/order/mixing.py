"""`weights=`: several datasets mixed, so that records of each come as often as its weight says.

ranges = mix_ranges([photos.ranges, drawings.ranges], [3, 1])

An epoch is as long as it takes to see every record of all of them; those that run out begin again.
"""

import itertools
from collections.abc import Sequence

from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import FileRange, RecordPositions

__all__ = ["mix_ranges"]

_MOST_TURNS = 100_000  # of one dataset in an epoch, whose list of parts is held in memory
_PARTS = 840  # of an epoch: many enough that the datasets are mixed where nothing is shuffled


def mix_ranges(
    datasets: Sequence[Sequence[FileRange]], weights: Sequence[float] | None
) -> list[FileRange]:
    """The parts of files that an epoch reads.

    Args:
        datasets: the parts of files of each.
        weights: of each, in any unit; None: every record comes once.

    Raises:
        ConfigError: there is not a weight for each dataset, one of them is empty, or the weights
            lie too far apart.
    """
    if weights is None:
        return list(itertools.chain.from_iterable(datasets))
    totals = [sum(part.take for part in ranges) for ranges in datasets]
    if len(weights) != len(datasets) or not all(totals):
        rule = f"one for each of {len(datasets)} datasets with records in them"
        raise ConfigError.of("weights", weights, allowed=rule)
    longest = max(total / weight for total, weight in zip(totals, weights, strict=True))
    turns = max(longest * weight / total for total, weight in zip(totals, weights, strict=True))
    if not turns <= _MOST_TURNS:
        rule = f"numbers by which no dataset is read over {_MOST_TURNS:,} times in an epoch"
        raise ConfigError.of("weights", weights, allowed=rule)
    repeated = []
    for ranges, total, weight in zip(datasets, totals, weights, strict=True):
        records = round(longest * weight)
        again = RecordPositions([*ranges] * -(-records // total))
        repeated.append((records, again))
    parts = min(_PARTS, min(records for records, _ in repeated))
    return list(
        itertools.chain.from_iterable(
            ranges.cut(part * records // parts, (part + 1) * records // parts)
            for part in range(parts)
            for records, ranges in repeated
        )
    )
