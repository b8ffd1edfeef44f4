"""Plain text: an example a line. Blank lines are skipped, and counted."""

import codecs

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.tables.pieces import Piece
from components.tables.rows import Rows, checked_texts

__all__ = ["read"]


def read(data: bytes, piece: Piece) -> Rows:
    """The lines of a piece, without their ends."""
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    if len(data) and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([[0], np.minimum(ends + 1, len(data))]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    try:
        if b"\0" in data:
            raise pa.ArrowInvalid("not simple")
        texts = texts.cast(pa.string())
        texts = pc.utf8_rtrim(texts, "\r\n")
    except pa.ArrowInvalid:
        texts = pa.array([line.rstrip(b"\r\n") for line in texts.to_pylist()], pa.binary())
    found, lines = len(ends), data.count(b"\n")
    rows = Rows({"text": texts}, found=found, records=np.arange(found), lines=lines)
    if pa.types.is_binary(texts.type):
        rows = checked_texts(rows, {number: number for number in range(found)})
    blank = np.asarray(
        pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(rows.columns["text"])), 0).to_numpy(
            zero_copy_only=False
        )
    )
    if blank.any():
        assert rows.records is not None
        rows.skipped = rows.records[blank].tolist()
        rows.keep(~blank)
    return rows
