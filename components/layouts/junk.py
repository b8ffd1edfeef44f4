"""Files that no dataset is made of: hidden ones, and those that systems and tools leave behind."""

import re
from collections.abc import Iterable

from trainer_utils.storage import display_path

_SYSTEM_NAMES = (
    *("Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN"),
    *("System Volume Information", "lost+found"),
)
_SYSTEM = frozenset(_SYSTEM_NAMES)
CLUTTER_NAME = f"(?:^|/)(?:\\.[^/]*|{'|'.join(map(re.escape, sorted(_SYSTEM)))})$"
"""A pattern of RE2: paths whose last name is hidden or an operating system's."""


def is_clutter(parts: Iterable[str]) -> bool:
    """Return whether a path, in parts, is hidden or an operating system's."""
    # A generator would take twice the time, and this is asked of every file.
    for part in parts:  # noqa: SIM110
        if part[:1] == "." or part in _SYSTEM:
            return True
    return False


def names_at_top(names: Iterable[str]) -> str:
    """Return some names as text for a message."""
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
