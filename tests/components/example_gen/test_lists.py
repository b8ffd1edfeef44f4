"""Lists of images in every form, against hand-counted truth."""

import pytest

from components.common.entry import Column
from tests.components.example_gen.list_files import folder, found, listed
from trainer_utils.format import ConfigError, InputError

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
def test_every_form_says_the_same(tmp_path, form):
    name, text = FORMS[form]
    listing = listed(folder(tmp_path, **{name: text}))
    assert listing.columns == (LABEL,)
    assert found(listing) == {
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


BAD = {
    "no image column": (
        {"list__jsonl": '{"a": 1}'},
        ["list.jsonl", "image_uri", "got a"],
    ),
    "no JSON": ({"list__jsonl": '{"image": "1.jpg"}\n{oops'}, ["list.jsonl", "line 2"]),
    "no Parquet": ({"list__parquet": "PAR1 is what it is not"}, ["list.parquet"]),
    "an open quote": ({"list__csv": 'TRAIN,1.jpg,"cat\n'}, ["list.csv", "line 1"]),
    "a column twice": ({"list__csv": "image,a,a\n1.jpg,1,2\n"}, ["'a' twice"]),
    "a number too large": (
        {"list__jsonl": f'{{"image": "1.jpg", "x": [{2**63}, "a"]}}\n'.replace('"a"', '{"b": 1}')},
        ["'x'", "line 1"],
    ),
    "an image twice": (
        {"list__jsonl": '{"image": "1.jpg"}\n{"image": "./1.jpg"}'},
        ["'./1.jpg'", "lines 1 and 2"],
    ),
    "two lists": ({"a__csv": "x", "b__tsv": "x"}, ["a.csv, b.tsv"]),
}


def test_a_malformed_list_is_refused_by_place(tmp_path):
    for case, (texts, words) in BAD.items():
        with pytest.raises(InputError) as caught:
            listed(folder(tmp_path / case, **texts))
        message = str(caught.value)
        assert "\n" not in message
        assert [word for word in words if word not in message] == [], case


def test_a_wrong_column_is_refused(tmp_path):
    base = folder(tmp_path, list__csv="image,age,year\n1.jpg,3,4\n")
    for columns in ({"colour": "int"}, {"age": "number"}, {"age": "split", "year": "split"}):
        with pytest.raises(ConfigError, match=next(iter(columns))):
            listed(base, **columns)
