"""The rows of one piece as columns, and the rows that cannot be among them."""

import codecs
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trainer_utils.format.media_formats import packing_of

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclasses.dataclass(frozen=True)
class BadRow:
    """A row that is rejected."""

    record: int  # its number in the piece
    code: str  # as in `rejects.jsonl`, as the detail is
    detail: str
    line: int | None = None  # its number in the piece, from 0; None where there are no lines


@dataclasses.dataclass
class Rows:
    """What was read."""

    columns: dict[str, pa.Array]  # Arrow arrays of one length
    found: int  # how many rows there were
    # `(rows,) int64`, the number of each that is left; by default all but the bad
    records: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    bad: list[BadRow] = dataclasses.field(default_factory=list)  # the others
    skipped: Sequence[int] = ()  # numbers of those left out on purpose
    # what each of all `found` is called, where it has a name of its own
    names: Sequence[str] | None = None
    lines: int = 0  # how many line ends there are
    # columns in which numbers and lists may stand as texts, as in a CSV
    texts: Collection[str] = ()
    # what was read of the source: first byte, number of bytes, and their CRC-32C; of several files
    # the checksum of each, None where it could not be read; of Parquet none
    sums: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.records is None:
            gone = [row.record for row in self.bad]
            self.records = np.delete(np.arange(self.found), gone)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Leaves out rows."""
        chosen = pa.array(mask)
        self.columns = {name: array.filter(chosen) for name, array in self.columns.items()}
        self.records = self.records[mask]


def checked_texts(rows: Rows, lines: Mapping[int, int] | None = None) -> Rows:
    """Binary columns as texts; rows with bytes that are not UTF-8, or are NUL, are rejected.

    `lines` says where records begin, of those that may be bad.
    """
    bad: dict[int, BadRow] = {}
    binary = [name for name, array in rows.columns.items() if pa.types.is_binary(array.type)]
    for name in binary:
        for row, value in enumerate(rows.columns[name].to_pylist()):
            if (problem := _problem(value)) is not None:
                record = int(rows.records[row])
                code, detail = problem
                line = (lines or {}).get(record)
                bad.setdefault(record, BadRow(record, code, f"column {name!r}: {detail}", line))
    if bad:
        rows.keep(~np.isin(rows.records, list(bad)))
        rows.bad = sorted([*rows.bad, *bad.values()], key=lambda row: row.record)
    rows.columns |= {name: rows.columns[name].cast(pa.string()) for name in binary}
    return rows


def _problem(value: bytes | None) -> tuple[str, str] | None:
    """The code and detail of bytes that are no text."""
    problem = None
    try:
        (value or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        problem = not_utf8(error)
    if value and b"\0" in value:
        problem = "NUL_BYTE", f"expected text, got a NUL byte. {name_encoding('utf-16')}"
    if value and problem and (packing := packing_of(value)) is not None:
        problem = "UNSUPPORTED_FORMAT", f"expected text, got {packing}. Unpack it first"
    return problem


def not_utf8(error: UnicodeDecodeError) -> tuple[str, str]:
    """The code and detail of a failure to decode."""
    octets = error.object[error.start : error.start + 4]
    likely = "utf-16" if b"\0" in octets or octets.startswith(_UTF_16) else "latin-1"
    return "NOT_UTF8", f"expected UTF-8, got {octets!r}. {name_encoding(likely)}"


def name_encoding(likely: str) -> str:
    """What to do about a file in another encoding, of which lists of files have none."""
    return f"Save it as UTF-8 or, of texts, name its encoding: encoding={likely!r} (--encoding)"


def lines_of(starts: Sequence[int], data: bytes) -> list[int]:
    """The line, from 0, in which each of some ascending offsets lies."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return [int(line) for line in np.searchsorted(ends, starts)]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table, which may be in chunks, as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
