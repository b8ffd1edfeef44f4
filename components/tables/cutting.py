"""Cut many tables into pieces in workers: small tables together, large ones in ranges.

    copies = [copy_table(place, options, folder, numbered) for numbered in compressed]
    tasks = plan_parts(wholes, sizes)
    cuts = [cut_parts(place, options, parts) for parts in tasks]
    pieces = join_parts(place, options, tasks, cuts)

The launcher reads no table. It gets a few numbers for each piece.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence

from components.tables import delimited, json_rows, parquet
from components.tables.pieces import Piece, TableOpener, TableOptions
from components.tables.quotes import BadQuote
from components.tables.reading import (
    DELIMITERS,
    TableFolder,
    name_table,
    write_in_utf8,
)
from components.tables.row_ends import RangeCut, RowSpan, cut, cut_range, join_cuts
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError

MIN_RANGE_BYTES = 64 << 20
_MAX_TASKS = 4096  # with longer ranges for more than 256 GiB
_MAX_TABLES = 64  # in a task; each costs a request or two
_CUT_BY_ROWS = (*DELIMITERS, "jsonl", "lines")


@dataclasses.dataclass(frozen=True)
class TablePart:
    """A whole table, or a range of a large one."""

    table: Piece  # the table as one piece
    start: int = 0
    stop: int | None = None  # None: to the end of the file


@dataclasses.dataclass
class PartCut:
    """The result for one part: one of the following."""

    # The pieces of a table that is not cut by rows; or the whole table with its header
    pieces: list[Piece] = dataclasses.field(default_factory=list)
    rows: list[RangeCut] | None = None  # see `cut_range`
    problem: tuple[str, str] | None = None  # the reject code and detail of an unreadable file


def copy_path(folder: str, number: int) -> str:
    """Return the path of the uncompressed UTF-8 copy of a table in a working folder.

    It is not relative, since the paths of listed tables are, to the input base.
    """
    folder = folder if storage.is_remote(folder) else os.path.abspath(folder)
    return storage.join(folder, f"texts/{number:06d}")


def copy_table(
    place: TableFolder, options: TableOptions, folder: str, numbered: tuple[int, str, str]
) -> tuple[int, int | tuple[str, str]]:
    """Copy a table to uncompressed UTF-8, and return its number and its size.

    The reject code and detail of a file that cannot be read take the place of the size.

    Args:
        place: the folder of the table.
        options: the settings of tables.
        folder: the working folder.
        numbered: the number of the table, its path and its layout.

    Raises:
        InputError: the file is damaged, or not in the encoding.
    """
    number, path, layout = numbered
    try:
        with name_table(path, layout):
            return number, _copy(place, options, folder, number=number, path=path)
    except OSError as error:
        if storage.is_host_error(error):
            raise
        return number, storage.problem_of(error, path)


def _copy(place: TableOpener, options: TableOptions, folder: str, *, number: int, path: str) -> int:
    """Write the copy of a table, and return its size."""
    storage.make_folder(storage.join(folder, "texts"))
    with place.open(path) as stream:
        return write_in_utf8(stream, path, options, copy_path(folder, number), folder)


def check_copy(folder: str, copied: tuple[int, int | tuple[str, str]]) -> None:
    """Raise DatasetError if the copy of an earlier run is gone."""
    number, size = copied
    path = copy_path(folder, number)
    if isinstance(size, int):
        try:
            with storage.open_for_reading(path) as stream:
                actual = stream.seek(0, os.SEEK_END)
        except FileNotFoundError:
            actual = -1
        if actual != size:
            raise DatasetError.at(path, expected=f"a copy of {size} bytes", got=f"{actual}")


def plan_parts(tables: Sequence[Piece], sizes: Sequence[int]) -> list[list[TablePart]]:
    """Return the parts of all tables, in order, grouped by task.

    Args:
        tables: the tables, each as one piece.
        sizes: the size of each in bytes.
    """
    range_bytes = max(MIN_RANGE_BYTES, -(-sum(sizes) // _MAX_TASKS))
    tasks, held = list[list[TablePart]](), range_bytes
    for table, size in zip(tables, sizes, strict=True):
        is_cut = table.layout in _CUT_BY_ROWS
        starts = range(0, max(size, 1), range_bytes) if is_cut else range(1)
        for start, stop in itertools.pairwise([*starts, None]):
            assert start is not None
            if held >= range_bytes or len(tasks[-1]) == _MAX_TABLES:
                tasks.append([])
                held = 0
            tasks[-1].append(TablePart(table, start, stop))
            held += (size if stop is None else stop) - start
    return tasks


def cut_parts(
    place: TableFolder, options: TableOptions, parts: Sequence[TablePart]
) -> list[PartCut]:
    """Cut parts of tables between rows.

    Raises:
        InputError: a table as a whole is malformed.
        ConfigError: `column_names` does not fit a header.
    """
    results = []
    for part in parts:
        try:
            with name_table(part.table.source, part.table.layout):
                results.append(_cut_part(place, options, part))
        except OSError as error:
            if storage.is_host_error(error):
                raise
            problem = storage.problem_of(error, part.table.source)
            results.append(PartCut(problem=problem))
    return results


def _cut_part(
    place: TableOpener,
    options: TableOptions,
    part: TablePart,
    unread: frozenset[str] = frozenset(),
) -> PartCut:
    """Cut one part of a table; its first part also has the table with its header."""
    table = part.table
    if table.layout == "parquet":
        pieces = parquet.find_pieces(place, table, left_out=unread | options.ignored)
        return PartCut([*pieces])
    if table.layout == "json":
        return PartCut([json_rows.find_document(place, table)])
    with place.open(table.path) as stream:
        start, is_first = part.start, part.start == 0
        if is_first and (delimiter := delimiter_of(table.layout, options)) is not None:
            table = delimited.read_header(stream, table, delimiter=delimiter, options=options)
            start = table.start
        rows = cut_range(
            stream, start, part.stop, delimiter=quoting_of(table, options), is_first=is_first
        )
    return PartCut([table] if is_first else [], rows)


def cut_table(
    place: TableOpener,
    options: TableOptions,
    table: Piece,
    *,
    unread: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Yield the pieces of one table, as `cut_parts` and `join_parts` do for many.

    Args:
        place: the files that the table is one of.
        options: the settings of tables.
        table: the table as one piece.
        unread: columns of a Parquet file that will not be read.

    Raises:
        InputError: the table as a whole is malformed.
        ConfigError: `column_names` does not fit the header.
        OSError: the file cannot be read.
    """
    with name_table(table.source, table.layout):
        yield from _pieces_of(
            place, options, table, [_cut_part(place, options, TablePart(table), unread)]
        )


def pieces_of(
    inputs: TableOpener,
    path: str,
    *,
    kind: str,
    split: str | None,
    options: TableOptions,
    folder: str,
    unread: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Cut a table into pieces of whole rows.

    Args:
        inputs: the inputs that the file is one of.
        path: path of the file, relative to the input base.
        kind: the format of the file: a value of `SUFFIXES`, `json` or `lines`.
        split: the split of all rows, or None.
        options: the settings of tables.
        folder: the folder for an uncompressed UTF-8 copy, if one is needed.
        unread: columns of a Parquet file that will not be read.

    Raises:
        InputError: the file as a whole is malformed.
        OSError: the file cannot be read.
    """
    table = Piece(path=path, source=path, layout=kind, split=split)
    if needs_copy(path, kind, options):
        with name_table(path, kind):
            _copy(inputs, options, folder, number=0, path=path)
        table = dataclasses.replace(table, path=copy_path(folder, 0))
    yield from cut_table(inputs, options, table, unread=unread)


def delimiter_of(layout: str, options: TableOptions) -> str | None:
    """Return the character between the fields of a table, or None if it has no fields."""
    return options.delimiter or DELIMITERS[layout] if layout in DELIMITERS else None


def quoting_of(table: Piece, options: TableOptions) -> bytes | None:
    """Return the delimiter of a table with quoted fields, or None if each line is a row."""
    delimiter = delimiter_of(table.layout, options)
    return delimiter.encode() if delimiter is not None and options.has_quotes else None


def join_parts(
    place: TableFolder,
    options: TableOptions,
    tasks: Sequence[Sequence[TablePart]],
    results: Sequence[Sequence[PartCut]],
) -> Iterator[tuple[Piece, list[Piece] | tuple[str, str]]]:
    """Yield each table, with its pieces, or with its problem if it cannot be read.

    Raises:
        InputError: a quoted field is never closed, or text follows a closing quote.
    """
    parts = zip(itertools.chain(*tasks), itertools.chain(*results), strict=True)
    for _, group in itertools.groupby(parts, lambda pair: pair[0].table.source):
        tables, cuts = zip(*group, strict=True)
        table: Piece = tables[0].table
        problem = next((cut.problem for cut in cuts if cut.problem is not None), None)
        yield table, problem or [*_pieces_of(place, options, table, cuts)]


def _pieces_of(
    place: TableOpener, options: TableOptions, table: Piece, cuts: Sequence[PartCut]
) -> Iterator[Piece]:
    """Yield the pieces of a table from the results for its parts."""
    if table.layout not in _CUT_BY_ROWS:
        yield from (with_place_of(piece, table) for piece in cuts[0].pieces)
        return
    whole = with_place_of(cuts[0].pieces[0], table)
    spans = _spans_of(place, options, whole, [cut.rows for cut in cuts])
    try:
        # Yield a piece for a header alone as well, so that it is compared with other files'.
        first = next(spans, None)
        if first is not None or whole.layout in DELIMITERS:
            yield whole if first is None else whole.part(first)
        yield from map(whole.part, spans)
    except BadQuote as error:
        with place.open(table.path) as stream:
            raise delimited.quote_error(stream, table.source, error) from error


def with_place_of(piece: Piece, table: Piece) -> Piece:
    """Return a piece with the path of its table, and the columns from its folders.

    A resumed run may be in another folder, where copies have another path.
    """
    return dataclasses.replace(piece, path=table.path, partitions=table.partitions)


def _spans_of(
    place: TableOpener,
    options: TableOptions,
    whole: Piece,
    cuts: Sequence[list[RangeCut] | None],
) -> Iterator[RowSpan]:
    """Yield the spans of a table; cut it here if a row was too long to find where ranges begin."""
    known = [cut for cut in cuts if cut is not None]
    if len(known) == len(cuts):
        yield from join_cuts(known)
        return
    with place.open(whole.path) as stream:
        yield from cut(stream, whole.start, delimiter=quoting_of(whole, options))


def needs_copy(path: str, layout: str, options: TableOptions) -> bool:
    """Return whether a table is read from an uncompressed copy in UTF-8."""
    is_compressed = path.lower().endswith(".gz")
    return layout != "parquet" and (is_compressed or not options.is_utf8)
