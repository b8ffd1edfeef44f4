"""Text files, an example each: `<split>/<class>/…`, `<class>/…`, `<split>/…` or files alone."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from components.common.blobs import BlobReader
from components.common.guard import one_input
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Blob, Listing
from components.common.rejects import RejectedInputError
from components.example_gen import folder
from components.tables.pieces import MAX_ROW_BYTES, PIECE_BYTES, Piece
from components.tables.rows import BadRow, Rows, checked_texts
from trainer_utils.format.crc32c import extend_crc32c

__all__ = ["find_pieces", "read"]

_PIECE_FILES = 4096


def find_pieces(inputs: LayoutInputs) -> tuple[list[Piece], Listing]:
    """Groups of files of one split, and what the folders say of files that are left out."""
    listing = folder.read(inputs)
    return list(_grouped(listing)), dataclasses.replace(listing, entries=())


def _grouped(listing: Listing) -> Iterator[Piece]:
    by_split: dict[str | None, list[tuple[str, int, Any]]] = {}
    for entry in listing.entries:
        label = entry.values[0] if entry.values else None
        by_split.setdefault(entry.split, []).append((entry.name, entry.blobs[0].size, label))
    for split, files in by_split.items():
        start = size = 0
        for stop in range(1, len(files) + 1):
            size += files[stop - 1][1]
            if stop == len(files) or size >= PIECE_BYTES or stop - start == _PIECE_FILES:
                has_labels = bool(listing.columns)
                details = {"files": files[start:stop], "bytes": size, "has_labels": has_labels}
                yield Piece(path="", source="", layout="folder", split=split, details=details)
                start, size = stop, 0


def read(base: str, piece: Piece, *, encoding: str | None) -> Rows:
    """The files of a piece, in an encoding that is not UTF-8 where one is named."""
    reader = BlobReader(base)
    texts: list[bytes] = []
    labels, names, bad = [], [], []
    sums: list[int | None] = []
    for record, (name, size, label) in enumerate(piece.details["files"]):
        names.append(name)
        sums.append(None)
        try:
            with one_input():
                data = _read(reader, name, size)
                sums[-1] = extend_crc32c(0, data)
                text = _text(data, encoding)
            texts.append(text)
            labels.append(label)
        except RejectedInputError as error:
            bad.append(BadRow(record, error.code, error.detail))
    columns = {"text": pa.array(texts, pa.binary())}
    if piece.details["has_labels"]:
        columns["label"] = pa.array(labels, pa.string())
    rows = Rows(columns, found=len(names), bad=bad, names=names, sums=sums)
    return checked_texts(rows)


def _read(reader: BlobReader, name: str, size: int) -> bytes:
    if size > MAX_ROW_BYTES:
        raise RejectedInputError("TOO_LARGE", f"expected at most {MAX_ROW_BYTES} bytes, got {size}")
    return reader.read(Blob(name, size))


def _text(data: bytes, encoding: str | None) -> bytes:
    if encoding is not None:
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise RejectedInputError("NOT_UTF8", f"expected {encoding}: {error}") from error
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise RejectedInputError("EMPTY_FILE", "there is no text in it")
    return data
