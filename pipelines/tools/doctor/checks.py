"""One thing that was looked at.

Check("disk", "warn", "2.1 GB free in '/tmp'", cure="Make room, or set TMPDIR.")
"""

import dataclasses

__all__ = ["LEVELS", "Check", "bad", "ok", "warn"]

LEVELS = ("ok", "warn", "bad")


@dataclasses.dataclass(frozen=True)
class Check:
    """What was found.

    Args:
        name: of what was looked at.
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
