"""What somebody else counted in all records, for the page to show beside its own sample.

GivenStatistics(split="train", present=404, missing=0, unique=5, frequent=[("cat", 80)])
"""

import dataclasses
from collections.abc import Sequence

__all__ = ["GivenStatistics"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenStatistics:
    """Of one feature in one split; None is what TFDV does not count for its kind.

    Args:
        split: that they are of.
        present, missing: examples with and without the feature.
        numbers: `least`, `median`, `mean`, `most` and `standard deviation`, of numbers.
        zeros: how many numbers are 0.
        unique: different values.
        frequent: values with their counts, the most frequent first.
    """

    split: str
    present: int
    missing: int
    numbers: Sequence[float] | None = None
    zeros: int | None = None
    unique: int | None = None
    frequent: Sequence[tuple[str, int]] = ()
