"""Lists of files are read and typed as all tables are; what stands where is told by line."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen.list_table import ListTable, read_list
from components.tables.kinds import column_facts, decide_column
from components.tables.pieces import TableOptions, row_starts
from components.tables.reading import pieces_of, read_piece
from trainer_utils.storage.files import list_files


def inputs_of(base: Path, **settings: Any) -> LayoutInputs:
    files = FileTable.of(list_files(str(base)))
    return LayoutInputs(base=str(base), root="", files=files, **settings)


def table_of(base: Path, name: str, data: str | bytes, **settings: Any) -> ListTable:
    (base / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_list(inputs_of(base, **settings), name)


def as_csv(columns: dict[str, list[Any]]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue().encode()


def as_json_lines(columns: dict[str, list[Any]]) -> bytes:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(columns: dict[str, list[Any]]) -> bytes:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


FORMS = {"list.csv": as_csv, "list.jsonl": as_json_lines, "list.parquet": as_parquet}
COLUMNS: dict[str, list[Any]] = {
    "image": ["1.jpg", "2.jpg", "3.jpg"],
    "code": ["08123", "7", "12"],
    "words": ["a", "b", "3"],
    "label": ["cat", "dog", "cat"],
}


@pytest.mark.parametrize("name", FORMS)
def test_a_list_and_a_table_are_the_same_in_every_form(tmp_path, name):
    """The same file, read as TextExampleGen reads it, piece by piece."""
    table = table_of(tmp_path, name, FORMS[name](COLUMNS))
    options = TableOptions()
    kind = name.rpartition(".")[2]
    (piece,) = pieces_of(
        inputs_of(tmp_path), name, kind=kind, split=None, options=options, folder=""
    )
    rows = read_piece(str(tmp_path), piece, options)
    for column in COLUMNS:
        facts = column_facts(rows.columns[column], np.arange(3), are_texts=column in rows.texts)
        place = lambda *_: ""  # noqa: E731
        decided = decide_column(column, [(0, facts)], given=None, is_text=False, place=place)
        assert table.cast_column(column, None) == (decided, COLUMNS[column])


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("header", ["", "image,a\n"])
@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_positions_are_lines_whatever_stands_before_the_rows(tmp_path, mark, header, blank):
    text = mark + blank + header + '1.jpg,"x\ny"\n\n2.jpg,z\n'
    table = table_of(tmp_path, "list.csv", text, column_names=["image", "a"])
    first = 1 + len(blank) + bool(header)
    assert table.values("a") == ["x\ny", "z"]
    assert table.positions == (first, first + 3)


FIELDS = st.text(st.sampled_from('ab ,"\n'), min_size=1, max_size=4)


@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=8), st.lists(st.booleans(), max_size=8))
def test_a_row_begins_where_the_one_before_ends_by_pythons_reader(rows, blanks):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    starts = []
    for number, row in enumerate(rows):
        if number < len(blanks) and blanks[number]:
            stream.write("\n")
        starts.append(stream.tell())
        writer.writerow(row)
    data = stream.getvalue().encode()
    assert row_starts(data, b",").tolist() == starts
    assert [*csv.reader(io.StringIO(data.decode(), newline=""))].count([]) == sum(
        blanks[: len(rows)]
    )
