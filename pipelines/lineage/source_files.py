"""The raw file that a record was made of, by what the record is called.

find_source("photos.tar:…", bases=["photos/"])
find_source("reviews.csv:17", bases=["reviews.csv"])     # file reviews.csv, row 17
"""

import dataclasses
import os
import re
from collections.abc import Sequence

from trainer_utils.storage import is_remote, join

__all__ = ["SourceFile", "find_source"]

_ROW = re.compile(r"(?P<file>.+):(?P<row>\d+)", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFile:
    """Where a record came from.

    Args:
        path: of the file as it is now, else where it was.
        exists: whether it is there; None where that was not looked at, as for `gs://`.
        member: of the archive or folder of rows that the file is, where it is one.
        row: its number in the file, as TextExampleGen counts.
    """

    path: str
    exists: bool | None
    member: str | None = None
    row: int | None = None


def find_source(name: str, *, bases: Sequence[str]) -> SourceFile | None:
    """The file of a record.

    Args:
        name: the record's `filename` or `id`.
        bases: the folders or files that the examples were made from, the likeliest first.

    Returns:
        None where there are no bases.
    """
    row = _ROW.fullmatch(name)
    for base in bases:
        folder = os.path.dirname(base) if os.path.isfile(base) else base
        if is_remote(base):
            return _source(join(base, row["file"] if row else name), None, row=row)
        if os.path.isfile(path := join(folder, name)):
            return SourceFile(path=path, exists=True)
        if row and os.path.isfile(path := join(folder, row["file"])):
            return _source(path, True, row=row)
        if (archive := _archive(folder, name)) is not None:
            return archive
    if not bases:
        return None
    return _source(join(bases[0], row["file"] if row else name), False, row=row)


def _source(path: str, exists: bool | None, *, row: re.Match[str] | None) -> SourceFile:
    return SourceFile(path=path, exists=exists, row=int(row["row"]) if row else None)


def _archive(folder: str, name: str) -> SourceFile | None:
    """A file that stands for a folder of the name, as an archive does."""
    parts = name.split("/")
    for count in range(len(parts) - 1, 0, -1):
        path = join(folder, "/".join(parts[:count]))
        if os.path.isfile(path):
            return SourceFile(path=path, exists=True, member="/".join(parts[count:]))
    return None
