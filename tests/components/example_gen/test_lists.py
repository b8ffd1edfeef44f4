"""Lists of images in every form, against hand-counted truth."""

import csv
import datetime
import io

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.common.entry import Column
from components.example_gen.list_table import typed_values
from components.tables.json_objects import columns_of_objects
from tests.components.example_gen.list_files import IMAGES, folder, found, listed
from trainer_utils.format import ConfigError, InputError

LABEL = Column("label", "label")
FORMS = {
    "automl without header": (
        "list__csv",
        "TRAIN,1.jpg,cat\nVALIDATION,2.jpg,dog\nUNASSIGNED,sub/3.jpg,cat\n",
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


@pytest.mark.parametrize(("name", "text"), FORMS.values(), ids=FORMS)
def test_every_form_says_the_same(tmp_path, name, text):
    listing = listed(folder(tmp_path, **{name: text}))
    assert listing.columns == (LABEL,)
    assert found(listing) == {
        "1.jpg": ("train", "cat"),
        "2.jpg": ("eval", "dog"),
        "sub/3.jpg": (None, "cat"),
    }


def test_parquet_says_the_same(tmp_path):
    frame = pd.DataFrame(
        {"image": list(IMAGES), "split": ["TRAIN", "dev", None], "label": ["cat", "dog", "cat"]}
    )
    frame.to_parquet(folder(tmp_path) / "list.parquet")
    assert found(listed(tmp_path)) == {
        "1.jpg": ("train", "cat"),
        "2.jpg": ("eval", "dog"),
        "sub/3.jpg": (None, "cat"),
    }


def test_several_labels_a_row_are_a_list(tmp_path):
    text = "TRAIN,1.jpg,cat,dog\nTRAIN,2.jpg,emu\nTEST,sub/3.jpg,dog,\n"
    listing = listed(folder(tmp_path, list__csv=text))
    assert listing.columns == (Column("label", "label", is_list=True),)
    assert found(listing) == {
        "1.jpg": ("train", ("cat", "dog")),
        "2.jpg": ("train", ("emu",)),
        "sub/3.jpg": ("test", ("dog",)),
    }


def test_columns_of_numbers_texts_and_lists_are_typed_by_all_their_values(tmp_path):
    text = (
        "filename,age,weight,name,box,tags\n"
        '1.jpg,31,1,Ann,"[0.5, 1]","[""a"", ""b""]"\n'
        '2.jpg,,2.5,"Bo, Cy","[1, 2]","[]"\n'
        'sub/3.jpg,-7,1e3,3,"[0, 0.25]","[""c""]"\n'
    )
    listing = listed(folder(tmp_path, list__csv=text))
    assert listing.columns == (
        Column("age", "int"),
        Column("weight", "float"),
        Column("name", "string"),
        Column("box", "float", is_list=True, length=2),
        Column("tags", "string", is_list=True),
    )
    assert found(listing) == {
        "1.jpg": (None, 31, 1.0, "Ann", (0.5, 1.0), ("a", "b")),
        "2.jpg": (None, None, 2.5, "Bo, Cy", (1.0, 2.0), ()),
        "sub/3.jpg": (None, -7, 1000.0, "3", (0.0, 0.25), ("c",)),
    }


def test_objects_in_lines_of_json_are_flattened(tmp_path):
    text = '{"image": "1.jpg", "exif": {"iso": 100, "lens": {"f": 1.8}}, "ok": true}'
    listing = listed(folder(tmp_path, list__jsonl=text))
    assert [(c.name, c.kind) for c in listing.columns] == [
        ("exif.iso", "int"),
        ("exif.lens.f", "float"),
        ("ok", "int"),
    ]
    assert found(listing) == {"1.jpg": (None, 100, 1.8, 1)}


def test_kinds_of_parquet(tmp_path):
    frame = pd.DataFrame(
        {
            "path": ["1.jpg", "2.jpg"],
            "day": [datetime.date(2026, 1, 2), None],
            "category": pd.Categorical(["x", "y"]),
            "vector": [[1.0, 2.0], [3.0, 4.0]],
            "flag": [True, False],
        }
    )
    frame.to_parquet(folder(tmp_path) / "list.parquet")
    listing = listed(tmp_path)
    assert found(listing) == {
        "1.jpg": (None, "2026-01-02", "x", (1.0, 2.0), 1),
        "2.jpg": (None, None, "y", (3.0, 4.0), 0),
    }
    assert [c.kind for c in listing.columns] == ["string", "label", "float", "int"]
    assert listing.columns[2].length == 2


def test_what_the_user_says_of_columns_holds(tmp_path):
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


def test_datums_lists_are_beside_the_folders_of_their_splits(tmp_path):
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


def test_a_name_of_two_files_is_refused(tmp_path):
    base = folder(tmp_path, ("train/a.jpg", "train/a.png"), train__csv="filename,label\na,3\n")
    with pytest.raises(InputError, match=r"'a', got train/a.jpg, train/a.png \(line 2\)"):
        listed(base)


def test_paths_may_lead_to_other_roots_and_no_further(tmp_path):
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
        ("../in2/z.jpg", "FILE_NOT_FOUND"),
    ]


def test_files_of_one_name_below_two_roots_are_two_inputs(tmp_path):
    roots = tuple(folder(tmp_path / name, ("x.jpg", "sub/x.jpg")) for name in ("a", "b"))
    paths = [f"{root}/{name}" for root in roots for name in ("x.jpg", "sub/x.jpg")]
    (tmp_path / "in").mkdir()
    base = folder(tmp_path / "in", (), list__csv="".join(f"{path},cat\n" for path in paths))
    listing = listed(base, roots=roots)
    assert [entry.blobs[0].path for entry in listing.entries] == paths
    assert [e.name for e in listing.entries] == ["x.jpg", "sub/x.jpg", "b/x.jpg", "b/sub/x.jpg"]


def test_a_path_that_leads_out_of_the_list_s_folder_may_lead_below_a_root(tmp_path):
    root = folder(tmp_path / "photos", ("x.jpg",))
    (tmp_path / "in").mkdir()
    base = folder(tmp_path / "in", (), list__csv="../photos/x.jpg,cat\n")
    assert [left.code for left in listed(base).excluded] == ["OUTSIDE_INPUT_BASE"]
    assert [entry.name for entry in listed(base, roots=(root,)).entries] == ["x.jpg"]


def test_a_linked_folder_that_leads_out_is_no_missing_file(tmp_path):
    photos = folder(tmp_path / "photos", ("x.jpg",))
    base = folder(tmp_path / "in", ())
    base.mkdir()
    (base / "linked").symlink_to(photos)
    rows = ["linked/x.jpg", f"{base}/linked/x.jpg", "linked/gone.jpg"]
    (base / "list.csv").write_text("".join(f"{row},cat\n" for row in rows))
    outside = "OUTSIDE_INPUT_BASE"
    assert [e.code for e in listed(base).excluded] == [outside, outside, "FILE_NOT_FOUND"]


BAD = {
    "no image column": (
        {"list__jsonl": '{"a": 1}'},
        ["list.jsonl", "image_uri", "got a"],
    ),
    "no JSON": ({"list__jsonl": '{"image": "1.jpg"}\n{oops'}, ["list.jsonl", "line 2"]),
    "no object": ({"list__jsonl": "[1]"}, ["list.jsonl", "list", "line 1"]),
    "no Parquet": ({"list__parquet": "PAR1 is what it is not"}, ["list.parquet"]),
    "an open quote": ({"list__csv": 'TRAIN,1.jpg,"cat\n'}, ["list.csv", "line 1"]),
    "a column twice": ({"list__csv": "image,a,a\n1.jpg,1,2\n"}, ["'a' twice"]),
    "a number too large": (
        {"list__jsonl": f'{{"image": "1.jpg", "x": [{2**63}, "a"]}}\n'.replace('"a"', '{"b": 1}')},
        ["'x'", "line 1"],
    ),
    "a number beyond any": (
        {"list__jsonl": f'{{"image": "1.jpg", "x": {10**400}}}'},
        ["'x'", "64 bits"],
    ),
    "an image twice": (
        {"list__jsonl": '{"image": "1.jpg"}\n{"image": "./1.jpg"}'},
        ["'./1.jpg'", "lines 1 and 2"],
    ),
    "two lists": ({"a__csv": "x", "b__tsv": "x"}, ["a.csv, b.tsv"]),
}


@pytest.mark.parametrize(("texts", "words"), BAD.values(), ids=BAD)
def test_a_malformed_list_is_refused_by_place(tmp_path, texts, words):
    with pytest.raises(InputError) as caught:
        listed(folder(tmp_path, **texts))
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"colour": "int"}, ["'colour'", "image, age"]),
        ({"age": "number"}, ["columns['age']", "'number'"]),
        ({"age": "split", "year": "split"}, ["'split'", "age, year"]),
    ],
)
def test_a_wrong_column_is_refused(tmp_path, columns, words):
    base = folder(tmp_path, list__csv="image,age,year\n1.jpg,3,4\n")
    with pytest.raises(ConfigError) as caught:
        listed(base, **columns)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_value_that_is_not_of_its_kind_is_named_with_row_and_column(tmp_path):
    rows = "".join(f"{name},{age}\n" for name, age in zip(IMAGES, ("3", "x", "5"), strict=True))
    with pytest.raises(InputError, match=r"'age': expected int, got 'x' \('list.csv', line 3\)"):
        listed(folder(tmp_path, list__csv=f"image,age\n{rows}"), age="int")


def test_a_list_keeps_codes_as_they_stand_and_trims_paths_splits_and_labels(tmp_path):
    rows = "1.jpg, train, cat,08123, 5\n 2.jpg ,test,dog ,7,6\nsub/3.jpg,train,cat,12,7\n"
    listing = listed(folder(tmp_path, list__csv=f"image, split,label,zip,n\n{rows}"))
    assert found(listing) == {
        "1.jpg": ("train", "cat", "08123", " 5"),
        "2.jpg": ("test", "dog", "7", "6"),
        "sub/3.jpg": ("train", "cat", "12", "7"),
    }


NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=20
).filter(lambda name: name == name.strip() and name not in (".", ".."))


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_odd_texts_come_back_from_csv_and_json(names):
    stream = io.StringIO()
    csv.writer(stream).writerows(("x", name) for name in names)
    columns, _ = columns_of_objects([{"name": name} for name in names], place=str)
    for are_texts, array in ((True, pa.array(names)), (False, columns["name"])):
        found = typed_values("name", [(array, are_texts)], kind="string", place=str)
        assert found is not None
        assert (found[0].kind, found[1]) == ("string", names)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], "int"),
        (["1", "2.0"], "float"),
        (["1", "x"], "string"),
        (["1_000"], "string"),
        (["\u0661"], "string"),
        ([str(2**63)], "string"),
        ([str(-(2**63))], "int"),
        (["nan", "1"], "string"),
        (["nan", "1.5"], "float"),
        (["007", "8"], "string"),
        ([" 5", "5"], "string"),
    ],
)
def test_texts_are_of_the_narrowest_kind_that_takes_all(values, kind):
    found = typed_values("x", [(pa.array(values), True)], kind=None, place=str)
    assert found is not None
    assert found[0].kind == kind
