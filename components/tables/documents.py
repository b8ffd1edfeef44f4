"""Text files, an example each: the files of a piece, read one by one."""

import codecs

import pyarrow as pa

from components.common.entry import Blob, BlobReader
from components.common.rejects import RejectedInputError, reject_errors
from components.tables.pieces import MAX_ROW_BYTES, Piece
from components.tables.rows import BadRow, Rows, checked_texts
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.storage import persist

__all__ = ["read"]


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
            with reject_errors():
                data = persist(name, _read, reader, name, size)
                sums[-1] = extend_crc32c(0, data)
                text = persist(name, _text, data, encoding)
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
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise RejectedInputError("EMPTY_FILE", "there is no text in it")
    return data
