"""Tables are cut by tasks: small ones together, and large ones in ranges."""

import csv
import functools
import gzip
import io
import itertools
import os
from pathlib import Path

import pytest

from components.tables import cutting, row_ends
from components.tables.cutting import (
    check_copy,
    copy_path,
    copy_table,
    cut_parts,
    join_parts,
    plan_parts,
)
from components.tables.pieces import Piece, TableOptions
from components.tables.reading import PieceReader, TableFolder
from components.tables.row_ends import CutLimits
from trainer_utils.core.errors import DatasetError, InputError

OPTIONS = TableOptions()


def quoted_csv(rows: int) -> str:
    """Return a table whose texts have quotes, delimiters and line feeds."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["text", "n"])
    for row in range(rows):
        writer.writerow([f'a "{row}",\nb' * (row % 4) + "x", row])
    return stream.getvalue()


def cut_tables(base: Path, names: list[str], options: TableOptions = OPTIONS) -> dict:
    """Return the pieces of each table, cut as workers do it."""
    place = TableFolder(str(base), follow_links=False)
    kinds = {".csv": "csv", ".txt": "lines", ".jsonl": "jsonl"}
    wholes = [
        Piece(path=name, source=name, layout=kinds[os.path.splitext(name)[1]]) for name in names
    ]
    tasks = plan_parts(wholes, [os.stat(base / name).st_size for name in names])
    results = [cut_parts(place, options, parts) for parts in tasks]
    return {table.source: found for table, found in join_parts(place, options, tasks, results)}


@pytest.mark.parametrize("range_bytes", [40, 100, 1 << 20])
def test_ranges_give_the_rows_of_python_csv(tmp_path, monkeypatch, range_bytes):
    monkeypatch.setattr(cutting, "MIN_RANGE_BYTES", range_bytes)
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_bytes=30))
    monkeypatch.setattr(row_ends, "_BLOCK_BYTES", 16)
    text = quoted_csv(60)
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "u.csv").write_text("text,n\n")
    found = cut_tables(tmp_path, ["t.csv", "u.csv"])
    rows = [PieceReader(str(tmp_path), OPTIONS).read(piece) for piece in found["t.csv"]]
    values = [
        row
        for part in rows
        for row in zip(*(part.columns[name].to_pylist() for name in ("text", "n")), strict=True)
    ]
    expected = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))][1:]
    assert values == expected
    assert [(piece.start, piece.stop) for piece in found["u.csv"]] == [(7, 7)]


def test_large_tables_are_parts_and_small_ones_share_tasks(monkeypatch):
    monkeypatch.setattr(cutting, "MIN_RANGE_BYTES", 100)
    sizes = {"a": 30, "b": 80, "c": 250, "d": 0}
    wholes = [Piece(path=name, source=name, layout="jsonl") for name in sizes]
    tasks = plan_parts(wholes, [*sizes.values()])
    shown = [[(part.table.source, part.start, part.stop) for part in parts] for parts in tasks]
    assert shown == [
        [("a", 0, None), ("b", 0, None)],
        [("c", 0, 100)],
        [("c", 100, 200)],
        [("c", 200, None), ("d", 0, None)],
    ]


def test_number_of_tasks_is_bounded_for_any_size():
    whole = Piece(path="a", source="a", layout="jsonl")
    tasks = plan_parts([whole], [10 << 40])
    assert len(tasks) <= 4096
    assert tasks[-1][-1].stop is None
    ends = [(parts[0].start, parts[-1].stop) for parts in tasks]
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(ends))


def test_row_longer_than_a_search_is_cut_as_a_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "MIN_RANGE_BYTES", 50)
    monkeypatch.setattr(row_ends, "_SEARCH_BYTES", 8)
    monkeypatch.setattr(row_ends, "_MAX_SEARCHES", 2)
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_bytes=1))
    (tmp_path / "t.txt").write_text("a\n" + "x" * 500 + "\nb\n")
    found = cut_tables(tmp_path, ["t.txt"])
    assert [(piece.start, piece.stop) for piece in found["t.txt"]] == [(0, 505)]


@pytest.mark.parametrize(
    ("end", "message"),
    [('"open\n', r"one is not \(from line 32\)"), ('"a"b,1\n', r"that quote \(line 32\)")],
)
def test_bad_quote_in_a_later_range_names_its_line(tmp_path, monkeypatch, end, message):
    monkeypatch.setattr(cutting, "MIN_RANGE_BYTES", 60)
    (tmp_path / "t.csv").write_text("text,n\n" + "abc,1\n" * 30 + end)
    with pytest.raises(InputError, match=message):
        cut_tables(tmp_path, ["t.csv"])


def test_unreadable_table_is_reported_and_others_are_cut(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("b\n")
    place = TableFolder(str(tmp_path), follow_links=False)
    wholes = [Piece(path=name, source=name, layout="lines") for name in ("a.txt", "b.txt")]
    tasks = plan_parts(wholes, [2, 2])
    (tmp_path / "a.txt").unlink()
    results = [cut_parts(place, OPTIONS, parts) for parts in tasks]
    found = {one.source: pieces for one, pieces in join_parts(place, OPTIONS, tasks, results)}
    assert found["a.txt"] == ("VANISHED", "listed, but gone when it was to be read")
    assert len(found["b.txt"]) == 1


def test_copies_are_in_utf8_and_found_by_a_resumed_run(tmp_path):
    folder = str(tmp_path / "work")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("text\nñ\n".encode("latin-1")))
    place = TableFolder(str(tmp_path), follow_links=False)
    copy = functools.partial(copy_table, place, TableOptions(encoding="latin-1"), folder)
    assert copy((3, "t.csv.gz", "csv")) == (3, 8)
    assert Path(copy_path(folder, 3)).read_text() == "text\nñ\n"
    check_copy(folder, (3, 8))
    Path(copy_path(folder, 3)).write_text("text")
    with pytest.raises(DatasetError, match="a copy of 8 bytes"):
        check_copy(folder, (3, 8))
    Path(copy_path(folder, 3)).unlink()
    with pytest.raises(DatasetError, match="a copy of 8 bytes"):
        check_copy(folder, (3, 8))


def test_damaged_gzip_file_is_named(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"text\n" * 1000)[:-20])
    place = TableFolder(str(tmp_path), follow_links=False)
    with pytest.raises(InputError, match=r"t.csv.gz.*a whole gzip file"):
        copy_table(place, OPTIONS, str(tmp_path / "work"), (0, "t.csv.gz", "csv"))
