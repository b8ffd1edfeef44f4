"""Reads lists of images as rows: CSV, TSV, lines of JSON, Parquet.

    table = read_table(inputs, "list.csv")
    table.rows[0]        # (1, ['TRAIN', 'cat/1.jpg', 'cat'])

CSV knows texts alone, and may have no header: its first row is then data. JSON objects are
flattened with dots. Of Parquet the bytes of images are not read.
"""

import csv
import dataclasses
import datetime
import decimal
import io
import json
from collections.abc import Iterator
from typing import Any

from components.common.layout_inputs import LayoutInputs
from trainer_utils.format import InputError

__all__ = ["SUFFIXES", "Embedded", "Table", "flattened", "read_table"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_HEADS, _HEAD_BYTES, _BUFFER_BYTES = 8, 512, 1 << 16
_BYTES_FIELD, _PATH_FIELD = "bytes", "path"  # of a struct, as Hugging Face keeps an image


@dataclasses.dataclass(frozen=True)
class Embedded:
    """Images that are in a Parquet file itself.

    Args:
        column: as people name it.
        bytes_column: the one with the bytes, a field of a struct after a dot.
        bytes_per_row: about how many.
        paths: where the rows say that they come from, None for those that do not.
        heads: how the first ones begin.
    """

    column: str
    bytes_column: str
    bytes_per_row: int
    paths: list[str | None]
    heads: tuple[bytes, ...] = ()


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows of a list.

    Args:
        path: the file.
        kind: `csv`, `tsv`, `jsonl` or `parquet`.
        columns: their names; None for a CSV, whose first row may be a header or not.
        rows: each with its line, or of Parquet its row from 0, and a value for each column:
            texts of CSV; else None, bool, int, float, str or a list.
        embedded: images in the file, by column.
    """

    path: str
    kind: str
    columns: list[str] | None
    rows: list[tuple[int, list[Any]]]
    embedded: dict[str, Embedded] = dataclasses.field(default_factory=dict)

    def place(self, position: int) -> str:
        """A row's place, for messages."""
        return f"row {position}" if self.kind == "parquet" else f"line {position}"


def read_table(inputs: LayoutInputs, path: str) -> Table:
    """Reads a list; the suffix tells its form.

    Raises:
        InputError: it is malformed; the message names file and line.
    """
    kind = next(kind for suffix, kind in SUFFIXES.items() if path.lower().endswith(suffix))
    if kind == "parquet":
        return _read_parquet(inputs, path)
    text = inputs.read_text(path)
    if kind == "jsonl":
        return _read_json_lines(text, path)
    return Table(path, kind, None, list(_csv_rows(text, path, _DELIMITERS[kind])))


def _csv_rows(text: str, path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line that it ends in."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path!r}: {error} (line {reader.line_num})") from error


def _read_json_lines(text: str, path: str) -> Table:
    columns: dict[str, None] = {}
    objects = []
    for line, source in enumerate(text.split("\n"), 1):
        if not source.strip():
            continue
        try:
            value = json.loads(source)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path!r}: expected a JSON object a line: {error} (line {line})"
            ) from (error)
        if not isinstance(value, dict):
            raise InputError(
                f"{path!r}: expected a JSON object a line, got {type(value).__name__} (line {line})"
            )
        flat = dict(flattened(value))
        columns.update(dict.fromkeys(flat))
        objects.append((line, flat))
    rows = [(line, [flat.get(name) for name in columns]) for line, flat in objects]
    return Table(path, "jsonl", list(columns), rows)


def flattened(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of nested objects, their names joined by dots."""
    for key, part in value.items():
        if isinstance(part, dict):
            yield from flattened(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part


def _read_parquet(inputs: LayoutInputs, path: str) -> Table:
    import pyarrow as pa  # takes a third of a second, and few need it
    import pyarrow.parquet as pq

    try:
        with inputs.open(path) as stream:
            file = pq.ParquetFile(stream)
            embedded = {
                field.name: _embedded(file, field, stream)
                for field in file.schema_arrow
                if _holds_bytes(field.type)
            }
            names = [f.name for f in file.schema_arrow if f.name not in embedded]
            table = file.read(columns=names)
            columns = [[_plain(value) for value in table[name].to_pylist()] for name in names]
            number = file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path!r}: expected a Parquet file: {error}") from error
    rows = [(row, [column[row] for column in columns]) for row in range(number)]
    return Table(path, "parquet", names, rows, embedded)


def _holds_bytes(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(f.name == _BYTES_FIELD and _holds_bytes(f.type) for f in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _embedded(file: Any, field: Any, stream: Any) -> Embedded:
    import pyarrow as pa

    paths: list[str | None] = [None] * file.metadata.num_rows
    bytes_column = field.name
    if pa.types.is_struct(field.type):
        bytes_column = f"{field.name}.{_BYTES_FIELD}"
        if any(part.name == _PATH_FIELD for part in field.type):
            structs = file.read(columns=[f"{field.name}.{_PATH_FIELD}"]).column(0).to_pylist()
            paths = [struct and struct[_PATH_FIELD] for struct in structs]
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = sum(
        group.column(place).total_compressed_size
        for group in groups
        for place in range(group.num_columns)
        if group.column(place).path_in_schema == bytes_column
    )
    row_bytes = -(-size // max(1, len(paths)))
    return Embedded(field.name, bytes_column, row_bytes, paths, _heads(stream, bytes_column))


def _heads(stream: Any, column: str) -> tuple[bytes, ...]:
    """How the first values of a column begin, read without its row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES)
    for batch in file.iter_batches(batch_size=_HEADS, columns=[column]):
        values = batch.column(0)
        while pa.types.is_struct(values.type):
            values = values.field(0)
        return tuple(value.as_py()[:_HEAD_BYTES] for value in values if value.is_valid)
    return ()


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value
