"""Lists of files are read and typed as all tables are; what stands where is told by line."""

import csv
import io
import itertools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen.list_table import ListTable, read_list
from components.tables.pieces import row_starts
from trainer_utils.storage import list_files


def inputs_of(base: Path, **settings: Any) -> LayoutInputs:
    files = FileTable.of(list_files(str(base)))
    return LayoutInputs(base=str(base), root="", files=files, **settings)


def table_of(base: Path, name: str, data: str | bytes, **settings: Any) -> ListTable:
    (base / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_list(inputs_of(base, **settings), name)


def test_positions_are_lines_whatever_stands_before_the_rows(tmp_path):
    for mark, header, blank in itertools.product(["", "\ufeff"], ["", "image,a\n"], ["", "\n\n"]):
        check_positions(tmp_path, mark, header, blank)


def check_positions(tmp_path, mark, header, blank):
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
