"""Inputs that cannot be meant: each is one clear error, and the cure it names is one."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from tests.components.tables.table_files import keyed, parquet_of
from trainer_utils.format import ConfigError, InputError

WIDE = 2**63
ERRORS: dict[str, tuple[dict[str, bytes | str], str]] = {
    "no bytes": ({"t.csv": ""}, "found none"),
    "a header alone": ({"t.csv": "text,n\n"}, "found none .*a header alone"),
    "no lines of JSON": ({"t.jsonl": "\n\n"}, "found none"),
    "blank lines alone": ({"train.txt": "\n \n"}, "found none"),
    "no entries": ({"t.json": "{}"}, "found none"),
    "no rows of Parquet": ({"t.parquet": parquet_of({"a": pa.array([], pa.int64())})}, "none"),
    "empty files": ({"a/1.txt": "", "b/2.txt": ""}, "2 of 2 .*EMPTY_FILE"),
    "a blank name of a column": ({"t.csv": "a,,b\n1,2,3\n"}, r"'t\.csv'.*without a name"),
    "a column's name twice": ({"t.csv": "a,b,a\n1,2,3\n"}, r"'t\.csv'.*'a' twice"),
    "a header that is no UTF-8": ({"t.csv": b"caf\xe9\nx\n"}, r"'t\.csv'.*header in UTF-8"),
    "a header longer than any": ({"t.csv": "text," + "x" * (2 << 20) + "\na,2\n"}, r"'t\.csv'"),
    "an unclosed quote": ({"t.csv": 'a,b\n1,2\n"x\ny",3\n4,"5\n6,7\n'}, r"'t\.csv'.*line 5"),
    "an unclosed quote at the end": ({"t.tsv": 'a\tb\n1\t"'}, r"'t\.tsv'.*line 2"),
    "quotes of two texts": ({"t.tsv": 'a\tb\n"Yes\t1\nNo\t2\nso "they say\t3\n'}, "line 4"),
    "an unclosed quote in the header": ({"t.csv": 'a,"b\n1,2\n'}, r"'t\.csv'"),
    "JSON cut short": ({"t.json": '{"1": {"text": "a"'}, r"'t\.json': expected JSON"),
    "JSON of columns": ({"t.json": '{"n": {"0": 1, "1": 2}}'}, r"'t\.json'.*orient='records'"),
    "JSON of one number": ({"t.json": "17"}, r"'t\.json': expected objects"),
    "JSON that is no UTF-8": ({"t.json": b'{"1":\n{"text": "\xff"}}'}, r"'t\.json'.*line 2"),
    "JSON nested past all measure": ({"t.json": "[" * 200_000}, r"'t\.json': expected JSON"),
    "a word among floats": ({"t.csv": "n\n1\n3.5\nnone\n"}, r"'n'.*'none' \(t\.csv, row 3\)"),
    "a word among ints of an entry": (
        {"t.json": keyed('"a": {"n": 1}', '"b": {"n": 2}', '"c": {"n": "x"}')},
        r"'n'.*'x' \(t\.json, row 3\)",
    ),
    "lists of objects": ({"t.jsonl": '{"n": [{"a": 1}]}\n'}, "column 'n'.*'ignore'"),
    "lists of objects in Parquet": ({"t.parquet": parquet_of({"n": [[{"a": 1}]]})}, "column 'n'"),
    "a label of two lines": ({"t.csv": 'text,label\nx,"a\nb"\n'}, "label"),
    "some named after splits": ({"train.csv": "n\n1\n", "more.csv": "n\n1\n"}, r"'more\.csv'"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_input_that_cannot_be_meant_is_a_clear_error(convert, case):
    files, said = ERRORS[case]
    with pytest.raises(InputError, match=said):
        convert(files)


def cut(data: bytes, start: int, stop: int, between: bytes = b"") -> bytes:
    return data[:start] + between + data[stop:]


# Each error that names a setting as the cure: with it, that error does not come back.
IGNORED = {"columns": {"v": "ignore"}}
TEXT_M = {"columns": {"m": "string"}}
CURES: dict[str, tuple[Any, ...]] = {  # files, the cure, and the setting that makes the error
    "lists in lists": ({"t.jsonl": '{"n": 1, "v": [[1]]}\n{"n": 2, "v": 3}\n'}, IGNORED),
    "lists in lists of an entry": ({"t.json": '{"a": {"n": 1, "v": [[1]]}}'}, IGNORED),
    "objects in lists within an object": (
        {"t.jsonl": '{"n": 1, "o": {"v": [{"a": 1}]}}\n'},
        {"columns": {"o.v": "ignore"}},
    ),
    "lists in lists of Parquet": ({"t.parquet": parquet_of({"n": [1], "v": [[[1]]]})}, IGNORED),
    "none in a list of Parquet": ({"t.parquet": parquet_of({"n": [1], "v": [[1, None]]})}, IGNORED),
    "past 64 bits in JSON": ({"t.jsonl": f'{{"n": 1, "v": {WIDE}}}\n'}, IGNORED),
    "past 64 bits in Parquet": (
        {"t.parquet": parquet_of({"n": [1], "v": pa.array([WIDE], pa.uint64())})},
        IGNORED,
    ),
    "a word among numbers": ({"t.csv": "n,m\n1,2\n3,x4\n5,6\n"}, TEXT_M),
    "a word among numbers of JSON": ({"t.jsonl": '{"m": 1}\n{"m": 2}\n{"m": "x"}\n'}, TEXT_M),
    "a word for a float": ({"t.csv": "n,m\n1,a\n"}, TEXT_M, {"columns": {"m": "float"}}),
    "a split that is none": ({"t.csv": "n,split\n1,banana\n"}, {"columns": {"split": "string"}}),
    "two kinds of tables": ({"t.csv": "n\n1\n", "t.jsonl": '{"n": 1}\n'}, {"layout": "csv"}),
    "a header in another encoding": ({"t.csv": b"caf\xe9,n\nx,1\n"}, {"encoding": "latin-1"}),
    "lines of JSON in UTF-16": (
        {"t.jsonl": '{"n": 1}\n{"n": 2}\n'.encode("utf-16")},
        {"encoding": "utf-16"},
    ),
}


@pytest.mark.parametrize("case", CURES)
def test_the_cure_that_an_error_names_is_one(convert, case):
    files, settings, *broken = CURES[case]
    with pytest.raises((InputError, ConfigError)) as error:
        convert(files, **(broken or [{}])[0])
    ((name, value),) = settings.items()
    assert f"{name}={value!r}" in str(error.value)
    dataset = convert(files, **settings)
    assert (dataset.counts()["written"] >= 1, dataset.counts()["rejected"]) == (True, 0)
    ignored = [n for n, kind in settings.get("columns", {}).items() if kind == "ignore"]
    assert not [f for f in dataset.features for name in ignored if f.startswith(name)]


# Settings that do not fit the inputs --------------------------------------------------------------

ROWS = {"t.csv": "words,n,label\na,1,x\nb,2,y\n"}
FOLDER, OBJECTS, LINES = {"a/1.txt": "x"}, {"t.jsonl": '{"a": 1}\n'}, {"t.txt": "x\n"}


@pytest.mark.parametrize(
    ("files", "settings", "said"),
    [
        (ROWS, {"columns": {"nope": "int"}}, r"columns.*words, n, label.*'nope'"),
        (ROWS, {"columns": {"lable": "label"}}, "Did you mean 'label'"),
        (ROWS, {"columns": {"n": "split", "words": "split"}}, "columns: expected one 'split'"),
        (ROWS, {"group_by": "lable"}, "group_by.*'lable'.*Did you mean 'label'"),
        (ROWS, {"tensors": '{"lable": "int64[2]"}'}, "'lable'.*Did you mean 'label'"),
        (ROWS, {"tensors": '{"n": "int64[2]"}'}, r"tensors\['n'\]"),
        (ROWS, {"vocabulary": {"n": ["1"]}}, r"vocabulary.*\(label\).*'n'"),
        (ROWS, {"lowercase": True}, "words, n, label.*'<column>': 'text'"),
        (ROWS, {"deduplicate": True}, "expected a column with the texts"),
        (ROWS, {"column_names": ["a"]}, "expected 1 fields"),
        (ROWS, {"layout": "parquet"}, r"layout='parquet'.*t\.csv"),
        ({"t.csv": "text,n\na,1\n"}, {"stratify": True}, "stratify"),
        (FOLDER, {"columns": {"text": "string"}}, "columns"),
        (FOLDER, {"delimiter": ";"}, "delimiter"),
        (OBJECTS, {"column_names": ["a"]}, "column_names"),
        (LINES, {"delimiter": ";", "layout": "lines"}, "delimiter"),
    ],
)
def test_a_setting_that_does_not_fit_the_inputs_is_named(convert, files, settings, said):
    with pytest.raises((ConfigError, InputError), match=said):
        convert(files, **settings)


@pytest.mark.parametrize(
    ("spec", "fits"), [("int32[?]", True), ("int32[2]", False), ("int64[?]", False)]
)
def test_tensors_are_what_is_said_of_them(convert, spec, fits):
    tensors = [tf.io.serialize_tensor(tf.range(size)).numpy() for size in (2, 3)]
    columns = {"text": pa.array(["a", "b"]), "x": pa.array(tensors, pa.binary())}
    files: dict[str, bytes | str] = {"t.parquet": parquet_of(columns)}
    if fits:
        written = convert(files, tensors={"x": spec}).features["x"]
        assert written["tensor"] == {"dtype": "int32", "shape": [None]}
        return
    with pytest.raises(ConfigError) as caught:
        convert(files, tensors={"x": spec})
    assert (caught.value.setting, caught.value.value) == ("tensors", "x")
