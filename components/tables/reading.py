"""Read tables and text for all ExampleGens: cut files into pieces, and read pieces as columns."""

import codecs
import contextlib
import dataclasses
import gzip
import io
import os
import posixpath
import shutil
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import Blob, BlobReader
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError, reject_errors
from components.tables import delimited, json_rows, parquet
from components.tables.pieces import (
    MAX_ROW_BYTES,
    BadRow,
    Piece,
    Rows,
    TableOptions,
    checked_texts,
    cut,
)
from trainer_utils.format import InputError, TfxShardsError
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import make_folder, open_for_reading, write_atomically
from trainer_utils.storage.file_system import (
    is_host_error,
    is_remote,
    join,
    problem_of,
    retry_transient,
)

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
_BLOCK_BYTES = 4 << 20


def kind_of_table(path: str, kinds: Mapping[str, str] = SUFFIXES) -> str | None:
    """Return the table format for a file name, or None.

    Args:
        path: the file's path, with `.gz` if it is compressed.
        kinds: the formats by suffix. Default: `csv`, `tsv`, `jsonl` and `parquet`.
    """
    name = path.lower().removesuffix(".gz")
    return kinds.get(posixpath.splitext(name)[1])


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
    with _named(path, kind):
        whole = Piece(path=path, source=path, layout=kind, split=split)
        if kind == "parquet":
            yield from parquet.find_pieces(inputs, whole, left_out=unread | options.ignored)
            return
        whole = dataclasses.replace(whole, path=_in_utf8(inputs, path, options, folder))
        if kind in DELIMITERS:
            delimiter = options.delimiter or DELIMITERS[kind]
            yield from delimited.find_pieces(inputs, whole, delimiter=delimiter, options=options)
        elif kind == "json":
            yield json_rows.find_document(inputs, whole)
        else:
            with inputs.open(whole.path) as stream:
                yield from cut(stream, whole)


def _in_utf8(inputs: LayoutInputs, path: str, options: TableOptions, folder: str) -> str:
    """Return the path of a file in uncompressed UTF-8: itself, or a new copy in a folder."""
    is_compressed = path.lower().endswith(".gz")
    if options.is_utf8 and not is_compressed:
        return path
    copies = join(folder, "texts")
    make_folder(copies)
    copy = join(copies, uuid.uuid4().hex)
    with inputs.open(path) as stream, write_atomically(copy, temporary_folder=folder) as target:
        source: Any = gzip.GzipFile(fileobj=stream) if is_compressed else stream
        try:
            if options.is_utf8:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
                return copy
            text = io.TextIOWrapper(source, options.encoding, newline="")
            while block := text.read(_BLOCK_BYTES):
                target.write(block.encode())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError.at(path, expected="a whole gzip file", got=str(error)) from error
        except UnicodeError as error:
            rule, advice = f"text in {options.encoding}", "Name its encoding."
            raise InputError.at(path, expected=rule, got=str(error), advice=advice) from error
    return copy


def read_piece(
    base: str, piece: Piece, options: TableOptions, *, unread: frozenset[str] = frozenset()
) -> Rows:
    """Read the rows of a piece. A piece of a file that can no longer be read is one bad row.

    Args:
        base: the input base.
        piece: the piece.
        options: the settings of tables.
        unread: columns of a Parquet file to skip, such as those with large values.

    Raises:
        InputError: the piece as a whole is malformed.
    """
    if piece.layout == "folder":
        return _read_files(base, piece, options)
    size = piece.stop - piece.start
    problem = "TOO_LARGE", f"expected at most {MAX_ROW_BYTES} bytes in a row, got {size}"
    if not piece.too_long:
        try:
            with _named(piece.source, piece.layout):
                rows = retry_transient(piece.source, _read_table, base, piece, options, unread)
                return _with_partitions(rows, piece, options)
        except OSError as error:
            problem = problem_of(error, piece.source)
    return Rows({}, found=1, bad=[BadRow(0, *problem, 0)], lines=1)


def _with_partitions(rows: Rows, piece: Piece, options: TableOptions) -> Rows:
    """Return rows with additional columns from the folders of the file: Hive's partitions."""
    partitions: Mapping[str, str | None] = piece.details.get("partitions", {})
    for name, value in partitions.items():
        if name in options.ignored:
            continue
        if name in rows.columns:
            raise InputError.at(
                piece.source,
                expected=f"a column {name!r} in the file or in its path",
                got="one in both",
                advice=f"Rename the column, or the folder {name}={value}.",
            )
        rows.columns[name] = pa.array([value] * len(rows.records), pa.string())
    rows.texts = {*rows.texts, *partitions}
    return rows


@contextlib.contextmanager
def _named(source: str, kind: str) -> Iterator[None]:
    """Convert any error of a library on a damaged file to an InputError that names the file."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (TfxShardsError, OSError)) or is_host_error(error):
            raise
        got = f"one that cannot be read: {type(error).__name__}: {error}"
        raise InputError.at(
            source, expected=f"a complete table ({kind})", got=got, advice="Write it again."
        ) from error


def _read_table(base: str, piece: Piece, options: TableOptions, unread: frozenset[str]) -> Rows:
    ignored = options.ignored
    is_listed = piece.path == piece.source  # otherwise it is a UTF-8 copy outside the input base
    is_held = is_listed and not options.follow_links and not is_remote(base)
    root = os.path.realpath(base) if is_held else None
    with open_for_reading(join(base, piece.path), root=root) as stream:
        if piece.layout == "parquet":
            return parquet.read(stream, piece, options, unread=unread)
        stream.seek(piece.start)
        data = stream.read(piece.stop - piece.start)
    if len(data) != piece.stop - piece.start:
        raise InputError(f"{piece.source!r}: became shorter while it was read")
    if piece.layout in ("jsonl", "json"):
        read = json_rows.read_document if piece.layout == "json" else json_rows.read_lines
        rows = read(data, piece, ignored=ignored, as_json=options.as_json)
    else:
        rows = (_read_lines if piece.layout == "lines" else delimited.read)(data, piece)
    if is_listed:
        rows.sums = [(piece.start, len(data), extend_crc32c(0, data))]
    rows.columns = {name: column for name, column in rows.columns.items() if name not in ignored}
    return rows


def _read_lines(data: bytes, piece: Piece) -> Rows:
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    parts = [part.rstrip(b"\r") for part in data.removesuffix(b"\n").split(b"\n")] if data else []
    columns, numbers = {"text": pa.array(parts, pa.binary())}, range(len(parts))
    rows = Rows(columns, found=len(parts), lines=data.count(b"\n"))
    rows = checked_texts(rows, dict(zip(numbers, numbers, strict=True)))
    lengths = pc.utf8_length(pc.utf8_trim_whitespace(rows.columns["text"]))
    blank = np.asarray(lengths.to_numpy(zero_copy_only=False) == 0)
    if blank.any():
        rows.skipped = rows.records[blank].tolist()
        rows.keep(~blank)
    return rows


def _read_files(base: str, piece: Piece, options: TableOptions) -> Rows:
    """Read the files of a piece, one row per file, and convert them to UTF-8."""
    encoding = None if options.is_utf8 else options.encoding
    reader = BlobReader(base, follow_links=options.follow_links)
    texts: list[bytes] = []
    labels, names, bad = [], [], []
    sums: list[int | None] = []
    for record, (name, size, label) in enumerate(piece.details["files"]):
        names.append(name)
        sums.append(None)
        try:
            with reject_errors():
                if size > MAX_ROW_BYTES:
                    detail = f"expected at most {MAX_ROW_BYTES} bytes, got {size}"
                    raise RejectedInputError("TOO_LARGE", detail)
                data = retry_transient(name, reader.read, Blob(name, size))
                sums[-1] = extend_crc32c(0, data)
                texts.append(retry_transient(name, _text, data, encoding))
            labels.append(label)
        except RejectedInputError as error:
            bad.append(BadRow(record, error.code, error.detail))
    columns = {"text": pa.array(texts, pa.binary())}
    if piece.details["has_labels"]:
        columns["label"] = pa.array(labels, pa.string())
    return checked_texts(Rows(columns, found=len(names), bad=bad, names=names, sums=sums))


def _text(data: bytes, encoding: str | None) -> bytes:
    if encoding is not None:
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise RejectedInputError("NOT_UTF8", f"expected {encoding}: {error}") from error
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise RejectedInputError("EMPTY_FILE", "there is no text in it")
    return data
