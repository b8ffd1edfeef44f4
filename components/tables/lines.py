"""Plain text: an example a line. Blank lines are skipped, and counted."""

import codecs

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.tables.pieces import Piece
from components.tables.rows import Rows, checked_texts


def read(data: bytes, piece: Piece) -> Rows:
    """The lines of a piece, without their ends."""
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    parts = [part.rstrip(b"\r") for part in data.removesuffix(b"\n").split(b"\n")] if data else []
    columns, numbers = {"text": pa.array(parts, pa.binary())}, np.arange(len(parts))
    rows = Rows(columns, found=len(parts), records=numbers, lines=data.count(b"\n"))
    rows = checked_texts(rows, {number: number for number in range(len(parts))})
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
