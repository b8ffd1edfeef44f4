"""Something amiss in a dataset.

Problem("Split-train/data_tfrecord-00000-of-00008", "… (record 7, byte 1234). …").to_json()
"""

import dataclasses
import re
from typing import Any

__all__ = ["Problem"]

_RECORD = re.compile(r"\brecord (\d+)\b")
_BYTE = re.compile(r"\bbyte (\d+)\b")


@dataclasses.dataclass(frozen=True)
class Problem:
    """The file, as the dataset names it, and a sentence."""

    path: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """With the number of the record and the byte, where the sentence names them."""
        found: dict[str, Any] = {"path": self.path, "message": self.message}
        for name, pattern in (("record", _RECORD), ("byte", _BYTE)):
            if places := pattern.findall(self.message):
                found[name] = int(places[-1])
        return found
