"""The fingerprint of texts and tables, for the manifest: of whole files, however they are cut.

    text_fingerprint(located, pieces, reports, plan)

The sums of a file's pieces, as they were read to be converted, make that of the file; what lies
between them, such as a header, is read for it. So are the originals of copies. A Parquet file is
what its columns hold, however its rows are grouped.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from components.common.fingerprint import add_facts
from components.common.listing import Blob
from components.example_gen.fingerprint import known_sizes, read_sums
from components.example_gen.inputs import LocatedInputs
from components.example_gen.inspection import PieceReport
from components.example_gen.row_plan import RowPlan
from components.tables.pieces import Piece
from trainer_utils.format.crc32c import combine_crc32c, extend_crc32c
from trainer_utils.storage import join, open_for_reading

__all__ = ["text_fingerprint"]

_BLOCK_BYTES = 4 << 20
_Part = tuple[int, int, int]  # first byte, bytes, CRC-32C


def text_fingerprint(
    located: LocatedInputs, pieces: Sequence[Piece], reports: Sequence[PieceReport], plan: RowPlan
) -> str:
    """As `media_fingerprint`, of the files that the rows are from.

    Args:
        located: where the inputs are.
        pieces, reports: of all that was read.
        plan: with the files that were not.
    """
    sizes = known_sizes(located)
    files: dict[Blob, int | None] = {}
    parts: dict[str, list[_Part]] = {}
    columns: dict[tuple[str, ...], tuple[int, int]] = {}
    for piece, report in zip(pieces, reports, strict=True):
        if piece.layout == "folder":
            names = [Blob(name, size) for name, size, _ in piece.details["files"]]
            files |= dict(zip(names, report.sums, strict=True))
        elif piece.layout == "parquet":
            for name, stream, size, crc in report.sums:
                before = columns.get((piece.source, name, stream), (0, 0))
                whole = before[0] + size, combine_crc32c(before[1], crc, size)
                columns[piece.source, name, stream] = whole
        else:
            parts.setdefault(piece.source, []).extend(tuple(part) for part in report.sums)
    for left in plan.left_out:
        files[Blob(left.name, sizes.get(left.name) or 0)] = None
    skipped = {left.name for left in plan.left_out if left.code is None}
    unread = [
        blob
        for blob, crc in files.items()
        if crc is None and blob.path not in skipped and sizes.get(blob.path) is not None
    ]
    files |= read_sums(located.base, unread)
    for path, read in parts.items():
        size = sizes.get(path) or 0
        files[Blob(path, size)] = _whole(join(located.base, path), size, sorted(read))
    facts: dict[tuple[Any, ...], Any] = {(b.path, *b[1:]): crc for b, crc in files.items()}
    return add_facts(facts | columns)


def _whole(path: str, size: int, parts: Iterable[_Part]) -> int | None:
    """The CRC-32C of a file of which some parts are known; None where the rest cannot be read."""
    whole = at = 0
    try:
        for start, length, crc in [*parts, (size, 0, 0)]:
            if start > at:
                whole = _extended(whole, path, at, start)
            whole, at = combine_crc32c(whole, crc, length), start + length
    except OSError:
        return None
    return whole


def _extended(crc: int, path: str, start: int, stop: int) -> int:
    with open_for_reading(path) as stream:
        stream.seek(start)
        while start < stop and (block := stream.read(min(_BLOCK_BYTES, stop - start))):
            crc, start = extend_crc32c(crc, block), start + len(block)
    return crc
