"""A list of files as a table: the same readers and types as for tables of texts.

    table = read_list(inputs, "list.csv")
    table.values("label")                  # ['cat', 'dog']: one a row, None where there is none
    table.cast_column("age", None)               # (Column(name='age', kind='int'), [31, None])

A row that cannot be read ends the run: what files a damaged list means is nobody's guess.
"""

import codecs
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import Column, Value
from components.common.layout_inputs import LayoutInputs
from components.example_gen.embedded import Embedded, find_embedded
from components.tables.casting import cast_column
from components.tables.kinds import column_facts, decide_column
from components.tables.options import TableOptions
from components.tables.parquet import open_file, read_columns
from components.tables.pieces import Piece, row_starts
from components.tables.reading import DELIMITERS, kind_of_table, pieces_of, read_piece
from components.tables.rows import NAMED_ENCODING, Rows, lines_of
from trainer_utils.format import InputError, keyed_hash
from trainer_utils.storage import MachineError

__all__ = ["ListTable", "note_rows", "read_list", "typed_values"]


@dataclasses.dataclass(frozen=True)
class ListTable:
    """The rows of a list.

    Args:
        parts: the rows as they were read, in order.
        positions: of each row, the line that it begins in, or of Parquet its number from 0.
        unit: what positions count: `line` or `row`.
        embedded: images and sounds in the file, by column.
    """

    path: str
    names: tuple[str, ...]
    parts: tuple[Rows, ...]
    positions: tuple[int, ...]
    unit: str
    embedded: Mapping[str, Embedded] = dataclasses.field(default_factory=dict)

    def place(self, position: int) -> str:
        """A row's place, for messages."""
        return f"{self.unit} {position}"

    def values(self, name: str) -> list[Any]:
        """What a column holds, one value a row; None where there is none."""
        return [value for array in self._arrays(name) for value in array.to_pylist()]

    def _arrays(self, name: str) -> Iterator[pa.Array]:
        for rows in self.parts:
            count = 0 if rows.records is None else len(rows.records)
            yield rows.columns.get(name, pa.nulls(count))

    def cast_column(
        self, name: str, kind: str | None, *, trim: bool = False
    ) -> tuple[Column, list[Value]] | None:
        """What `typed_values` says of a column; `trim`: spaces round texts are none of theirs."""
        arrays = [_trimmed(array) if trim else array for array in self._arrays(name)]
        return typed_values(
            name,
            [(array, name in rows.texts) for array, rows in zip(arrays, self.parts, strict=True)],
            kind=kind,
            place=lambda row: f"{self.path!r}, {self.place(self.positions[row])}",
        )


def typed_values(
    name: str,
    parts: Sequence[tuple[pa.Array, bool]],
    *,
    kind: str | None,
    place: Callable[[int], str],
) -> tuple[Column, list[Value]] | None:
    """A column's type by all of its values, and these as examples keep them.

    Args:
        parts: Arrow arrays, each with whether numbers and lists may stand in it as texts.
        kind: what the user says that it is, or None.
        place: names the place of the n-th value, for messages.

    Raises:
        InputError: a value is not of its kind.
    """
    kind = "string" if kind == "text" else kind
    starts = np.cumsum([0, *(len(array) for array, _ in parts)]).tolist()
    facts = [
        (
            number,
            column_facts(
                array,
                np.arange(len(array)),
                are_texts=are_texts and kind not in ("string", "label"),
            ),
        )
        for number, (array, are_texts) in enumerate(parts)
    ]
    column = decide_column(
        name, facts, given=kind, is_text=False, place=lambda n, row: place(starts[n] + row)
    )
    if column is None:
        return None
    values: list[Any] = []
    for array, _ in parts:
        values += map(_as_text, cast_column(array, column, floats=pa.float64()).to_pylist())
    if not column.is_list:
        return column, values
    lists = [tuple(value or ()) for value in values]
    lengths = {len(value) for value in lists}
    if len(lengths) == 1 and lengths != {0} and column.kind in ("int", "float"):
        column = dataclasses.replace(column, length=lengths.pop())
    return column, [*lists]


def _as_text(value: Any) -> Any:
    """Bytes that are a value as a text, in which what is no UTF-8 is escaped as in names."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _trimmed(array: pa.Array) -> pa.Array:
    """Texts without spaces round them; null where nothing is left."""
    if not pa.types.is_string(array.type):
        return array
    array = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)


def read_list(inputs: LayoutInputs, path: str) -> ListTable:
    """Reads a list, whose suffix says its format.

    Raises:
        InputError: it is malformed; the message names file and line.
    """
    kind = kind_of_table(path)
    assert kind is not None
    if kind == "parquet":
        return _read_parquet(inputs, path)
    whole = inputs.read_bytes(path)  # first, since it refuses a file that is not as it was listed
    options = TableOptions(
        columns=inputs.columns, column_names=inputs.column_names, header=inputs.header
    )
    pieces, parts = _read_pieces(inputs, path, kind, options)
    data = whole.removeprefix(codecs.BOM_UTF8)
    delimiter = DELIMITERS[kind].encode() if kind in DELIMITERS else None
    starts = row_starts(data, delimiter)
    note_rows(inputs, path, data, starts.tolist())
    if pieces and kind in DELIMITERS:  # a header is no row
        starts = starts[starts >= pieces[0].start - (len(whole) - len(data))]
    lines = np.array(lines_of(starts.tolist(), data), np.int64) + 1
    records = _records(parts)
    parts, filled = _without_empty(parts) if delimiter else (parts, np.ones(len(records), bool))
    positions = lines[records[filled]].tolist()
    names = dict.fromkeys(name for rows in parts for name in rows.columns)
    if delimiter and pieces:
        ignored = options.ignored
        names = dict.fromkeys(name for name in pieces[0].details["names"] if name not in ignored)
    return ListTable(path, tuple(names), tuple(parts), tuple(positions), "line")


def _read_pieces(
    inputs: LayoutInputs,
    path: str,
    kind: str,
    options: TableOptions,
    *,
    unread: frozenset[str] = frozenset(),
) -> tuple[list[Piece], list[Rows]]:
    """All pieces of a list, with their rows."""
    pieces = [
        *pieces_of(inputs, path, kind=kind, split=None, options=options, folder="", unread=unread)
    ]
    parts, lines = [], 1
    for piece in pieces:
        rows = read_piece(inputs.base, piece, options, unread=unread)
        if rows.bad:
            bad = rows.bad[0]
            line = lines + int(piece.details.get("lines_before", 0)) + (bad.line or 0)
            detail = bad.detail.replace(NAMED_ENCODING, options.encoding)
            raise InputError(
                f"{piece.source!r}: {detail} ({bad.code}, line {line}). Mend that row. "
                "If the file is no list, set layout='folder'."
            )
        parts.append(rows)
        lines += rows.lines
    return pieces, parts


def _records(parts: Sequence[Rows]) -> npt.NDArray[np.int64]:
    """The numbers of all rows in their file, those that are not blank counted."""
    before, records = 0, [np.zeros(0, np.int64)]
    for rows in parts:
        records.append(before + np.asarray(rows.records))
        before += rows.found
    return np.concatenate(records)


def _without_empty(parts: Sequence[Rows]) -> tuple[list[Rows], npt.NDArray[np.bool_]]:
    """Rows of delimiters alone are none, as spreadsheets write them below a table."""
    masks = [np.zeros(0, np.bool_)]
    for rows in parts:
        filled = np.zeros(len(np.asarray(rows.records)), np.bool_)
        for array in rows.columns.values():
            lengths = pc.fill_null(pc.utf8_length(pc.utf8_trim_whitespace(array)), 0)
            filled |= lengths.to_numpy(zero_copy_only=False) > 0
        if not filled.all():
            rows.keep(filled)
        masks.append(filled)
    return list(parts), np.concatenate(masks)


def note_rows(inputs: LayoutInputs, path: str, data: bytes, starts: Sequence[int]) -> None:
    """Keeps a list's rows in mind, in no order and whatever their columns are taken for.

    Args:
        inputs: whose fingerprint they are a part of.
        path: of the list; its rows stand for its bytes.
        starts: where each row begins.
    """
    ends = [*starts[1:], len(data)]
    rows = (data[start:end].strip() for start, end in zip(starts, ends, strict=True))
    inputs.contents[path] = sum(_row_hash(row) for row in rows) % 2**128


def _row_hash(row: bytes) -> int:
    return keyed_hash(row, seed=0, purpose="row")


def _read_parquet(inputs: LayoutInputs, path: str) -> ListTable:
    options = TableOptions(columns=inputs.columns)
    with inputs.open(path) as stream:
        file = open_file(stream, path)
        try:
            embedded = {
                name: found
                for name, found in find_embedded(file, stream).items()
                if inputs.columns.get(name) != "string"  # bytes that are a value
            }
        except MachineError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path!r}: expected a Parquet file: {error}", path=path) from error
        names = [name for name in file.schema_arrow.names if name not in embedded]
        raw: list[dict[str, Any]] = []
        if names:
            unread = frozenset(embedded)
            raw = read_columns(stream, path, ignored=options.ignored, unread=unread).to_pylist()
        number = file.metadata.num_rows
    hashes = (_row_hash(repr(sorted(row.items())).encode()) for row in raw)
    inputs.contents[path] = (sum(hashes) + number) % 2**128
    parts: list[Rows] = []
    if names:
        _, parts = _read_pieces(inputs, path, "parquet", options, unread=frozenset(embedded))
    found = dict.fromkeys(name for rows in parts for name in rows.columns)
    return ListTable(path, (*found, *embedded), tuple(parts), tuple(range(number)), "row", embedded)
