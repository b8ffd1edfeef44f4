"""Parquet: a piece is a row group or more, read with its types.

What the installed Arrow does not read (Arrow 10: lists of fixed size with nulls, views,
dictionaries in lists) is refused by name.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from components.common.entry import one_array
from components.common.layout_inputs import LayoutInputs
from components.tables.json_rows import flatten, is_ignored
from components.tables.pieces import PIECE_BYTES, Piece, Rows
from trainer_utils.format import InputError
from trainer_utils.storage import is_fault

_HELD_BYTES = 128 << 20  # of a row group, beyond which it is read in parts; takes five times that
_MOST_GROUP_BYTES = 4 << 30
_MOST_REPEATED_BYTES = 1 << 30  # of texts that the file has once
_BATCH_ROWS, _BUFFER_BYTES = 4096, 1 << 20
_File: TypeAlias = Any  # pyarrow.parquet.ParquetFile, which has no types
_RULE = "numbers, texts, times, or lists of these"
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def find_pieces(
    inputs: LayoutInputs, whole: Piece, *, left_out: frozenset[str] = frozenset()
) -> Iterator[Piece]:
    """Groups the file's row groups; of a large one some rows are a piece.

    An `InputError` where it is no Parquet, or a group is too large without what is `left_out`.
    """
    with inputs.open(whole.path) as stream:
        metadata = open_file(stream, whole.source).metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = [_least_bytes(group, left_out) for group in groups]
    start = size = 0
    for stop, group_bytes in enumerate([*sizes, PIECE_BYTES]):
        if stop > start and size + group_bytes > PIECE_BYTES:
            piece = dataclasses.replace(whole, start=start, stop=stop, details={"bytes": size})
            if size > _MOST_GROUP_BYTES:
                raise _too_large(whole.source, start, _MOST_GROUP_BYTES, size)
            parts = max(1, -(-size // _HELD_BYTES))  # more than one only of one group
            bounds = [groups[start].num_rows * part // parts for part in range(parts + 1)]
            for first, last in itertools.pairwise(bounds):
                details = {"bytes": size // parts, "rows": [first, last]}
                yield piece if parts == 1 else dataclasses.replace(piece, details=details)
            start, size = stop, 0
        size += group_bytes


def _least_bytes(group: Any, left_out: frozenset[str]) -> int:
    """What a group unpacks to at least, by its metadata: texts that come again are there once."""
    return sum(
        max(chunk.total_uncompressed_size, 8 * chunk.num_values)
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema.partition(".")[0] not in left_out
    )


def _too_large(source: str, group: int, most: int, size: int) -> InputError:
    rule = f"row groups of at most {most} bytes once they are unpacked"
    got, cure = f"{size} in row group {group}", "Write fewer rows in one: row_group_size=100_000."
    return InputError.at(source, expected=rule, got=f"{got} (TOO_LARGE)", advice=cure)


def open_file(stream: BinaryIO, source: str) -> _File:
    """Opens a file; an `InputError` where it is no Parquet."""
    try:
        return pyarrow.parquet.ParquetFile(stream, buffer_size=_BUFFER_BYTES)
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_fault(error):
            raise
        rule = f"a Parquet file that Arrow {pa.__version__} reads"
        raise InputError.at(source, expected=rule, got=str(error)) from error


def read(
    stream: BinaryIO, piece: Piece, *, ignored: frozenset[str], unread: frozenset[str] = frozenset()
) -> Rows:
    """The rows of some row groups, without ignored columns; of unread ones no byte is read.

    Raises:
        InputError: the file is damaged, or a column is of a type that no example can hold.
    """
    source, rows = piece.source, piece.details.get("rows")
    groups = range(piece.start, piece.stop)
    whole = read_columns(stream, source, groups=groups, rows=rows, ignored=ignored, unread=unread)
    try:
        table = flatten(whole.select([n for n in whole.column_names if n not in ignored]))
    except pa.ArrowInvalid as error:
        raise InputError(f"{source!r}: {error}. Rename one.", path=source) from error
    names = [name for name in table.column_names if not is_ignored(name, ignored)]
    columns = {name: _plain(one_array(table[name]), name, source) for name in names}
    # All digits of a decimal stay, whether it becomes an int, a float or a text.
    texts = [name for name in names if pa.types.is_decimal(table.schema.field(name).type)]
    return Rows(columns, found=len(table), texts=texts)


def read_columns(
    stream: BinaryIO,
    source: str,
    *,
    groups: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    ignored: frozenset[str] = frozenset(),
    unread: frozenset[str] = frozenset(),
) -> pa.Table:
    """All columns of row groups, or of some rows of one, that can be read; ignored ones need not.

    An `InputError` where the file is damaged, or two columns have one name.
    """
    file = open_file(stream, source)
    groups = range(file.metadata.num_row_groups) if groups is None else groups
    schema = file.schema_arrow
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        rule, got = "columns of different names", f"two called {twice[0]!r}"
        raise InputError.at(source, expected=rule, got=got, advice="Rename one.")
    names = [name for name in schema.names if name not in unread]
    _check_repeated(file, stream, groups, frozenset(names) - ignored, source)
    columns = {}
    for name in names:  # alone, so that one that cannot be read is known
        try:
            columns[name] = _read_groups(file, groups, rows, [name]).column(name)
        except (pa.ArrowException, OSError) as error:
            if is_fault(error):
                raise
            if name not in ignored:
                rule, kind = f"columns that Arrow {pa.__version__} reads", schema.field(name).type
                raise _bad_column(name, rule, f"{kind}, damaged perhaps", source, error) from error
    return pa.table(columns) if columns else _read_groups(file, groups, rows, [])


def _bad_column(
    name: str, expected: str, got: object, source: str, error: object = ""
) -> InputError:
    why = f": {error}" if error else ""
    return InputError(
        f"column {name!r}: expected {expected}, got {got}{why} ({source!r}). "
        f"Leave the column out: columns={{{name!r}: 'ignore'}}.",
        path=source,
    )


def _read_groups(
    file: _File, groups: Sequence[int], rows: Sequence[int] | None, names: Sequence[str]
) -> pa.Table:
    """Some columns of row groups; of one group those rows that are asked for, batch by batch.

    Without threads: one that still reads after another's error would share the stream with what is
    read next. Pieces are read side by side by processes.
    """
    if rows is None or not names:
        table = file.read_row_groups(groups, columns=names, use_threads=False)
        return table if rows is None else table.slice(rows[0], rows[1] - rows[0])
    batches, left_out, lacking = [], rows[0], rows[1] - rows[0]
    for batch in file.iter_batches(
        _BATCH_ROWS, row_groups=groups, columns=names, use_threads=False
    ):
        part = batch.slice(min(left_out, len(batch)), lacking)
        left_out, lacking = max(left_out - len(batch), 0), lacking - len(part)
        batches += [part] if len(part) else []
        if not lacking:
            break
    return pa.Table.from_batches(batches)


def _check_repeated(
    file: _File, stream: BinaryIO, groups: Sequence[int], names: frozenset[str], source: str
) -> None:
    """Refuses texts that stand in a file once, and so often in its rows that no memory holds them.

    Where the metadata leaves it open, columns are read as the file has them: texts, and numbers of
    texts.
    """
    for number in groups:
        group = file.metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        paths = [
            chunk.path_in_schema
            for chunk in chunks
            if chunk.path_in_schema.partition(".")[0] in names
            and chunk.physical_type == "BYTE_ARRAY"
            and chunk.has_dictionary_page
            and chunk.num_values * chunk.total_uncompressed_size > _MOST_REPEATED_BYTES
        ]
        if not paths:
            continue
        again = pyarrow.parquet.ParquetFile(stream, metadata=file.metadata, read_dictionary=paths)
        packed = again.read_row_groups([number], columns=paths, use_threads=False)
        size = sum(_unpacked(chunk) for column in packed.columns for chunk in column.chunks)
        if size > _MOST_REPEATED_BYTES:
            raise _too_large(source, number, _MOST_REPEATED_BYTES, size)


def _unpacked(array: pa.Array) -> int:
    """How many bytes of texts an array stands for, of dictionaries or with these in it."""
    if pa.types.is_struct(array.type):
        return sum(_unpacked(part) for part in array.flatten())
    if _is_list(array.type):
        return _unpacked(array.flatten())
    if not pa.types.is_dictionary(array.type) or not len(array.dictionary):
        return 0
    lengths = pc.binary_length(array.dictionary.cast(pa.large_binary())).to_numpy()
    return int(lengths[array.indices.drop_null().to_numpy()].sum(dtype=np.int64))


def _plain(array: pa.Array, name: str, source: str) -> pa.Array:
    """An array of the few types that examples have."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode(), name, source)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage, name, source)
    if _is_list(kind):
        return _plain_lists(array, name, source)
    rule = _RULE
    try:
        if pa.types.is_null(kind):
            return array
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            rule = "numbers of 64 bits, signed"
            return array.cast(pa.int64())
        if pa.types.is_floating(kind):
            return array.cast(pa.float64())
        if pa.types.is_decimal(kind):
            texts = [None if value is None else format(value, "f") for value in array.to_pylist()]
            return pa.array(texts, pa.string())
        if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
            rule = "times of the years 1 to 9999, those of a day in microseconds"
            exact = array.cast(pa.time64("us")) if pa.types.is_time64(kind) else array
            texts = [None if value is None else value.isoformat() for value in exact.to_pylist()]
            return pa.array(texts, pa.string())
        if str(kind) in ("string", "large_string", "string_view"):
            return array.cast(pa.string())
        if any(is_kind(kind) for is_kind in _BINARY):
            return array.cast(pa.binary())
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise _bad_column(name, rule, kind, source, error) from error
    raise _bad_column(name, rule, kind, source)


def _plain_lists(array: pa.Array, name: str, source: str) -> pa.Array:
    parts = array.flatten()
    if parts.null_count:
        got = f"some in {array.type}"
        raise _bad_column(name, "lists without missing values", got, source)
    values = _plain(parts, name, source)
    if _is_list(values.type):
        raise _bad_column(name, _RULE, array.type, source)
    if pa.types.is_decimal(parts.type):
        values = values.cast(pa.float64())
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.cumsum(np.insert(lengths, 0, 0))
    missing = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=missing), values)


def _is_list(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _LISTS)
