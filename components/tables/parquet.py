"""Parquet: a piece is a row group or more, read with its types.

Arrow writes its own types beside Parquet's. Some of them it does not read again (lists of fixed
size with nulls; views, before Arrow 16; dictionaries in lists, of several row groups), so that
columns of these are read by Parquet's types alone, which hold the same values.
"""

import dataclasses
import datetime
import io
from collections.abc import Iterator, Sequence
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

__all__ = ["find_pieces", "open_file", "read", "read_columns"]

_TAIL_BYTES = 8
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def find_pieces(inputs: LayoutInputs, whole: Piece) -> Iterator[Piece]:
    """Groups the file's row groups.

    Raises:
        InputError: it is no Parquet file.
    """
    with inputs.open(whole.path) as stream:
        metadata = open_file(stream, whole.source).metadata
        sizes = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    start = size = 0
    for stop, group_bytes in enumerate([*sizes, PIECE_BYTES]):
        if stop > start and size + group_bytes > PIECE_BYTES:
            yield dataclasses.replace(whole, start=start, stop=stop, details={"bytes": size})
            start, size = stop, 0
        size += group_bytes


def open_file(stream: BinaryIO, source: str) -> pa.parquet.ParquetFile:
    """Opens a file, one of a later Arrow's types as well.

    Raises:
        InputError: it is no Parquet file.
    """
    try:
        try:
            return pyarrow.parquet.ParquetFile(stream)
        except pa.ArrowException:  # it may be for a type of a later Arrow
            return _open_plainly(stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{source!r}: expected a Parquet file that Arrow {pa.__version__} reads: {error}",
            path=source,
        ) from error


def _open_plainly(stream: BinaryIO) -> pa.parquet.ParquetFile:
    """Without Arrow's own types: its schema is in the footer, by a key that is made another one."""
    stream.seek(-_TAIL_BYTES, io.SEEK_END)
    tail = stream.read(_TAIL_BYTES)  # the footer's length, and Parquet's mark
    size = int.from_bytes(tail[:4], "little")
    stream.seek(-_TAIL_BYTES - size, io.SEEK_END)
    footer = stream.read(size).replace(b"ARROW:schema", b"arrow:schema")
    metadata = pyarrow.parquet.read_metadata(pa.BufferReader(b"PAR1" + footer + tail))
    stream.seek(0)
    return pyarrow.parquet.ParquetFile(stream, metadata=metadata)


def _is_read_plainly(kind: pa.DataType, *, is_inner: bool = False) -> bool:
    """Whether a type is one of those of the module's text."""
    is_own = isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_list(kind)
    if is_own or "view" in str(kind) or (is_inner and pa.types.is_dictionary(kind)):
        return True
    fields = (kind.field(n).type for n in range(kind.num_fields)) if _is_nested(kind) else ()
    return any(_is_read_plainly(inner, is_inner=True) for inner in fields)


def _is_nested(kind: pa.DataType) -> bool:
    return _is_list(kind) or pa.types.is_struct(kind)


def read(
    stream: BinaryIO,
    piece: Piece,
    *,
    ignored: frozenset[str],
    unread: frozenset[str] = frozenset(),
) -> Rows:
    """The rows of some row groups.

    Args:
        piece: from `find_pieces`.
        ignored: columns that are not read.
        unread: columns whose bytes are not even read.

    Raises:
        InputError: the file is damaged, or a column is of a type that no example can hold.
    """
    groups = range(piece.start, piece.stop)
    whole = read_columns(stream, piece.source, groups=groups, ignored=ignored, unread=unread)
    try:
        table = flatten(whole.select([n for n in whole.column_names if n not in ignored]))
    except pa.ArrowInvalid as error:
        raise InputError(f"{piece.source!r}: {error}. Rename one.", path=piece.source) from error
    columns = {
        name: _plain(one_array(table[name]), name, piece.source)
        for name in table.column_names
        if not is_ignored(name, ignored)
    }
    return Rows(
        columns,
        found=len(table),
        records=np.arange(len(table)),
        # All digits of a decimal stay, whether it becomes an int, a float or a text.
        texts=[name for name in columns if pa.types.is_decimal(table.schema.field(name).type)],
        sums=column_checksums(whole),
    )


def read_columns(
    stream: BinaryIO,
    source: str,
    *,
    groups: Sequence[int] | None = None,
    ignored: frozenset[str] = frozenset(),
    unread: frozenset[str] = frozenset(),
) -> pa.Table:
    """All columns that can be read; of those that cannot, ignored ones are left out.

    Args:
        groups: numbers of the row groups; None for all.
        ignored, unread: as `read` takes them.

    Raises:
        InputError: the file is damaged, or two columns have one name.
    """
    file = open_file(stream, source)
    groups = range(file.metadata.num_row_groups) if groups is None else groups
    schema = file.schema_arrow
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise InputError(
            f"{source!r}: expected columns of different names, got two called {twice[0]!r}. "
            "Rename one.",
            path=source,
        )
    names = [name for name in schema.names if name not in unread]
    plainly = [name for name in names if _is_read_plainly(schema.field(name).type)]
    usual = _read_some(file, groups, [n for n in names if n not in plainly], ignored, source)
    if not plainly:
        return usual
    others = _read_some(_open_plainly(stream), groups, plainly, ignored, source)
    found = {t.column_names[n]: t.column(n) for t in (usual, others) for n in range(t.num_columns)}
    return pa.table({name: found[name] for name in names if name in found})


def _read_some(
    file: pa.parquet.ParquetFile,
    groups: Sequence[int],
    names: Sequence[str],
    ignored: frozenset[str],
    source: str,
) -> pa.Table:
    # Without threads: one that still reads after another's error would share the stream with what
    # is read next. Pieces are read side by side by processes.
    try:
        return file.read_row_groups(groups, columns=names, use_threads=False)
    except (pa.ArrowException, OSError):  # of one column: found out by reading each alone
        good = []
        for name in names:
            try:
                file.read_row_groups(groups, columns=[name], use_threads=False)
            except (pa.ArrowException, OSError) as error:
                if name not in ignored:
                    raise InputError(
                        f"column {name!r}: cannot be read: {error}, of type "
                        f"{file.schema_arrow.field(name).type} ({source!r}). The file is "
                        f"damaged, or Arrow {pa.__version__} does not read the type; leave the "
                        f"column out: columns={{{name!r}: 'ignore'}}.",
                        path=source,
                    ) from error
            else:
                good.append(name)
        return file.read_row_groups(groups, columns=good, use_threads=False)


def _plain(array: pa.Array, name: str, source: str) -> pa.Array:
    """An array of the few types that examples have."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode(), name, source)
    if _is_list(kind):
        lists = _variable(array)
        if lists.flatten().null_count:
            raise InputError(
                f"column {name!r}: expected lists without missing values, got some in {kind} "
                f"({source}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            )
        values = _plain(lists.values, name, source)
        if pa.types.is_decimal(kind.value_type):
            values = values.cast(pa.float64())
        if not _is_list(values.type):
            return _with_values(lists, values)
    elif pa.types.is_boolean(kind):
        return array.cast(pa.int64())
    elif pa.types.is_integer(kind):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(
                f"column {name!r}: expected numbers of 64 bits, signed, got {kind}: {error} "
                f"({source}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            ) from error
    elif pa.types.is_decimal(kind):
        texts = [None if value is None else format(value, "f") for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    elif pa.types.is_floating(kind):
        return array.cast(pa.float64())
    elif pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return _times(array, name, source)
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
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _variable(array: pa.Array) -> pa.Array:
    kind = array.type
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


def _times(array: pa.Array, name: str, source: str) -> pa.Array:
    """Times as texts, none of which says another time than it was."""
    try:
        exact = array.cast(pa.time64("us")) if pa.types.is_time64(array.type) else array
        return pa.array([_iso(value) for value in exact.to_pylist()], pa.string())
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise InputError(
            f"column {name!r}: expected times of the years 1 to 9999, those of a day in "
            f"microseconds, got {array.type}: {error} ({source}). Cast it to text or number, or "
            f"leave the column out: columns={{{name!r}: 'ignore'}}."
        ) from error


def _iso(value: object) -> str | None:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return None if value is None else str(value)
