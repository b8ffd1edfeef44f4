"""One input, and what makes its example: bytes of files, and values of columns.

Workers get these; so nothing heavy is imported here.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from trainer_utils.format import ConfigError

KINDS = ("int", "float", "string", "label")
Scalar = int | float | str
Value = Scalar | tuple[Scalar, ...] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A feature that the inputs give a value for."""

    name: str
    kind: str  # `int`, `float`, `string`, or `label`: strings that become ids of a vocabulary
    is_list: bool = False  # its values are tuples; else single values, or None where missing
    # Of a list, where all have that many values by nature, as a vector has; else None
    length: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"columns[{self.name!r}]: expected one of {', '.join(KINDS)}, got {self.kind!r}"
            )


class Blob(NamedTuple):
    """Bytes that are read when their shard is written: a file, or a part of one."""

    path: str  # relative to the input base, with `/`; below another root the whole path or url
    size: int  # in bytes; of a row about so many
    offset: int | None = None  # of a member of an archive, where its bytes begin
    row: int | None = None  # of a Parquet file, the number of the row
    column: str | None = None  # and the name of its column


class BlobColumn(NamedTuple):
    """A feature whose bytes come from files: its name, and `image`, `label_map` or `audio`."""

    name: str
    kind: str


class Entry(NamedTuple):
    """One input that should become an example."""

    # What it is known by, unique: the file's path relative to the input base, or `<archive or
    # table>/<key or row>`. Bytes that are not UTF-8 are surrogates
    name: str
    split: str | None  # the split it names, or None where a hash decides
    # blobs, values: one for each of the table's `blobs` and `columns`
    blobs: tuple[Blob, ...]
    values: tuple[Value, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ExcludedInput:
    """One input that will not be read; `code` is None where it is skipped on purpose."""

    name: str
    split: str | None
    code: str | None
    detail: str


def label_column(columns: Sequence[Column]) -> int | None:
    """The place of the column whose classes are counted and kept in proportion."""
    for place, column in enumerate(columns):
        if column.kind == "label" or column.name in ("label", "labels"):
            return place
    return None
