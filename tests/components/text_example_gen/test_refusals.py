"""Inputs that cannot be meant: each is one clear error, and the cure it names is one."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from tests.components.tables.table_files import parquet_of
from trainer_utils.format import ConfigError, InputError

WIDE = 2**63
ERRORS: dict[str, tuple[dict[str, bytes | str], str]] = {
    "no bytes": ({"t.csv": ""}, "found none"),
    "a header alone": ({"t.csv": "text,n\n"}, "found none .*a header alone"),
    "no lines of JSON": ({"t.jsonl": "\n\n"}, "found none"),
    "no rows of Parquet": ({"t.parquet": parquet_of({"a": pa.array([], pa.int64())})}, "none"),
    "empty files": ({"a/1.txt": "", "b/2.txt": ""}, "2 of 2 .*EMPTY_FILE"),
    "a blank name of a column": ({"t.csv": "a,,b\n1,2,3\n"}, r"'t\.csv'.*without a name"),
    "a column's name twice": ({"t.csv": "a,b,a\n1,2,3\n"}, r"'t\.csv'.*'a' twice"),
    "a header that is no UTF-8": ({"t.csv": b"caf\xe9\nx\n"}, r"'t\.csv'.*header in UTF-8"),
    "a header longer than any": ({"t.csv": "text," + "x" * (2 << 20) + "\na,2\n"}, r"'t\.csv'"),
    "an unclosed quote": ({"t.csv": 'a,b\n1,2\n"x\ny",3\n4,"5\n6,7\n'}, r"'t\.csv'.*line 5"),
    "quotes of two texts": ({"t.tsv": 'a\tb\n"Yes\t1\nNo\t2\nso "they say\t3\n'}, "line 4"),
    "JSON cut short": ({"t.json": '{"1": {"text": "a"'}, r"'t\.json': expected JSON"),
    "JSON that is no UTF-8": ({"t.json": b'{"1":\n{"text": "\xff"}}'}, r"'t\.json'.*line 2"),
    "JSON nested past all measure": ({"t.json": "[" * 200_000}, r"'t\.json': expected JSON"),
    "a word among floats": ({"t.csv": "n\n1\n3.5\nnone\n"}, r"'n'.*'none' \(t\.csv, row 3\)"),
    "lists of objects": ({"t.jsonl": '{"n": [{"a": 1}]}\n'}, "column 'n'.*'ignore'"),
    "lists of objects in Parquet": ({"t.parquet": parquet_of({"n": [[{"a": 1}]]})}, "column 'n'"),
    "a label of two lines": ({"t.csv": 'text,label\nx,"a\nb"\n'}, "label"),
    "some named after splits": ({"train.csv": "n\n1\n", "more.csv": "n\n1\n"}, r"'more\.csv'"),
}


def test_an_input_that_cannot_be_meant_is_a_clear_error(convert):
    for files, said in ERRORS.values():
        with pytest.raises(InputError, match=said):
            convert(files)


# Each error that names a setting as the cure: with it, that error does not come back.
IGNORED = {"columns": {"v": "ignore"}}
TEXT_M = {"columns": {"m": "string"}}
CURES: dict[str, tuple[Any, ...]] = {  # files, the cure, and the setting that makes the error
    "lists in lists": ({"t.jsonl": '{"n": 1, "v": [[1]]}\n{"n": 2, "v": 3}\n'}, IGNORED),
    "lists in lists of Parquet": ({"t.parquet": parquet_of({"n": [1], "v": [[[1]]]})}, IGNORED),
    "none in a list of Parquet": ({"t.parquet": parquet_of({"n": [1], "v": [[1, None]]})}, IGNORED),
    "past 64 bits in Parquet": (
        {"t.parquet": parquet_of({"n": [1], "v": pa.array([WIDE], pa.uint64())})},
        IGNORED,
    ),
    "a word among numbers": ({"t.csv": "n,m\n1,2\n3,x4\n5,6\n"}, TEXT_M),
    "a word for a float": ({"t.csv": "n,m\n1,a\n"}, TEXT_M, {"columns": {"m": "float"}}),
    "a split that is none": ({"t.csv": "n,split\n1,banana\n"}, {"columns": {"split": "string"}}),
    "a header in another encoding": ({"t.csv": b"caf\xe9,n\nx,1\n"}, {"encoding": "latin-1"}),
    "lines of JSON in UTF-16": (
        {"t.jsonl": '{"n": 1}\n{"n": 2}\n'.encode("utf-16")},
        {"encoding": "utf-16"},
    ),
}


def test_the_cure_that_an_error_names_is_one(convert):
    for case, (files, settings, *broken) in CURES.items():
        with pytest.raises((InputError, ConfigError)) as error:
            convert(files, **(broken or [{}])[0])
        ((name, value),) = settings.items()
        assert f"{name}={value!r}" in str(error.value), case
        dataset = convert(files, **settings)
        assert (dataset.counts()["written"] >= 1, dataset.counts()["rejected"]) == (True, 0), case
        ignored = [n for n, kind in settings.get("columns", {}).items() if kind == "ignore"]
        assert not [f for f in dataset.features for name in ignored if f.startswith(name)]


# Settings that do not fit the inputs --------------------------------------------------------------

ROWS = {"t.csv": "words,n,label\na,1,x\nb,2,y\n"}
FOLDER, OBJECTS, LINES = {"a/1.txt": "x"}, {"t.jsonl": '{"a": 1}\n'}, {"t.txt": "x\n"}


def test_a_setting_that_does_not_fit_the_inputs_is_named(convert):
    for files, settings in (
        (ROWS, {"columns": {"lable": "label"}}),
        (ROWS, {"columns": {"n": "split", "words": "split"}}),
        (ROWS, {"group_by": "lable"}),
        (ROWS, {"tensors": '{"lable": "int64[2]"}'}),
        (ROWS, {"tensors": '{"n": "int64[2]"}'}),
        (ROWS, {"vocabulary": {"n": ["1"]}}),
        (ROWS, {"lowercase": True}),
        (ROWS, {"deduplicate": True}),
        (ROWS, {"column_names": ["a"]}),
        (ROWS, {"layout": "parquet"}),
        ({"t.csv": "text,n\na,1\n"}, {"stratify": True}),
        (FOLDER, {"delimiter": ";"}),
        (OBJECTS, {"column_names": ["a"]}),
        (LINES, {"delimiter": ";", "layout": "lines"}),
    ):
        with pytest.raises((ConfigError, InputError)) as caught:
            convert(files, **settings)
        setting = getattr(caught.value, "setting", None)
        assert not setting or setting.partition("[")[0] in (*settings, "columns"), settings


def test_tensors_are_what_is_said_of_them(convert):
    tensors = [tf.io.serialize_tensor(tf.range(size)).numpy() for size in (2, 3)]
    columns = {"text": pa.array(["a", "b"]), "x": pa.array(tensors, pa.binary())}
    files: dict[str, bytes | str] = {"t.parquet": parquet_of(columns)}
    written = convert(files, tensors={"x": "int32[?]"}).features["x"]
    assert written["tensor"] == {"dtype": "int32", "shape": [None]}
    for spec in ("int32[2]", "int64[?]"):
        with pytest.raises(ConfigError) as caught:
            convert(files, tensors={"x": spec})
        assert (caught.value.setting, caught.value.value) == ("tensors", "x")
