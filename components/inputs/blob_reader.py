"""Read the bytes of inputs: whole files, ranges of them, and cells of Parquet files."""

import bisect
import collections
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, BinaryIO

from components.inputs.input_table import Blob
from components.inputs.parquet_cells import CellReader
from components.inputs.rejects import RejectedInputError
from trainer_utils import storage

_GROUPS_AT_ONCE = 4  # row groups that threads read at the same time
_MAX_BLOB_BYTES = 1 << 30  # 1 GiB: an Example is one protocol buffer, whose limit is 2 GiB


class BlobReader(threading.local):
    """A reader of blobs below a base or one of `file_roots`.

    Each thread streams the last row group of each Parquet column, so read rows in order, or pass a
    cache of row groups.

    Args:
        base: the folder that relative paths start from.
        file_roots: other folders that files may be in.
        follow_links: read files that links outside of these folders lead to.
        row_groups: a cache of row groups that all threads share, for rows in random order.
    """

    def __init__(
        self,
        base: str,
        file_roots: Sequence[str] = (),
        *,
        follow_links: bool = False,
        row_groups: "RowGroups | None" = None,
    ) -> None:
        self._row_groups = row_groups
        self.base, self._follow_links = base, follow_links
        roots = [root for root in (base, *file_roots) if not storage.is_remote(root)]
        self._roots = [(os.path.abspath(root), os.path.realpath(root)) for root in roots]
        self._cells: dict[str, _OpenColumn] = {}  # by column

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes; raise RejectedInputError if it is too large or has changed."""
        if blob.size > _MAX_BLOB_BYTES:
            raise RejectedInputError(
                "TOO_LARGE", f"expected at most {_MAX_BLOB_BYTES} bytes, got {blob.size}"
            )
        path = storage.join(self.base, blob.path)
        try:
            return self._read(path, blob)
        except OSError as error:
            raise RejectedInputError(*storage.problem_of(error, path)) from error

    def _read(self, path: str, blob: Blob) -> bytes:
        """Read a file, a part of a file, or a value of a Parquet column."""
        if blob.row is not None:
            return self._read_row(path, blob.column or "", blob.row)
        root = self._root_of(path)
        if blob.offset is None:
            return storage.read_bytes_of_size(path, blob.size, root=root)
        if storage.is_remote(path):  # one request, of these bytes only
            data = storage.read_range(path, start=blob.offset, stop=blob.offset + blob.size)
        else:
            with storage.open_for_reading(path, root=root) as stream:
                stream.seek(blob.offset)
                data = stream.read(blob.size)
        if len(data) != blob.size:
            detail = f"expected {blob.size} bytes at byte {blob.offset}, got {len(data)}"
            raise storage.FileRefusedError("CHANGED_FILE", detail)
        return data

    def _root_of(self, path: str) -> str | None:
        """Return the folder that a local file must be in."""
        if self._follow_links or storage.is_remote(path) or not self._roots:
            return None
        for spelling, real in self._roots[1:]:
            if path.startswith((spelling.rstrip("/") + "/", real.rstrip("/") + "/")):
                return real
        return self._roots[0][1]

    def _read_row(self, path: str, column: str, row: int) -> bytes:
        value = self._cell(path, column, row)
        while isinstance(value, dict):  # unwrap the one field of a struct that was read
            (value,) = value.values()
        if value is None:
            raise RejectedInputError("EMPTY_FILE", f"no bytes in row {row}")
        return bytes(value)

    def _cell(self, path: str, column: str, row: int) -> Any:
        """Return a value of a Parquet column, from the cache of row groups or from the stream."""
        if self._row_groups is not None:
            return self._row_groups.value(path, self._root_of(path), column, row)
        cells = self._cells.get(column)
        if cells is None or cells.path != path:
            self._cells.pop(column, None)
            stream = storage.open_for_reading(path, root=self._root_of(path))
            self._cells[column] = cells = _OpenColumn(path, stream, column)
        try:
            return cells.reader.value(row)
        except IndexError:
            raise FileNotFoundError(path) from None
        except Exception as error:
            if storage.is_host_error(error):  # a retry opens the file again
                self._cells.pop(column, None)
            raise


class _OpenColumn:
    """A column of an open Parquet file, which is closed when no thread needs it any more."""

    def __init__(self, path: str, stream: BinaryIO, column: str) -> None:
        self.path = path
        weakref.finalize(self, stream.close)
        self.reader = CellReader(stream, column)


class RowGroups:
    """The row groups that were used last, for several threads.

    Threads read groups of different files at the same time, of one file one after the other.

    Args:
        max_bytes: the most bytes to hold, in addition to the groups that threads read.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._lock = threading.Lock()
        self._reading = threading.BoundedSemaphore(_GROUPS_AT_ONCE)
        self._turns = collections.defaultdict[tuple[str, str], threading.Lock](threading.Lock)
        # By path, column and first row: the number of rows, and their values or an error
        self._held: collections.OrderedDict[tuple[str, str, int], tuple[int, Any]] = (
            collections.OrderedDict()
        )
        # By path and column: the first rows of the groups that are held, in order
        self._firsts = collections.defaultdict[tuple[str, str], list[int]](list)

    def value(self, path: str, root: str | None, column: str, row: int) -> Any:
        """Return a value of a column; raise the `OSError` of its row group if it is damaged."""
        stored_value = self._find(path, column, row)
        if stored_value is None:
            with self._lock:
                turn = self._turns[path, column]
            with turn:
                stored_value = self._find(path, column, row)
                if stored_value is None:
                    with self._reading:
                        stored_value = _read_row_group(path, root, column, row)
                    self._hold(path, column, stored_value)
        first, _, values = stored_value
        if isinstance(values, OSError):  # held: a damaged group is not read for each row
            raise values
        return values[row - first].as_py()

    def _find(self, path: str, column: str, row: int) -> tuple[int, int, Any] | None:
        """Return the first row, the number of rows and the values of a group, if it is held."""
        with self._lock:
            firsts = self._firsts[path, column]
            place = bisect.bisect_right(firsts, row) - 1
            if place < 0:
                return None
            key = path, column, firsts[place]
            count, values = self._held[key]
            if row >= key[2] + count:
                return None
            self._held.move_to_end(key)
            return key[2], count, values

    def _hold(self, path: str, column: str, group: tuple[int, int, Any]) -> None:
        first, count, values = group
        with self._lock:
            self._held[path, column, first] = count, values
            bisect.insort(self._firsts[path, column], first)
            self._bytes += getattr(values, "nbytes", 0)
            while self._bytes > self._max_bytes and len(self._held) > 1:
                (*where, oldest), (_, dropped) = self._held.popitem(last=False)
                self._firsts[where[0], where[1]].remove(oldest)
                self._bytes -= getattr(dropped, "nbytes", 0)


def _read_row_group(path: str, root: str | None, column: str, row: int) -> tuple[int, int, Any]:
    """Return a row group's first row, number of rows, and a column's values or its `OSError`."""
    import pyarrow.parquet  # takes a third of a second, and is rarely needed

    with storage.open_for_reading(path, root=root) as stream:
        table = pyarrow.parquet.ParquetFile(stream)
        first = 0
        for number in range(table.num_row_groups):
            rows = table.metadata.row_group(number).num_rows
            if row < first + rows:
                try:
                    return first, rows, table.read_row_group(number, columns=[column]).column(0)
                except OSError as error:
                    if storage.is_host_error(error):
                        raise
                    return first, rows, error
            first += rows
    raise FileNotFoundError(path)
