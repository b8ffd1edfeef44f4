"""A problem of a dataset.

Problem("Split-train/data_tfrecord-00000-of-00008", "… Write it again.", record=7, offset=1234)
Problem.of(error, "Split-train/data_tfrecord-00000-of-00008")     # with what the error knows
"""

import dataclasses

from trainer_utils.format import DatasetError
from trainer_utils.format.json_text import JsonObject

__all__ = ["Problem"]


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong, and where.

    Args:
        path: the file, as the dataset names it.
        message: a sentence.
        record: the record's number in the file, from 0 on, where it is of one.
        offset: in the file, in (decompressed) bytes, where it is known.
    """

    path: str
    message: str
    record: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: DatasetError, path: str) -> "Problem":
        """What an error says of a file."""
        return cls(path, str(error), error.record, error.offset)

    def to_json(self) -> JsonObject:
        """With the number of the record and the byte, where they are known."""
        found = {"path": self.path, "message": self.message}
        places = {"record": self.record, "byte": self.offset}
        return found | {name: place for name, place in places.items() if place is not None}
