"""Lists of images in every format, compared with expected values; their lines and roots."""

import csv
import io
import itertools
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob, Column, InputTable
from components.inputs.listing import FileTable, ImageRoot, LayoutInputs, NamedFiles
from components.layouts.list_table import read_list
from components.layouts.reading import read_layout
from components.tables.row_ends import row_starts
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.storage import InputFile, file_system_of, list_files

IMAGES = ("1.jpg", "2.jpg", "sub/3.jpg")


def listed(base: Path, *, roots: tuple[Path, ...] = (), **columns: str) -> InputTable:
    """Read a folder with placeholders for images, since a list never opens them."""
    files, *others = (FileTable.of(list_files(str(folder))) for folder in (base, *roots))
    file_roots = tuple(map(ImageRoot, map(str, roots), others))
    inputs = LayoutInputs(
        base=str(base), root="", files=files, columns=columns, file_roots=file_roots
    )
    return read_layout(inputs, layout="auto")


def folder(base: Path, images: tuple[str, ...] = IMAGES, **texts: str) -> Path:
    for name in images:
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(b"an image")
    for name, text in texts.items():
        (base / name.replace("__", ".")).write_text(text)
    return base


def found(listing: InputTable) -> dict[str, Any]:
    return {entry.name: (entry.split, *entry.values) for entry in listing.entries}


LABEL = Column("label", "label")
FORMS = {
    "automl without header": (
        "list__csv",
        "TRAIN,1.jpg,cat\nVALIDATION,2.jpg,dog\nUNASSIGNED,sub/3.jpg,cat\n",
    ),
    "written by a spreadsheet": (
        "list__csv",
        "\ufeffTRAIN , 1.jpg , cat\r\nVALIDATION , ./sub/../2.jpg , dog\r\n\r\n"
        " , sub/3.jpg , cat\r\n",
    ),
    "header in another order": (
        "list__csv",
        "label,image_uri,split\ncat,1.jpg,train\ndog,2.jpg,valid\ncat,sub/3.jpg,\n",
    ),
    "tabs": (
        "list__tsv",
        "split\timage_uri\tlabel\nTRAIN\t1.jpg\tcat\nEVAL\t2.jpg\tdog\n\tsub/3.jpg\tcat\n",
    ),
    "lines of JSON": (
        "list__jsonl",
        '{"path": "1.jpg", "label": "cat", "split": "train"}\n\n'
        '{"path": "2.jpg", "label": "dog", "split": "val"}\n'
        '{"label": "cat", "path": "sub/3.jpg"}',
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_same_result(tmp_path, form):
    name, text = FORMS[form]
    listing = listed(folder(tmp_path, **{name: text}))
    assert listing.columns == (LABEL,)
    assert found(listing) == {
        "1.jpg": ("train", "cat"),
        "2.jpg": ("eval", "dog"),
        "sub/3.jpg": (None, "cat"),
    }


AUTOML = {
    "uri, label": "{}1.jpg,cat\n{}2.jpg,dog\n",
    "uri alone": "{}1.jpg\n{}2.jpg\n",
    "uri, labels": "{}1.jpg,cat,red\n{}2.jpg,dog\n",
    "split, uri": ",{}1.jpg\nTRAIN,{}2.jpg\n",
}


def test_automl_list_has_no_header(tmp_path, subtests):
    splits = {"split, uri": [None, "train"]}
    labels = {"uri, labels": [("cat", "red"), ("dog",)], "uri alone": None, "split, uri": None}
    for number, (form, text) in enumerate(AUTOML.items()):
        with subtests.test(number=number):
            base = folder(tmp_path / f"{number}")
            prefix = f"{base}/" if number % 2 else ""
            (base / "list.csv").write_text(text.replace("{}", prefix))
            listing = listed(base)
            assert [entry.name for entry in listing.entries] == ["1.jpg", "2.jpg"]
            assert [entry.split for entry in listing.entries] == splits.get(form, [None, None])
            expected = labels.get(form, ["cat", "dog"])
            assert [entry.values[0] for entry in listing.entries if expected] == (expected or [])


def test_several_labels_in_a_row_are_a_list(tmp_path):
    text = "TRAIN,1.jpg,cat,dog\nTRAIN,2.jpg,emu\nTEST,sub/3.jpg,dog,\n"
    listing = listed(folder(tmp_path, list__csv=text))
    assert listing.columns == (Column("label", "label", is_list=True),)
    assert found(listing) == {
        "1.jpg": ("train", ("cat", "dog")),
        "2.jpg": ("train", ("emu",)),
        "sub/3.jpg": ("test", ("dog",)),
    }


BOXES = """TRAIN,1.jpg,cat,0.25,0.5,,,0.75,1,,
TRAIN,1.jpg,dog,0,0,0.5,0,0.5,0.25,0,0.25
TEST,2.jpg,,,,,,,,,
"""


def test_rows_of_boxes_are_grouped_by_image(tmp_path):
    listing = listed(folder(tmp_path, list__csv=BOXES))
    names = ["xmin", "xmax", "ymin", "ymax", "area", "labels"]
    assert [column.name for column in listing.columns] == names
    assert all(column.is_list and column.length is None for column in listing.columns)
    (cat, dog), nothing = ((0.25, 0.75, 0.5, 1.0, 0.25), (0.0, 0.5, 0.0, 0.25, 0.125)), ((),) * 6
    assert found(listing) == {
        "1.jpg": ("train", *zip(cat, dog, strict=True), ("cat", "dog")),
        "2.jpg": ("test", *nothing),
    }


def test_invalid_box_is_refused_with_its_line(tmp_path, subtests):
    for row in (
        "TRAIN,1.jpg,cat,0.75,0.5,,,0.25,1,,",
        "TRAIN,1.jpg,cat,0.25,0.5,,,1.25,1,,",
        "TRAIN,1.jpg,cat,0.25,0.5,,,0.5,,,",
        "TRAIN,1.jpg,,0.25,0.5,,,0.5,1,,",
        "TRAIN,1.jpg,cat,nan,0.5,,,0.5,1,,",
    ):
        with subtests.test(row=row):
            with pytest.raises(InputError, match=r"'list.csv'.*\(line 4\)"):
                listed(folder(tmp_path, list__csv=f"{BOXES}{row}\n"))


def test_column_settings_are_applied(tmp_path):
    text = "photo,set,grade,code,note\n1.jpg,TRAIN,1,007,x\n2.jpg,TEST,2,008,y\n"
    listing = listed(
        folder(tmp_path, list__csv=text),
        photo="image",
        set="split",
        grade="label",
        code="string",
        note="ignore",
    )
    assert listing.columns == (Column("grade", "label"), Column("code", "string"))
    assert found(listing) == {"1.jpg": ("train", "1", "007"), "2.jpg": ("test", "2", "008")}


def test_datum_lists_are_next_to_their_split_folders(tmp_path):
    base = folder(
        tmp_path,
        ("train/a.jpg", "train/b.png", "val/a.jpg"),
        train__csv='filename,label,scores\na,3,"[0.5, 1.5]"\nb.png,4,"[1, 2]"\n',
        val__csv='filename,label,scores\na,5,"[0, 0]"\n',  # ints here, floats there
    )
    listing = listed(base)
    assert found(listing) == {
        "train/a.jpg": ("train", 3, (0.5, 1.5)),
        "train/b.png": ("train", 4, (1.0, 2.0)),
        "val/a.jpg": ("eval", 5, (0.0, 0.0)),
    }


def test_paths_may_point_to_other_roots_only(tmp_path):
    base = folder(tmp_path / "in", ("1.jpg",))
    root = folder(tmp_path / "elsewhere", ("2.jpg", "deep/3.jpg"))
    rows = ["1.jpg", "deep/3.jpg", f"{root}/2.jpg", "/etc/passwd", "http://x/y.jpg", "../in2/z.jpg"]
    (base / "list.csv").write_text("".join(f"TRAIN,{row},cat\n" for row in rows))
    listing = listed(base, roots=(root,))
    assert {entry.name: entry.blobs[0].path for entry in listing.entries} == {
        "1.jpg": "1.jpg",
        "deep/3.jpg": f"{root}/deep/3.jpg",
        "2.jpg": f"{root}/2.jpg",
    }
    assert [(left.name, left.code) for left in listing.excluded] == [
        ("/etc/passwd", "OUTSIDE_INPUT_BASE"),
        ("http://x/y.jpg", "UNKNOWN_SCHEME"),
        ("../in2/z.jpg", "OUTSIDE_INPUT_BASE"),
    ]


BAD = {
    "no image column": (
        {"list__jsonl": '{"a": 1}'},
        ["list.jsonl", "image_uri", "got a"],
    ),
    "no JSON": ({"list__jsonl": '{"image": "1.jpg"}\n{oops'}, ["list.jsonl", "line 2"]),
    "no Parquet": ({"list__parquet": "PAR1 is what it is not"}, ["list.parquet"]),
    "an open quote": ({"list__csv": 'TRAIN,1.jpg,"cat\n'}, ["list.csv", "line 1"]),
    "a column twice": ({"list__csv": "image,a,a\n1.jpg,1,2\n"}, ["'a' is a duplicate"]),
    "a number too large": (
        {"list__jsonl": f'{{"image": "1.jpg", "x": [{2**63}, "a"]}}\n'.replace('"a"', '{"b": 1}')},
        ["'x'", "line 1"],
    ),
    "an image twice": (
        {"list__jsonl": '{"image": "1.jpg"}\n{"image": "./1.jpg"}'},
        ["'1.jpg'", "line 1 and line 2", "rows='each' (--rows each)"],
    ),
    "two lists": ({"a__csv": "x", "b__tsv": "x"}, ["a.csv, b.tsv"]),
}


def test_a_malformed_list_is_refused_by_place(tmp_path, subtests):
    for case, (texts, words) in BAD.items():
        with subtests.test(case=case):
            with pytest.raises(InputError) as caught:
                listed(folder(tmp_path / case, **texts))
            message = str(caught.value)
            assert "\n" not in message
            assert [word for word in words if word not in message] == [], case


def test_a_wrong_column_is_refused(tmp_path, subtests):
    base = folder(tmp_path, list__csv="image,age,year\n1.jpg,3,4\n")
    for columns in ({"colour": "int"}, {"age": "split", "year": "split"}):
        with subtests.test(columns=columns):
            with pytest.raises(ConfigError, match=next(iter(columns))):
                listed(base, **columns)


def test_each_row_group_of_several_columns_is_read_once(tmp_path, monkeypatch):
    rows = {"image": [b"i%d" % n for n in range(30)], "map": [b"m%d" % n for n in range(30)]}
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "a.parquet", row_group_size=10)
    read, calls = pyarrow.parquet.ParquetFile.iter_batches, []

    def counted(self, rows, *, row_groups, columns, **more):
        calls.append((*row_groups, *columns))
        return read(self, rows, row_groups=row_groups, columns=columns, **more)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", counted)
    reader = BlobReader(str(tmp_path))
    for row in range(30):
        for name in rows:
            data = reader.read(Blob("a.parquet", 3, row=row, column=name))
            assert data == rows[name][row]
    assert sorted(calls) == [(group, name) for group in range(3) for name in rows]


def test_positions_are_lines_after_any_mark_header_or_blanks(tmp_path, subtests):
    for mark, header, blank in itertools.product(["", "\ufeff"], ["", "image,a\n"], ["", "\n\n"]):
        with subtests.test(mark=mark):
            text = mark + blank + header + '1.jpg,"x\ny"\n\n2.jpg,z\n'
            (tmp_path / "list.csv").write_text(text)
            files = FileTable.of(list_files(str(tmp_path)))
            inputs = LayoutInputs(
                base=str(tmp_path), root="", files=files, column_names=["image", "a"]
            )
            table, first = read_list(inputs, "list.csv"), 1 + len(blank) + bool(header)
            assert table.values("a") == ["x\ny", "z"]
            assert table.positions == (first, first + 3)


FIELDS = st.text(st.sampled_from('ab ,"\n'), min_size=1, max_size=4)


@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=8), st.lists(st.booleans(), max_size=8))
def test_row_starts_equal_python_csv(rows, blanks):
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


def test_relative_root_depends_on_the_current_directory(tmp_path, monkeypatch, subtests):
    """Change to another folder that also has a root of this name, in the same process."""
    for name in ("one", "two"):
        with subtests.test(name=name):
            folder = tmp_path / name / "photos"
            folder.mkdir(parents=True)
            (folder / "1.jpg").write_bytes(b"x")
            monkeypatch.chdir(tmp_path / name)
            roots = (ImageRoot("photos", {"1.jpg": InputFile("1.jpg", 1, "")}),)
            inputs = LayoutInputs(base="lists", root="", files={}, file_roots=roots)
            path, blob = inputs.resolve(str(folder / "1.jpg"), folder="")
            assert (path, blob.path) == ("1.jpg", str(folder / "1.jpg"))


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("photos", [2, 40])
def test_files_of_a_root_are_found_by_their_names(tmp_path, store, photos, subtests):
    base = f"memory://{uuid.uuid4().hex}" if store else str(tmp_path)
    names = [f"photos/{number}/1.jpg" for number in range(photos)]
    for name in [*names, "photos/1/unnamed.jpg"]:
        if not store:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with file_system_of(base).create(f"{base}/{name}") as stream:
            stream.write(name.encode())
    root = NamedFiles(base)
    for name in names:
        assert root[name].size == len(name)
        assert root[name].path == name
    for gone in ("photos/1/3.jpg", "nowhere/1.jpg"):
        with subtests.test(gone=gone):
            assert gone not in root
    assert sorted(ImageRoot(base, root).table) == sorted(names)
