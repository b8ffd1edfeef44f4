"""The first look at a piece: its rows as an Arrow file, and a report of what is in them.

Nothing is known of the other pieces yet, so values stay what they are in the source; what the
columns are is decided when all reports are there.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.shuffle.external import read_batch, write_batches
from components.tables.kinds import (
    LABEL_NAMES,
    ColumnFacts,
    column_facts,
    no_text,
    not_finite,
    texts_of,
)
from components.tables.pieces import BadRow, Piece, TableOptions
from components.tables.reading import read_piece
from components.tables.splits import MAYBE_SPLIT, SPLIT_NAMES, split_column
from components.tables.texts import TextRules, text_columns
from trainer_utils.storage.file_system import join
from trainer_utils.storage.files import read_bytes, write_atomically

_OF_WORDS = (*LABEL_NAMES, MAYBE_SPLIT, *SPLIT_NAMES)  # columns whose distinct values are reported
_RECORD = "record"  # of the Arrow file; the columns of the source have a prefix
_PREFIX = "column:"


@dataclasses.dataclass
class PieceReport:
    """What one piece holds."""

    found: int  # rows, the bad and the skipped among them
    kept: int  # rows that are left
    lines: int  # line ends, for the numbers of lines in later pieces
    bad: list[BadRow]  # rows that are rejected
    skipped: list[int]  # numbers of the rows left out on purpose
    names: list[str] | None  # of all rows found, where they have names of their own
    facts: dict[str, ColumnFacts]
    # The different values of columns that may be labels or splits, by column
    labels: dict[str, list[str]]
    sums: list[Any]  # as of `Rows`


def inspect_piece(
    base: str, folder: str, options: TableOptions, rules: TextRules, numbered: tuple[int, Piece]
) -> PieceReport:
    """Reads a piece, makes its texts what the settings ask for, and keeps the rest in `folder`."""
    number, piece = numbered
    rows = read_piece(base, piece, options)
    texts = text_columns(list(rows.columns), options.columns)
    for name in texts:  # before they are made texts
        if (found := not_finite(rows.columns[name], rows.records)) is not None:
            raise no_text(name, found[1], f"{piece.source}, row {found[0] + 1} of a piece")
    skipped = [*rows.skipped, *rules.apply(rows, texts)]
    records = rows.records
    arrays = {_RECORD: pa.array(records, pa.int64())}
    arrays |= {_PREFIX + name: array for name, array in rows.columns.items()}
    batch = pa.RecordBatch.from_arrays([*arrays.values()], [*arrays])
    write_batches(_path(folder, number), folder, [batch])
    if rules.deduplicate:
        _write_digests(folder, number, [rows.columns[name] for name in texts])
    stay = {
        *texts,
        *(n for n, k in options.columns.items() if k in ("string", "text", "label")),
    }
    may_be_numbers = {*rows.texts} - stay
    return PieceReport(
        found=rows.found,
        kept=len(records),
        lines=rows.lines,
        bad=rows.bad,
        skipped=skipped,
        names=None if rows.names is None else list(rows.names),
        facts={
            name: column_facts(array, records, are_texts=name in may_be_numbers)
            for name, array in rows.columns.items()
        },
        labels={
            name: _values(array)
            for name, array in rows.columns.items()
            if options.columns.get(name) in ("label", "split") or name.lower() in _OF_WORDS
        },
        sums=rows.sums,
    )


def _values(array: pa.Array) -> list[str]:
    """The different values of a column of texts, or of lists of them."""
    if pa.types.is_list(array.type):
        array = array.flatten()
    if pa.types.is_null(array.type):
        return []
    unique = pc.unique(texts_of(array))
    return [value for value in unique.to_pylist() if value is not None]


def _path(folder: str, number: int, ending: str = "arrow") -> str:
    return join(folder, f"rows/{number:06d}.{ending}")


def read_columns(
    folder: str, number: int, names: Sequence[str]
) -> tuple[dict[str, pa.Array], npt.NDArray[np.int64]]:
    """The columns of a piece that was inspected, and its rows' numbers."""
    batch = read_batch(_path(folder, number), 0)
    columns = {
        name.removeprefix(_PREFIX): column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name != _RECORD and name.removeprefix(_PREFIX) in names
    }
    return columns, batch.column(0).to_numpy()


def _write_digests(folder: str, number: int, texts: Sequence[pa.Array]) -> None:
    lists = [array.to_pylist() for array in texts]
    digests = b"".join(
        hashlib.blake2b(repr(values).encode(), digest_size=16).digest()
        for values in zip(*lists, strict=True)
    )
    path = _path(folder, number, "digests")
    with write_atomically(path, temporary_folder=folder) as stream:
        stream.write(digests)


def read_digests(folder: str, number: int) -> npt.NDArray[np.void]:
    """`(rows,) 16 bytes`: what stands for each row's text."""
    return np.frombuffer(read_bytes(_path(folder, number, "digests")), "V16")


def own_split_column(reports: Sequence[PieceReport], given: Mapping[str, str]) -> str | None:
    """The column that says each row's split, if there is one."""

    def words_of(name: str) -> set[str]:
        return {value for report in reports for value in report.labels.get(name, ())}

    return split_column(names_of(reports), given=given, words_of=words_of)


def names_of(reports: Sequence[PieceReport]) -> list[str]:
    """The columns of all pieces, in the order of the inputs."""
    return list(dict.fromkeys(name for report in reports for name in report.facts))


def count_before(counts: Sequence[int], pieces: Sequence[Piece]) -> list[int]:
    """How much of its source comes before each piece."""
    before: collections.Counter[str] = collections.Counter()
    sums = []
    for count, piece in zip(counts, pieces, strict=True):
        sums.append(before[piece.source])
        before[piece.source] += count
    return sums
