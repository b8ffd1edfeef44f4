"""Read Parquet files with their types. A piece is one or more row groups, or a part of one.

Columns that the installed Arrow cannot read are named in the error. For Arrow 10, these are
fixed-size lists with nulls, views, and dictionaries in lists.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import one_array
from components.tables.hub import class_names, is_numbered, named_classes
from components.tables.json_rows import cure_by_json, is_ignored
from components.tables.json_values import flatten_table, stored_as_json
from components.tables.pieces import PIECE_BYTES, PIECE_ROWS, Piece, Rows, TableOpener, TableOptions
from components.tables.times import texts_of_times
from trainer_utils.core.errors import InputError
from trainer_utils.storage import is_host_error

_HELD_BYTES = 64 << 20  # larger row groups are read in parts; reading takes five times the memory
_MAX_GROUP_BYTES = 4 << 30
_MAX_REPEATED_BYTES = 1 << 30  # limit of an unpacked column chunk, which repeats most strings
_PEEK_ROWS, _BUFFER_BYTES = 1024, 1 << 20
_DICTIONARY_BYTES = 2 << 20  # generous size of a dictionary: writers stop at 1 MiB
_INDEX_BYTES = 16  # dictionary-encoded values take fewer bytes than this
_INDEX_ROWS = 1 << 16
_MAX_STREAMS = 16  # each has a buffer and a page of its column
_File: TypeAlias = Any  # pyarrow.parquet.ParquetFile, which has no types
_RULE = "numbers, strings, times, or lists of these"
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def find_pieces(
    inputs: TableOpener, whole: Piece, *, left_out: frozenset[str] = frozenset()
) -> Iterator[Piece]:
    """Yield pieces: several small row groups, or some rows of a large one, by unpacked size.

    Args:
        inputs: the inputs that the file is one of.
        whole: the file as one piece.
        left_out: columns that will not be read, so that their size does not count.

    Raises:
        InputError: the file is not Parquet, or a row group is too large.
    """
    with inputs.open(whole.path) as stream:
        file = open_file(stream, whole.source)
        start = size = rows = 0

        def together(stop: int) -> Iterator[Piece]:
            if stop > start:
                yield dataclasses.replace(
                    whole, start=start, stop=stop, rows=rows, unpacked_bytes=size
                )

        for number in range(file.metadata.num_row_groups):
            parts = _parts_of(file, stream, number, whole.source, left_out)
            is_whole = len(parts) == 1
            is_full = size + parts[0][2] > PIECE_BYTES or rows + parts[0][1] > PIECE_ROWS
            if not is_whole or is_full:
                yield from together(number)
                start, size, rows = number, 0, 0
            if is_whole:
                size, rows = size + parts[0][2], rows + parts[0][1]
                continue
            part = dataclasses.replace(whole, start=number, stop=number + 1)
            for first, last, part_bytes in parts:
                yield dataclasses.replace(
                    part, rows=last - first, row_range=(first, last), unpacked_bytes=part_bytes
                )
            start = number + 1
        yield from together(file.metadata.num_row_groups)


def _parts_of(
    file: _File, stream: BinaryIO, number: int, source: str, left_out: frozenset[str]
) -> list[tuple[int, int, int]]:
    """Return the parts to read a row group in: first row, end row, and unpacked bytes of each."""
    group = file.metadata.row_group(number)
    rows, size = group.num_rows, _least_bytes(group, left_out)
    if size > _MAX_GROUP_BYTES:
        raise _too_large(source, number, _MAX_GROUP_BYTES, size)
    repeated = _repeated_bytes(file, stream, number, source, left_out)
    if repeated is None:
        count = max(1, -(-size // _HELD_BYTES), -(-rows // PIECE_ROWS))
        bounds = [rows * part // count for part in range(count + 1)]
        return [(a, b, size // count) for a, b in itertools.pairwise(bounds)]
    ends = np.cumsum(repeated + size / max(rows, 1))
    bounds = [0]
    while bounds[-1] < rows:
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        last = int(np.searchsorted(ends, before + _HELD_BYTES, side="right"))
        bounds.append(min(max(last, bounds[-1] + 1), bounds[-1] + PIECE_ROWS, rows))
    starts = np.concatenate([[0], ends])[bounds]
    return [
        (a, b, int(stop - begin))
        for (a, b), (begin, stop) in zip(
            itertools.pairwise(bounds), itertools.pairwise(starts), strict=True
        )
    ] or [(0, 0, 0)]


def _least_bytes(group: Any, left_out: frozenset[str]) -> int:
    """Return the minimum unpacked size of a row group, by its metadata.

    The metadata counts a repeated string once, so the unpacked size may be larger.
    """
    return sum(
        max(chunk.total_uncompressed_size, 8 * chunk.num_values)
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema.partition(".")[0] not in left_out
    )


def _may_repeat(chunk: Any) -> bool:
    """Return whether rows may repeat most strings of a dictionary-encoded column chunk."""
    if not chunk.has_dictionary_page or not chunk.num_values:
        return False
    stored = max(0, chunk.total_uncompressed_size - _DICTIONARY_BYTES) / chunk.num_values
    most = chunk.num_values * chunk.total_uncompressed_size
    return bool(stored < _INDEX_BYTES and most > _HELD_BYTES)


def _repeated_bytes(
    file: _File, stream: BinaryIO, number: int, source: str, left_out: frozenset[str]
) -> npt.NDArray[np.float64] | None:
    """Return the bytes of repeated strings in each row of a row group, or None if there are few.

    Raises:
        InputError: a column unpacks to more than a legitimate file would, as in a zip bomb.
    """
    group = file.metadata.row_group(number)
    sizes: Any = None
    for chunk in map(group.column, range(group.num_columns)):
        path = chunk.path_in_schema
        if path.partition(".")[0] in left_out or not _may_repeat(chunk):
            continue
        place = unpacked = 0
        sizes = np.zeros(group.num_rows) if sizes is None else sizes
        for batch in _peek(file, stream, path).iter_batches(
            _INDEX_ROWS, row_groups=[number], columns=[path], use_threads=False
        ):
            array = batch.column(0)
            if pa.types.is_dictionary(array.type):
                lengths = _lengths_of(array.dictionary)
                indices = pc.fill_null(array.indices, len(lengths)).to_numpy(zero_copy_only=False)
                row_sizes = np.append(lengths, 0)[indices]
            else:
                row_sizes = np.full(len(array), _unpacked(array) / max(len(array), 1))
            sizes[place : place + len(array)] += row_sizes
            place, unpacked = place + len(array), unpacked + int(row_sizes.sum())
            if unpacked > _MAX_REPEATED_BYTES:
                raise _too_large(source, number, _MAX_REPEATED_BYTES, unpacked)
    return None if sizes is None or sizes.sum() <= _HELD_BYTES else sizes


def _peek(file: _File, stream: BinaryIO, path: str) -> _File:
    """Return a reader that keeps the strings of a column dictionary-encoded."""
    return _reader(stream, metadata=file.metadata, read_dictionary=[path])


def _reader(stream: BinaryIO, **options: Any) -> _File:
    import pyarrow.parquet  # takes 15 ms, which folders of files do not need

    return pyarrow.parquet.ParquetFile(stream, buffer_size=_BUFFER_BYTES, **options)


def _lengths_of(strings: pa.Array) -> npt.NDArray[np.int64]:
    if not any(kind(strings.type) for kind in (*_BINARY, pa.types.is_string)):
        return np.zeros(len(strings), np.int64)
    lengths = pc.fill_null(pc.binary_length(strings), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _too_large(source: str, group: int, most: int, size: int) -> InputError:
    rule = f"row groups of at most {most} bytes once they are unpacked"
    got, cure = (
        f"{size} in row group {group}",
        "Write fewer rows in one, as pyarrow does with row_group_size=100_000.",
    )
    return InputError.at(source, expected=rule, got=f"{got} (TOO_LARGE)", advice=cure)


def open_file(stream: BinaryIO, source: str) -> _File:
    """Open a Parquet file.

    Args:
        stream: the file.
        source: its name, for messages.

    Raises:
        InputError: the file is not Parquet.
    """
    try:
        return _reader(stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_host_error(error):
            raise
        rule = f"a Parquet file that Arrow {pa.__version__} reads"
        raise InputError.at(source, expected=rule, got=str(error)) from error


class ColumnStreams:
    """Columns of row groups that are read from beginning to end, for pieces one after the other.

    Arrow cannot start to read within a row group. With these streams, neighbouring parts of one are
    read without reading the rows before them again.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[int, str], _ColumnStream] = {}

    def take(self, number: int, name: str, row: int) -> "_ColumnStream | None":
        """Remove and return the stream of a column, if it can continue at a row."""
        stream = self._streams.pop((number, name), None)
        return stream if stream is not None and stream.row <= row else None

    def keep(self, stream: "_ColumnStream") -> None:
        """Keep a stream for the next piece, unless there are many: each has buffers."""
        if len(self._streams) < _MAX_STREAMS:
            self._streams[stream.number, stream.name] = stream


class _ColumnStream:
    """A column of a row group, read in batches that fit into memory.

    Threads are not used: after an error, a thread that still reads would share the file with the
    next read. Processes read pieces in parallel.

    Args:
        file: the Parquet file.
        stream: the same file, as bytes.
        number: the number of the row group.
        name: the name of the column.
        rows: the number of rows to read, if the row group is read in parts; or None.
    """

    def __init__(
        self, file: _File, stream: BinaryIO, number: int, name: str, rows: int | None
    ) -> None:
        self.number, self.name = number, name
        self.row = 0  # the first row that has not been taken
        num_rows = file.metadata.row_group(number).num_rows if rows is None else rows
        longest = _longest_text(file, stream, number, name)
        at_once = max(1, min(num_rows, _MAX_REPEATED_BYTES // longest))
        self._is_repeated = rows is not None and _is_repeated(file, number, name)
        if self._is_repeated:
            file, at_once = _peek(file, stream, name), _INDEX_ROWS  # rows to skip are only indices
        self._batches = file.iter_batches(
            at_once, row_groups=[number], columns=[name], use_threads=False
        )
        self._rest: pa.Array | None = None  # of the last batch

    def read(self, start: int, stop: int) -> Iterator[pa.Array]:
        """Yield the rows from `start` to `stop`, and skip those before."""
        while self.row < stop:
            if self._rest is None:
                batch = next(self._batches, None)
                if batch is None:
                    return
                self._rest = batch.column(0)
            used = min(len(self._rest), stop - self.row)
            skipped = min(max(start - self.row, 0), used)
            part = self._rest.slice(skipped, used - skipped)
            self._rest = self._rest.slice(used) if used < len(self._rest) else None
            self.row += used
            if self._is_repeated and pa.types.is_dictionary(part.type):
                part = part.dictionary_decode()
            if isinstance(part.type, pa.BaseExtensionType):
                part = part.storage  # Arrow 10 cannot concatenate extension arrays
            yield part


def read(
    stream: BinaryIO,
    piece: Piece,
    options: TableOptions,
    *,
    unread: frozenset[str] = frozenset(),
    streams: ColumnStreams | None = None,
) -> Rows:
    """Return the rows of a piece. No byte of ignored and unread columns is read.

    Args:
        stream: the file.
        piece: the piece.
        options: the settings of tables.
        unread: columns to skip in addition to ignored ones.
        streams: streams of columns of this file that earlier pieces have begun to read.

    Raises:
        InputError: the file is damaged, or an example cannot hold the type of a column.
    """
    source, rows, ignored = piece.source, piece.row_range, options.ignored
    groups = range(piece.start, piece.stop)
    table = read_columns(
        stream, source, groups=groups, rows=rows, unread=unread | ignored, streams=streams
    )
    classes, known = class_names(table.schema.metadata), stored_as_json(table.schema.metadata)
    try:
        table, as_json, chats = flatten_table(table, as_json=options.as_json - known)
    except pa.ArrowInvalid as error:
        raise InputError(f"{source!r}: {error}. Rename one.", path=source) from error
    except ValueError as error:
        rule = "values that JSON has in columns of kind 'json'"
        raise InputError.at(source, expected=rule, got=str(error)) from error
    names = [name for name in table.column_names if not is_ignored(name, ignored)]
    columns = {name: _plain(one_array(table[name]), name, source) for name in names}
    classes = {
        name: names_of
        for name, names_of in classes.items()
        if name in columns
        and is_numbered(columns[name].type)
        and options.columns.get(name) in (None, "label", "string")
    }
    for name, names_of in classes.items():
        columns[name] = named_classes(columns[name], names_of, column=name, source=source)
    # Decimals stay strings with all digits until the column becomes int, float or string.
    texts = [name for name in names if pa.types.is_decimal(table.schema.field(name).type)]
    return Rows(
        columns,
        found=len(table),
        texts=texts,
        as_json=(as_json | known) & columns.keys(),
        chats=chats & columns.keys(),
        class_names=classes,
    )


def read_columns(
    stream: BinaryIO,
    source: str,
    *,
    groups: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    ignored: frozenset[str] = frozenset(),
    unread: frozenset[str] = frozenset(),
    streams: ColumnStreams | None = None,
) -> pa.Table:
    """Read the columns of row groups, or of some rows of one.

    Args:
        stream: the file.
        source: its name, for messages.
        groups: the row groups. Default: all.
        rows: the first and end row within a single row group. Default: all rows.
        ignored: columns to leave out, rather than raise an error, if Arrow cannot read them.
        unread: columns to leave out.
        streams: streams of columns of this file that earlier pieces have begun to read.

    Raises:
        InputError: the file is damaged, or two columns have the same name.
    """
    streams = streams or ColumnStreams()
    file = open_file(stream, source)
    groups = range(file.metadata.num_row_groups) if groups is None else groups
    schema = file.schema_arrow
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        rule, got = "columns with different names", f"two called {twice[0]!r}"
        raise InputError.at(source, expected=rule, got=got, advice="Rename one.")
    columns = {}
    for name in schema.names:  # separately, so that an error names the column
        if name in unread:
            continue
        try:
            parts = [
                part
                for number in groups
                for part in _read_group(file, stream, number, name, rows, source, streams)
            ]
            columns[name] = pa.chunked_array(parts or [pa.array([], schema.field(name).type)])
        except (pa.ArrowException, OSError) as error:
            if is_host_error(error):
                raise
            if name not in ignored:
                rule, kind = f"columns that Arrow {pa.__version__} reads", schema.field(name).type
                got = f"{kind}, damaged perhaps"
                cure = "Write the file again with a newer or simpler type for it"
                raise _bad_column(name, rule, got, source, error, cure=cure) from error
    if columns:
        return pa.table(columns).replace_schema_metadata(file.metadata.metadata)
    table = file.read_row_groups(groups, columns=[])  # a table without columns has a row count
    return table if rows is None else table.slice(rows[0], rows[1] - rows[0])


def _bad_column(
    name: str, expected: str, got: object, source: str, error: object = "", *, cure: str = ""
) -> InputError:
    why = f": {error}" if error else ""
    leave_out = how_to_set(columns={name: "ignore"})
    advice = f"{cure}, or leave it out: {leave_out}." if cure else cure_by_json(name)
    return InputError(
        f"column {name!r}: expected {expected}, got {got}{why} ({source!r}). {advice}", path=source
    )


def _read_group(
    file: _File,
    stream: BinaryIO,
    number: int,
    name: str,
    rows: Sequence[int] | None,
    source: str,
    streams: ColumnStreams,
) -> Iterator[pa.Array]:
    """Yield a column of a row group, or some of its rows, in batches that fit into memory.

    A string that the file stores once may be repeated in every row, so the unpacked size is
    limited.
    """
    start, stop = rows or (0, file.metadata.row_group(number).num_rows)
    column = streams.take(number, name, start)
    if column is None:
        num_rows = None if rows is None else stop - start
        column = _ColumnStream(file, stream, number, name, num_rows)
    size = 0
    for part in column.read(start, stop):
        size += _unpacked(part)
        if size > _MAX_REPEATED_BYTES:
            raise _too_large(source, number, _MAX_REPEATED_BYTES, size)
        yield part
    if rows is not None:
        streams.keep(column)


def _is_repeated(file: _File, number: int, name: str) -> bool:
    """Return whether rows may repeat most strings of a column."""
    group = file.metadata.row_group(number)
    chunks = map(group.column, range(group.num_columns))
    return any(chunk.path_in_schema == name and _may_repeat(chunk) for chunk in chunks)


def _longest_text(file: _File, stream: BinaryIO, number: int, name: str) -> int:
    """Return the length of the longest string in a column's dictionaries; at least 1.

    Only columns that may unpack to too many bytes are examined.
    """
    group, longest = file.metadata.row_group(number), 1
    for chunk in map(group.column, range(group.num_columns)):
        path, most = chunk.path_in_schema, chunk.num_values * chunk.total_uncompressed_size
        is_of_column = path == name or path.startswith(f"{name}.")
        if not is_of_column or not chunk.has_dictionary_page or most <= _MAX_REPEATED_BYTES:
            continue
        peek = _peek(file, stream, path)
        batches = peek.iter_batches(_PEEK_ROWS, row_groups=[number], columns=[path])
        arrays = (array for batch in batches for array in _dictionaries(batch.column(0)))
        first = next((array for array in arrays if len(array.dictionary)), None)
        if first is not None:  # a batch has the whole dictionary
            longest = max(longest, pc.max(pc.binary_length(first.dictionary)).as_py())
    return longest


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """Yield the dictionary arrays in an array, including those in structs and lists."""
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _dictionaries(part)
    elif _is_list(array.type):
        yield from _dictionaries(array.flatten())
    elif pa.types.is_dictionary(array.type):
        yield array


def _unpacked(array: pa.Array) -> int:
    """Return the size in bytes of an array after its dictionaries are unpacked."""
    size = 0 if pa.types.is_dictionary(array.type) else array.nbytes
    for part in _dictionaries(array):
        lengths = pc.binary_length(part.dictionary).to_numpy(zero_copy_only=False)
        size += int(lengths[part.indices.drop_null().to_numpy()].sum(dtype=np.int64))
    return size


def _plain(array: pa.Array, name: str, source: str) -> pa.Array:
    """Convert an array to one of the few types of features."""
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
            rule = "signed 64-bit integers"
            return array.cast(pa.int64())
        if pa.types.is_floating(kind):
            return array.cast(pa.float64())
        if pa.types.is_decimal(kind):
            texts = [None if value is None else format(value, "f") for value in array.to_pylist()]
            return pa.array(texts, pa.string())
        if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
            rule = "times in the years 1 to 9999, and times of day in microseconds"
            return pa.array(texts_of_times(array), pa.string())
        if str(kind) in ("string", "large_string", "string_view"):
            return array.cast(pa.string())
        if any(is_kind(kind) for is_kind in _BINARY):
            return array.cast(pa.binary())
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        cure = "Cast it to text when the file is written" if pa.types.is_temporal(kind) else ""
        raise _bad_column(name, rule, kind, source, error, cure=cure) from error
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
