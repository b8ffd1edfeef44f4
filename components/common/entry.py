"""One input, what makes its example (values of columns, and bytes of files), and its fingerprint.

Workers get these; so nothing heavy is imported here.
"""

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from components.common.rejects import RejectedInputError
from trainer_utils import storage
from trainer_utils.format.planning import keyed_digests

_MAX_BLOB_BYTES = 1 << 30  # 1 GiB: an Example, being one protocol buffer, ends at 2 GiB
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


class BlobReader(threading.local):
    """Reads blobs below a base, or below `image_roots`.

    Each thread holds the last row group of each column of Parquet, so rows should come in their
    order.
    """

    def __init__(self, base: str, image_roots: Sequence[str] = ()) -> None:
        self._base = base
        roots = [root for root in (base, *image_roots) if not storage.is_remote(root)]
        self._roots = [(os.path.abspath(root), os.path.realpath(root)) for root in roots]
        self._groups: dict[str, tuple[str, int, Any]] = {}  # by column: path, first row, values

    def read(self, blob: Blob) -> bytes:
        """A blob's bytes; RejectedInputError where they are too large, or not as listed."""
        if blob.size > _MAX_BLOB_BYTES:
            raise RejectedInputError(
                "TOO_LARGE", f"expected at most {_MAX_BLOB_BYTES} bytes, got {blob.size}"
            )
        path = storage.join(self._base, blob.path)
        try:
            return self._read(path, blob)
        except OSError as error:
            raise RejectedInputError(*storage.problem_of(error, path)) from error

    def _read(self, path: str, blob: Blob) -> bytes:
        if blob.row is not None:
            return self._read_row(path, blob.column or "", blob.row)
        root = self._root_of(path)
        if blob.offset is None:
            return storage.read_bytes_of_size(path, blob.size, root=root)
        with storage.open_for_reading(path, root=root) as stream:
            stream.seek(blob.offset)
            data = stream.read(blob.size)
        if len(data) != blob.size:
            detail = f"expected {blob.size} bytes at byte {blob.offset}, got {len(data)}"
            raise storage.FileRefusedError("CHANGED_FILE", detail)
        return data

    def _root_of(self, path: str) -> str | None:
        """The folder that a local file must lie in."""
        if storage.is_remote(path) or not self._roots:
            return None
        for spelling, real in self._roots[1:]:
            if path.startswith((spelling.rstrip("/") + "/", real.rstrip("/") + "/")):
                return real
        return self._roots[0][1]

    def _read_row(self, path: str, column: str, row: int) -> bytes:
        held, first, values = self._groups.get(column, ("", 0, ()))
        if held != path or not first <= row < first + len(values):
            self._groups.pop(column, None)  # before there are two of them
            first, values = _read_row_group(path, self._root_of(path), column, row)
            self._groups[column] = path, first, values
        value = values[row - first].as_py()
        while isinstance(value, dict):  # of a struct, the one field that was read
            (value,) = value.values()
        if value is None:
            raise RejectedInputError("EMPTY_FILE", f"no bytes in row {row}")
        return bytes(value)


def _read_row_group(path: str, root: str | None, column: str, row: int) -> tuple[int, Any]:
    """The number of its first row, and a column's values."""
    import pyarrow.parquet  # takes a third of a second, and few need it

    with storage.open_for_reading(path, root=root) as stream:
        table = pyarrow.parquet.ParquetFile(stream)
        first = 0
        for number in range(table.num_row_groups):
            rows = table.metadata.row_group(number).num_rows
            if row < first + rows:
                return first, table.read_row_group(number, columns=[column]).column(0)
            first += rows
    raise FileNotFoundError(path)


def sum_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> int:
    """The fingerprint of some inputs; those of parts add up to that of the whole, modulo 2**128.

    A sum in no order: it does not matter how the inputs were listed, or on which worker each was
    read.

    Args:
        facts: of each input its identity, and its checksum or None where it was not read.
    """
    # `repr` tells the names a and b from the name a, b; a sum, zero from none.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    parts: list[int] = digests.view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    return sum(part << 32 * place for place, part in enumerate(parts)) % 2**128


def sum_blobs(facts: Iterable[tuple[Blob, int | None]], roots: Sequence[str] = ()) -> int:
    """`sum_facts` of files and parts of files, each with its CRC-32C or None.

    Args:
        roots: folders by which a path begins that is none of the input base: it is known by what
            follows, wherever the inputs lie.
    """
    folders = [f"{root.rstrip('/')}/" for root in roots]

    def name(path: str) -> str:
        return path.removeprefix(next((f for f in folders if path.startswith(f)), ""))

    return sum_facts(((name(blob.path), *blob[1:]), crc) for blob, crc in facts)
