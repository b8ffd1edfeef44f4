"""Count the inputs of a conversion by outcome, and check that none is unaccounted for.

Accounting(found=603, written=600, rejected=3, skipped=0)
Accounting(found=603, written=600)      # raises: 603 is not 600 + 0 + 0
"""

import dataclasses

from trainer_utils.core.errors import DatasetError

_MAX_NUMBER = 1 << 64  # an exclusive limit for all numbers in a manifest


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accounting:
    """The number of inputs by outcome: found = written + rejected + skipped.

    Args:
        found: the number of inputs listed.
        written: the number of examples written.
        rejected: the number of bad inputs; each is a line of `rejects.jsonl`.
        skipped: the number of inputs left out by a setting or a documented rule.
    """

    found: int = 0
    written: int = 0
    rejected: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        if not all(map(is_count, vars(self).values())):
            raise DatasetError(f"accounting: expected counts, got {self}")
        if self.found != self.written + self.rejected + self.skipped:
            raise DatasetError(f"accounting: expected found = written + rejected + skipped: {self}")

    def __add__(self, other: "Accounting") -> "Accounting":
        theirs = vars(other)
        return Accounting(**{name: count + theirs[name] for name, count in vars(self).items()})

    def __str__(self) -> str:
        return (
            f"{self.found} found = {self.written} written "
            f"+ {self.rejected} rejected + {self.skipped} skipped"
        )


def is_count(value: object) -> bool:
    """Return whether a value is an int that a manifest can hold."""
    return type(value) is int and 0 <= value < _MAX_NUMBER
