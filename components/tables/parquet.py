"""Parquet: a piece is a row group or more, read with its types."""

import datetime
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from components.common.layout_inputs import LayoutInputs
from components.tables.column_checksums import column_checksums
from components.tables.json_lines import flatten
from components.tables.json_objects import is_ignored
from components.tables.pieces import PIECE_BYTES, Piece
from components.tables.rows import Rows, one_array
from trainer_utils.format import InputError

__all__ = ["find_pieces", "read"]

_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def find_pieces(
    inputs: LayoutInputs, path: str, *, source: str, split: str | None
) -> Iterator[Piece]:
    """Groups the file's row groups.

    Raises:
        InputError: it is no Parquet file.
    """
    with inputs.open(path) as stream:
        metadata = _open(stream, source).metadata
        sizes = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    start = size = 0
    for stop, group_bytes in enumerate([*sizes, PIECE_BYTES]):
        if stop > start and size + group_bytes > PIECE_BYTES:
            yield Piece(
                path=path,
                source=source,
                layout="parquet",
                split=split,
                start=start,
                stop=stop,
                details={"bytes": size},
            )
            start, size = stop, 0
        size += group_bytes


def _open(stream: BinaryIO, source: str) -> pa.parquet.ParquetFile:
    try:
        return pyarrow.parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source!r}: expected a Parquet file: {error}", path=source) from error


def read(
    stream: BinaryIO,
    piece: Piece,
    *,
    ignored: frozenset[str],
    unread: frozenset[str] = frozenset(),
) -> Rows:
    """The rows of some row groups.

    Args:
        stream: the file.
        piece: from `find_pieces`.
        ignored: columns that are not read.
        unread: columns whose bytes are not even read.

    Raises:
        InputError: the file is damaged, or a column is of a type that no example can hold.
    """
    file = _open(stream, piece.source)
    names = [name for name in file.schema_arrow.names if name not in unread]
    try:
        whole = file.read_row_groups(range(piece.start, piece.stop), columns=names)
        table = flatten(whole.select([name for name in names if name not in ignored]))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{piece.source!r}: expected a whole Parquet file: {error}", path=piece.source
        ) from error
    columns = {
        name: _plain(one_array(table[name]), name, piece.source)
        for name in table.column_names
        if not is_ignored(name, ignored)
    }
    return Rows(
        columns, found=len(table), records=np.arange(len(table)), sums=column_checksums(whole)
    )


def _plain(array: pa.Array, name: str, source: str) -> pa.Array:
    """An array of the few types that examples have."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode(), name, source)
    if _is_list(kind):
        lists = _variable(array)
        if lists.flatten().null_count:
            raise InputError(
                f"column {name!r}: expected lists without missing values ({source}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            )
        values = _plain(lists.values, name, source)
        if not _is_list(values.type):
            return _with_values(lists, values)
    elif pa.types.is_boolean(kind):
        return array.cast(pa.int64())
    elif pa.types.is_integer(kind):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(
                f"column {name!r}: expected numbers of 64 bits: {error} ({source}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            ) from error
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.float64())
    elif pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return pa.array([_iso(value) for value in array.to_pylist()], pa.string())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    elif any(is_kind(kind) for is_kind in _BINARY):
        return array.cast(pa.binary())
    elif pa.types.is_null(kind):
        return array
    raise InputError(
        f"column {name!r}: expected numbers, texts, times, or lists of these, got {kind} "
        f"({source}). Leave the column out: columns={{{name!r}: 'ignore'}}."
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _variable(array: pa.Array) -> pa.Array:
    """Lists of any form as lists of variable length, which Arrow does not cast all into."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        if array.null_count:
            return pa.array(array.to_pylist(), pa.list_(kind.value_type))
        offsets = np.arange(len(array) + 1, dtype=np.int32) * np.int32(kind.list_size)
        return pa.ListArray.from_arrays(pa.array(offsets), array.flatten())
    return array if pa.types.is_list(kind) else array.cast(pa.list_(kind.value_type))


def _with_values(lists: pa.Array, values: pa.Array) -> pa.Array:
    """The same lists, of other values."""
    offsets = lists.offsets
    if lists.null_count:
        marks = pc.if_else(
            pa.concat_arrays([lists.is_null(), pa.array([False])]),
            pa.scalar(None, pa.int32()),
            offsets,
        )
        return pa.ListArray.from_arrays(marks, values)
    return pa.ListArray.from_arrays(offsets, values)


def _iso(value: object) -> str | None:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return None if value is None else str(value)
