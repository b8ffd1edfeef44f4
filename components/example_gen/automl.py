"""AutoML Vision's lists, a CSV without a header: `[split,]uri[,label…]`, or a box a row.

    rows = automl_rows(inputs, "list.csv", known=frozenset({"image"}))  # None with a header
    table = as_table("list.csv", rows, media="image")

Rows may have several labels, and so are of different lengths, as no other table's are.
"""

import codecs
import csv
import io
import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from components.common.layout_inputs import LayoutInputs, decode_text
from components.example_gen.list_table import ListTable, note_rows
from components.tables.headers import refuse_doubtful
from components.tables.pieces import row_starts
from components.tables.reading import DELIMITERS, kind_of_table
from components.tables.rows import Rows
from components.tables.splits import is_split_word
from trainer_utils.format import InputError
from trainer_utils.format.media_formats import EXTENSIONS

__all__ = ["Row", "as_table", "automl_rows"]

_HEAD_BYTES = 1 << 16

Row = tuple[int, list[str]]  # the line that it ends in, and its fields


def automl_rows(inputs: LayoutInputs, path: str, *, known: frozenset[str]) -> list[Row] | None:
    """The rows of a list whose first one names a file; None of any other list.

    Args:
        known: names that columns of files have, in lower case.

    Raises:
        InputError: it is no CSV; the message names file and line.
    """
    kind = kind_of_table(path)
    if kind not in DELIMITERS or inputs.column_names or inputs.header:
        return None
    with inputs.open(path) as stream:
        head = stream.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    first = _rows(head[: head.find(b"\n") + 1 or None], path, DELIMITERS[kind], strict=False)
    names = [field.strip() for _, row in first[:1] for field in row]
    if {name.lower() for name in names} & known or {*names} & {*inputs.columns}:
        return None
    if not any(map(is_file, names)):
        return None
    data = inputs.read_bytes(path)
    note_rows(inputs, path, data, row_starts(data, DELIMITERS[kind].encode()).tolist())
    return _rows(data, path, DELIMITERS[kind], strict=True)


def _rows(data: bytes, path: str, delimiter: str, *, strict: bool) -> list[Row]:
    """Each row that is not blank, with the line that it ends in."""
    text = decode_text(data, path=path, errors="strict" if strict else "replace")
    reader = csv.reader(io.StringIO(text, newline=""), strict=strict, delimiter=delimiter)
    try:
        return [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except csv.Error as error:
        raise InputError(f"{path!r}: {error} (line {reader.line_num})") from error


def is_file(field: str) -> bool:
    """Whether a field is the path or url of an image or a sound, by its ending."""
    ending = posixpath.splitext(field)[1].lower()
    return "://" in field or ending in EXTENSIONS["image"] or ending in EXTENSIONS["audio"]


def as_table(path: str, rows: Sequence[Row], *, media: str) -> ListTable:
    """The rows with AutoML's names of columns; several labels of a row are a list.

    Raises:
        InputError: its columns are others.
    """
    names = ["split", f"{media}_uri", "label"]
    if any(is_file(row[0].strip()) for _, row in rows):
        names = names[1:]
    elif not any(is_split_word(row[0]) for _, row in rows):
        _refuse(path, rows, names)
    place = names.index(f"{media}_uri")
    if any(len(row) <= place for _, row in rows):
        _refuse(path, rows, names)
    columns = {
        name: pa.array([row[number].strip() or None for _, row in rows], pa.string())
        for number, name in enumerate(names[: place + 1])
    }
    if any(len(row) > place + 1 for _, row in rows):
        columns["label"] = _labels(path, rows, names, media)
    found = Rows(columns, found=len(rows), records=np.arange(len(rows)), texts=["label"])
    return ListTable(path, tuple(columns), (found,), tuple(line for line, _ in rows), "line")


def _labels(path: str, rows: Sequence[Row], names: Sequence[str], media: str) -> Any:
    """The labels behind each file: one each, or lists where a row has several."""
    for line, row in rows:
        if len(row) < len(names):
            raise InputError.at(
                path,
                expected=f"{len(names)} columns ({','.join(names)})",
                got=f"{len(row)} (line {line})",
                advice=f"If it is no list of {media}s, set layout='folder'.",
            )
    labels = [
        [some for field in row[len(names) - 1 :] if (some := field.strip())] for _, row in rows
    ]
    if any(len(row) > len(names) for _, row in rows):
        return pa.array(labels, pa.list_(pa.string()))
    return pa.array([some[0] if some else None for some in labels], pa.string())


def _refuse(path: str, rows: Sequence[Row], names: Sequence[str]) -> None:
    reason = f"without a header, they should be {','.join(names)}"
    refuse_doubtful(path, rows[0][1], [row for _, row in rows[1:2]], reason)
