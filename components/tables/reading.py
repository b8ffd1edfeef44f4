"""Read tables and text for all ExampleGens: cut files into pieces, and read pieces as columns."""

import codecs
import contextlib
import dataclasses
import gzip
import io
import os
import posixpath
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob
from components.inputs.rejects import RejectedInputError, reject_errors
from components.tables import delimited, json_rows, parquet
from components.tables.pieces import (
    MAX_ROW_BYTES,
    BadRow,
    Piece,
    Rows,
    TableOptions,
    checked_texts,
)
from trainer_utils.core.errors import InputError, TfxShardsError
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import open_for_reading, write_atomically
from trainer_utils.storage.host_errors import is_host_error, problem_of
from trainer_utils.storage.paths import is_remote, join
from trainer_utils.storage.retrying import retry_transient

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


@dataclasses.dataclass(frozen=True)
class TableFolder:
    """The folder of listed tables, for workers.

    Args:
        base: the input base.
        follow_links: whether links may point outside of it.
    """

    base: str
    follow_links: bool

    def open(self, path: str) -> BinaryIO:
        """Open a listed table by its relative path, or a copy by its whole path."""
        is_listed = not (os.path.isabs(path) or is_remote(path))
        is_held = is_listed and not self.follow_links and not is_remote(self.base)
        root = os.path.realpath(self.base) if is_held else None
        return open_for_reading(join(self.base, path), root=root)


def write_in_utf8(
    stream: BinaryIO, path: str, options: TableOptions, target: str, temporary_folder: str
) -> int:
    """Write an uncompressed copy of a file in UTF-8, and return its size.

    Args:
        stream: the file.
        path: its path, whose suffix says whether it is compressed.
        options: the settings of tables.
        target: the path of the copy.
        temporary_folder: the folder for the copy until it is complete.

    Raises:
        InputError: the file is damaged, or not in the encoding.
    """
    source: Any = gzip.GzipFile(fileobj=stream) if path.lower().endswith(".gz") else stream
    size = 0
    with write_atomically(target, temporary_folder=temporary_folder) as copy:
        try:
            for block in _blocks_in_utf8(source, options):
                size += len(block)
                copy.write(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError.at(path, expected="a whole gzip file", got=str(error)) from error
        except UnicodeError as error:
            rule, advice = f"text in {options.encoding}", "Name its encoding."
            raise InputError.at(path, expected=rule, got=str(error), advice=advice) from error
    return size


def _blocks_in_utf8(source: Any, options: TableOptions) -> Iterator[bytes]:
    if options.is_utf8:
        while block := source.read(_BLOCK_BYTES):
            yield block
        return
    text = io.TextIOWrapper(source, options.encoding, newline="")
    try:
        while characters := text.read(_BLOCK_BYTES):
            yield characters.encode()
    finally:
        text.detach()  # the caller closes the source


class PieceReader(contextlib.AbstractContextManager["PieceReader"]):
    """A reader of pieces that reads parts of one row group of a Parquet file without repetition.

    Args:
        base: the input base.
        options: the settings of tables.
        unread: columns of a Parquet file to skip, such as those with large values.
    """

    def __init__(
        self, base: str, options: TableOptions, *, unread: frozenset[str] = frozenset()
    ) -> None:
        self._base, self._options, self._unread = base, options, unread
        self._folder = TableFolder(base, options.follow_links)
        self._path = ""  # of the open Parquet file
        self._stream: BinaryIO | None = None
        self._columns = parquet.ColumnStreams()

    def __exit__(self, *error: object) -> None:
        self._close()

    def read(self, piece: Piece) -> Rows:
        """Read the rows of a piece. A piece of a file that can no longer be read is one bad row.

        Raises:
            InputError: the piece as a whole is malformed.
        """
        if piece.layout == "folder":
            return _read_files(self._base, piece, self._options)
        size = piece.stop - piece.start
        problem = "TOO_LARGE", f"expected at most {MAX_ROW_BYTES} bytes in a row, got {size}"
        if not piece.too_long:
            try:
                with name_table(piece.source, piece.layout):
                    rows = retry_transient(piece.source, self._read, piece)
                    return _with_partitions(rows, piece, self._options)
            except OSError as error:
                problem = problem_of(error, piece.source)
        return Rows({}, found=1, bad=[BadRow(0, *problem, 0)], lines=1)

    def _read(self, piece: Piece) -> Rows:
        if piece.layout != "parquet":
            with self._folder.open(piece.path) as stream:
                return _read_table(stream, piece, self._options)
        try:
            if self._stream is None or self._path != piece.path:
                self._close()
                self._path, self._stream = piece.path, self._folder.open(piece.path)
            return parquet.read(
                self._stream, piece, self._options, unread=self._unread, streams=self._columns
            )
        except BaseException:  # a retry opens the file again
            self._close()
            raise

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._columns = None, parquet.ColumnStreams()


def _with_partitions(rows: Rows, piece: Piece, options: TableOptions) -> Rows:
    """Return rows with additional columns from the folders of the file: Hive's partitions."""
    for name, value in piece.partitions.items():
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
    rows.texts = {*rows.texts, *piece.partitions}
    return rows


@contextlib.contextmanager
def name_table(source: str, kind: str) -> Iterator[None]:
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


def _read_table(stream: BinaryIO, piece: Piece, options: TableOptions) -> Rows:
    """Read the rows of a piece of a table that is not Parquet."""
    ignored = options.ignored
    stream.seek(piece.start)
    data = stream.read(piece.stop - piece.start)
    if len(data) != piece.stop - piece.start:
        raise InputError(f"{piece.source!r}: became shorter while it was read")
    if piece.layout in ("jsonl", "json"):
        read = json_rows.read_document if piece.layout == "json" else json_rows.read_lines
        rows = read(data, piece, ignored=ignored, as_json=options.as_json)
    else:
        rows = (_read_lines if piece.layout == "lines" else delimited.read)(data, piece)
    if piece.path == piece.source:  # otherwise it is a copy
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
    for record, (name, size, label) in enumerate(piece.files):
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
    if piece.has_labels:
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
