"""The results of `doctor`, one check each.

check = warn("compression", "gzip: Datum cannot read it", "Write it with compression='none'.")
print_parts([checks_table([check])])
"""

import dataclasses
from collections.abc import Iterable

from trainer_utils.text_output import Part, make_table

__all__ = ["Check", "bad", "checks_table", "is_good", "ok", "warn"]

_STYLES = {"ok": "green", "warn": "yellow", "bad": "red"}


@dataclasses.dataclass(frozen=True)
class Check:
    """What was found.

    Args:
        name: what was checked.
        level: `ok`; `warn`, it will cost time or surprise; `bad`, it will fail.
        message: what is there.
        cure: what to do; empty where all is well.
    """

    name: str
    level: str
    message: str
    cure: str = ""


def ok(name: str, message: str) -> Check:
    """All is well."""
    return Check(name, "ok", message)


def warn(name: str, message: str, cure: str) -> Check:
    """It will cost time, or surprise."""
    return Check(name, "warn", message, cure)


def bad(name: str, message: str, cure: str) -> Check:
    """It will fail."""
    return Check(name, "bad", message, cure)


def is_good(checks: Iterable[Check]) -> bool:
    """Whether nothing will fail."""
    return all(check.level != "bad" for check in checks)


def checks_table(checks: Iterable[Check]) -> Part:
    """A line a check, and its cure below it."""
    rows = [
        [check.level, check.name, [check.message, *([f"→ {check.cure}"] if check.cure else [])]]
        for check in checks
    ]
    return make_table(None, rows, styles=_STYLES)
