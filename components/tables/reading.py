"""Reads the tables of all ExampleGens: one file to pieces, and a piece to columns.

for piece in pieces_of(inputs, "reviews.csv", kind="csv", split=None, options=options, …): …
rows = read_piece("reviews/", piece, options)
rows.columns["text"]        # an Arrow array
"""

import contextlib
import dataclasses
import os
import posixpath
from collections.abc import Iterator

from components.common.layout_inputs import LayoutInputs
from components.tables import delimited, documents, json_lines, keyed_json, lines, parquet
from components.tables.options import TableOptions
from components.tables.pieces import MAX_ROW_BYTES, Piece
from components.tables.rows import BadRow, Rows
from components.tables.transcoding import in_utf8
from trainer_utils.format import DatasetError, InputError
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.storage.file_system import is_fault, is_remote, join, persist, problem_of
from trainer_utils.storage.files import open_for_reading

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}


def kind_of_table(path: str) -> str | None:
    """`csv`, `tsv`, `jsonl` or `parquet`, by a file's name; None for any other."""
    name = path.lower().removesuffix(".gz")
    return SUFFIXES.get(posixpath.splitext(name)[1])


def pieces_of(
    inputs: LayoutInputs,
    path: str,
    *,
    kind: str,
    split: str | None,
    options: TableOptions,
    folder: str,
    unread: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Cuts a table into pieces of whole rows.

    Args:
        kind: what it is read as: a value of `SUFFIXES`, `json` or `lines`.
        split: that all of its rows belong to, or None.
        folder: for a copy in UTF-8, where it needs one.
        unread: as `read_piece` takes it.

    Raises:
        InputError: the file is malformed as a whole.
        OSError: it cannot be read.
    """
    with _named(path, kind):
        whole = Piece(path=path, source=path, layout=kind, split=split)
        if kind == "parquet":
            yield from parquet.find_pieces(inputs, whole, left_out=unread | options.ignored)
        else:
            yield from _pieces_of_text(inputs, whole, options, folder)


def _pieces_of_text(
    inputs: LayoutInputs, whole: Piece, options: TableOptions, folder: str
) -> Iterator[Piece]:
    path, kind = whole.path, whole.layout
    copy = in_utf8(inputs, path, encoding=options.encoding, is_utf8=options.is_utf8, folder=folder)
    whole = dataclasses.replace(whole, path=copy)
    if kind in DELIMITERS:
        delimiter = options.delimiter or DELIMITERS[kind]
        yield from delimited.find_pieces(inputs, whole, delimiter=delimiter, options=options)
    else:
        yield from (keyed_json if kind == "json" else json_lines).find_pieces(inputs, whole)


def read_piece(
    base: str, piece: Piece, options: TableOptions, *, unread: frozenset[str] = frozenset()
) -> Rows:
    """The rows of a piece.

    Args:
        unread: columns of Parquet that hold large values, and are not read.

    A piece of a file that was exchanged or has vanished is one bad row.

    Raises:
        InputError: the piece as a whole cannot be read.
    """
    if piece.too_long:
        detail = f"expected at most {MAX_ROW_BYTES} bytes in a row, got {piece.stop - piece.start}"
        return _rejected("TOO_LARGE", detail)
    if piece.layout == "folder":
        return documents.read(base, piece, encoding=None if options.is_utf8 else options.encoding)
    try:
        with _named(piece.source, piece.layout):
            return persist(piece.source, _read_table, base, piece, options, unread)
    except OSError as error:
        return _rejected(*problem_of(error, piece.source))


@contextlib.contextmanager
def _named(source: str, kind: str) -> Iterator[None]:
    """Makes an error that names the file of whatever a library raises on a damaged one."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (DatasetError, OSError)) or is_fault(error):
            raise
        raise InputError.at(
            source,
            expected=f"a table ({kind}) that is whole",
            got=f"one that no library reads: {type(error).__name__}: {error}",
            advice="Write it anew.",
        ) from error


def _rejected(code: str, detail: str) -> Rows:
    return Rows({}, found=1, bad=[BadRow(0, code, detail, 0)], lines=1)


def _read_table(base: str, piece: Piece, options: TableOptions, unread: frozenset[str]) -> Rows:
    ignored = options.ignored
    # A copy in UTF-8 is our own, and lies elsewhere.
    is_listed = piece.path == piece.source and not is_remote(base)
    root = os.path.realpath(base) if is_listed else None
    with open_for_reading(join(base, piece.path), root=root) as stream:
        if piece.layout == "parquet":
            return parquet.read(stream, piece, ignored=ignored, unread=unread)
        stream.seek(piece.start)
        data = stream.read(piece.stop - piece.start)
    if len(data) != piece.stop - piece.start:
        raise InputError(f"{piece.source!r}: became shorter while it was read")
    if piece.layout in _JSON_READERS:
        rows = _JSON_READERS[piece.layout](data, piece, ignored=ignored)
    else:
        rows = _READERS[piece.layout](data, piece)
    if piece.path == piece.source:  # else it is a copy; Parquet has returned
        rows.sums = [(piece.start, len(data), extend_crc32c(0, data))]
    rows.columns = {name: column for name, column in rows.columns.items() if name not in ignored}
    return rows


_JSON_READERS = {"jsonl": json_lines.read, "json": keyed_json.read}
_READERS = {
    "csv": delimited.read,
    "tsv": delimited.read,
    "lines": lines.read,
}
