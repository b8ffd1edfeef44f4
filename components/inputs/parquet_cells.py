"""Read single values of a Parquet column in order, in batches of bounded bytes.

A row group may have gigabytes of photos, and Arrow has no access to single rows. So the column is
streamed from the beginning of the row group up to the row, and on from there for the next row.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

BATCH_BYTES = 16 << 20
"""Approximate bytes of the values in memory at a time."""

_PAGE_VALUES = 1024
_BUFFER_BYTES = 1 << 20  # read at a time; without a buffer, Arrow reads a whole column chunk
# A writer stores repeated values once, in a dictionary of usually at most 1 MiB. A batch of one
# value that is repeated takes at most this many bytes if the value has at most `BATCH_BYTES`.
_MAX_REPEATED_BYTES = 16 * BATCH_BYTES


class CellReader:
    """A reader of one column of a Parquet file.

    Args:
        stream: the file. It stays open.
        column: the column, as a path such as `image.bytes`.
    """

    def __init__(self, stream: BinaryIO, column: str) -> None:
        import pyarrow.parquet  # takes a third of a second, and is rarely needed

        self._file = pyarrow.parquet.ParquetFile(stream, buffer_size=_BUFFER_BYTES)
        self._column = column
        self._group = self._group_first = self._group_stop = 0  # the row group, and its rows
        self._batches: Iterator[Any] = iter(())
        self._first = 0  # the first row of the batch
        self._values: Any = ()  # its values
        self._error: Exception | None = None  # of reading the rest of the row group

    def value(self, row: int) -> Any:
        """Return the value of a row.

        Raises:
            IndexError: there is no such row.
            Exception: the row group is damaged before or at this row.
        """
        if not self._group_first <= row < self._group_stop or row < self._first:
            self._open_group(row)
        while row >= self._first + len(self._values):
            self._read_batch()
        return self._values[row - self._first].as_py()

    def _open_group(self, row: int) -> None:
        """Start to read the row group of a row from its beginning."""
        metadata, first = self._file.metadata, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if row < first + group.num_rows:
                self._group_first, self._group_stop = first, first + group.num_rows
                self._first, self._values, self._error = first, (), None
                self._batches = self._file.iter_batches(
                    _batch_rows(group, self._column),
                    row_groups=[number],
                    columns=[self._column],
                    use_threads=False,
                )
                return
            first += group.num_rows
        raise IndexError(row)

    def _read_batch(self) -> None:
        """Read the next batch. A damaged row group is not read again for each of its rows."""
        if self._error is not None:
            raise self._error
        self._first, self._values = self._first + len(self._values), ()  # free it first
        try:
            batch = next(self._batches, None)
        except Exception as error:
            self._error = error
            raise
        if batch is None:
            self._error = OSError(f"row group ends before row {self._first}")
            raise self._error
        self._values = batch.column(0)


def _batch_rows(group: Any, column: str) -> int:
    """Return the number of rows of a batch of bounded bytes."""
    chunks = map(group.column, range(group.num_columns))
    chunk = next((chunk for chunk in chunks if chunk.path_in_schema == column), None)
    if chunk is None or not chunk.num_values:
        return 1
    size, num_values = int(chunk.total_uncompressed_size), int(chunk.num_values)
    rows = BATCH_BYTES * num_values // max(1, size)
    if chunk.has_dictionary_page:
        rows = min(rows, _MAX_REPEATED_BYTES // max(1, min(size, BATCH_BYTES)))
    return max(1, min(rows, int(group.num_rows)))


def memory_of_column(mean_bytes: float, total_bytes: int) -> int:
    """Return the approximate memory of reading a column, from the sizes of its values.

    It is that of two batches, and of a page as stored and unpacked. A page of large values is not
    limited to a size by writers: Arrow's and Hugging Face's have 1,024 values.
    """
    return 2 * (BATCH_BYTES + min(int(_PAGE_VALUES * mean_bytes), total_bytes))
