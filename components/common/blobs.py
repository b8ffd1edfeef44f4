"""Reads the bytes that entries name: whole files, members of archives, rows of Parquet files."""

import os
from collections.abc import Sequence
from typing import Any

from components.common.entry import Blob
from components.common.rejects import RejectedInputError
from trainer_utils.storage import (
    FileRefusedError,
    is_remote,
    join,
    open_for_reading,
    problem_of,
    read_bytes_of_size,
)

_MAX_BLOB_BYTES = 1 << 30  # 1 GiB: an Example, being one protocol buffer, ends at 2 GiB


class BlobReader:
    """Reads blobs below a base, or below `image_roots`; not for several threads at once.

    It holds the last row group of each column of Parquet, so rows should come in their order.
    """

    def __init__(self, base: str, image_roots: Sequence[str] = ()) -> None:
        self._base = base
        roots = [root for root in (base, *image_roots) if not is_remote(root)]
        self._roots = [(os.path.abspath(root), os.path.realpath(root)) for root in roots]
        self._groups: dict[str, tuple[str, int, Any]] = {}  # by column: path, first row, values

    def read(self, blob: Blob) -> bytes:
        """A blob's bytes; RejectedInputError where they are too large, or not as listed."""
        if blob.size > _MAX_BLOB_BYTES:
            raise RejectedInputError(
                "TOO_LARGE", f"expected at most {_MAX_BLOB_BYTES} bytes, got {blob.size}"
            )
        path = join(self._base, blob.path)
        try:
            return self._read(path, blob)
        except OSError as error:
            raise RejectedInputError(*problem_of(error, path)) from error

    def _read(self, path: str, blob: Blob) -> bytes:
        if blob.row is not None:
            return self._read_row(path, blob.column or "", blob.row)
        root = self._root_of(path)
        if blob.offset is None:
            return read_bytes_of_size(path, blob.size, root=root)
        with open_for_reading(path, root=root) as stream:
            stream.seek(blob.offset)
            data = stream.read(blob.size)
        if len(data) != blob.size:
            detail = f"expected {blob.size} bytes at byte {blob.offset}, got {len(data)}"
            raise FileRefusedError("CHANGED_FILE", detail)
        return data

    def _root_of(self, path: str) -> str | None:
        """The folder that a local file must lie in."""
        if is_remote(path) or not self._roots:
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

    with open_for_reading(path, root=root) as stream:
        table = pyarrow.parquet.ParquetFile(stream)
        first = 0
        for number in range(table.num_row_groups):
            rows = table.metadata.row_group(number).num_rows
            if row < first + rows:
                return first, table.read_row_group(number, columns=[column]).column(0)
            first += rows
    raise FileNotFoundError(path)
