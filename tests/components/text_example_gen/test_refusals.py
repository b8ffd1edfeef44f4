"""Inputs that cannot be meant: each is one clear error, and the cure it names is one."""

import gzip
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from components.example_gen import row_columns
from components.tables import delimited
from tests.components.tables.table_files import keyed, parquet_of
from trainer_utils.format import ConfigError, InputError

# Errors -------------------------------------------------------------------------------------------

WIDE = 2**63
ERRORS: dict[str, tuple[dict[str, bytes | str], str]] = {
    "no bytes": ({"t.csv": ""}, r"'t\.csv'.*header.*found none|expected texts, found none"),
    "a header alone": ({"t.csv": "text,n\n"}, "expected texts, found none .*a header alone"),
    "no lines of JSON": ({"t.jsonl": "\n\n"}, "expected texts, found none"),
    "blank lines alone": ({"train.txt": "\n \n"}, "expected texts, found none"),
    "no entries": ({"t.json": "{}"}, "expected texts, found none"),
    "no rows of Parquet": (
        {"t.parquet": parquet_of({"a": pa.array([], pa.int64())})},
        "found none",
    ),
    "empty files": ({"a/1.txt": "", "b/2.txt": ""}, "2 of 2 .* rejected .*EMPTY_FILE"),
    "a blank name of a column": ({"t.csv": "a,,b\n1,2,3\n"}, r"'t\.csv'.*one without a name"),
    "a column's name twice": ({"t.csv": "a,b,a\n1,2,3\n"}, r"'t\.csv'.*'a' twice"),
    "a header that is no UTF-8": ({"t.csv": b"caf\xe9\nx\n"}, r"'t\.csv'.*header in UTF-8"),
    "an unclosed quote": ({"t.csv": 'a,b\n1,2\n"x\ny",3\n4,"5\n6,7\n'}, r"'t\.csv'.*from line 5"),
    "an unclosed quote at the end": ({"t.tsv": 'a\tb\n1\t"'}, r"'t\.tsv'.*from line 2"),
    "quotes of two texts that take a row in": (
        {"t.tsv": 'a\tb\n"Yes\t1\nNo\t2\nso "they say\t3\n'},
        r"'t\.tsv'.*a quote within a text.*line 4",
    ),
    "an unclosed quote in the header": ({"t.csv": 'a,"b\n1,2\n'}, r"'t\.csv'.*quote|header"),
    "JSON cut short": ({"t.json": '{"1": {"text": "a"'}, r"'t\.json': expected JSON"),
    "JSON of columns, as pandas writes it": (
        {"t.json": '{"text": {"0": "a", "1": "b"}, "n": {"0": 1, "1": 2}}'},
        r"'t\.json': expected an object a row.*orient='records'",
    ),
    "JSON of one number": ({"t.json": "17"}, r"'t\.json': expected objects"),
    "JSON that is no UTF-8": ({"t.json": b'{"1":\n{"text": "\xff"}}'}, r"'t\.json'.*line 2"),
    "JSON nested past all measure": ({"t.json": "[" * 200_000}, r"'t\.json': expected JSON"),
    "a word among ints": (
        {"t.csv": "n,m\n1,2\n3,x4\n5,6\n"},
        r"column 'm': expected int.*got 'x4' \(t\.csv, row 2\).*columns=\{'m': 'string'\}",
    ),
    "a word among floats": (
        {"t.csv": "n\n1\n3.5\nnone\n"},
        r"column 'n': expected float.*got 'none' \(t\.csv, row 3\)",
    ),
    "a word among ints of JSON": (
        {"t.jsonl": '{"n": 1}\n{"n": 2}\n{"n": "x"}\n'},
        r"column 'n': expected int.*got 'x' \(t\.jsonl, row 3\)",
    ),
    "a word among ints of an entry": (
        {"t.json": keyed('"a": {"n": 1}', '"b": {"n": 2}', '"c": {"n": "x"}')},
        r"column 'n': expected int.*got 'x' \(t\.json, row 3\)",
    ),
    "an int past 64 bits in JSON": (
        {"t.jsonl": f'{{"n": 1}}\n{{"n": {WIDE}}}\n'},
        rf"column 'n'.*{WIDE}",
    ),
    "an int past 64 bits in Parquet": (
        {"t.parquet": parquet_of({"n": pa.array([WIDE], pa.uint64())})},
        rf"column 'n'.*64 bits.*{WIDE}",
    ),
    "lists of lists": ({"t.jsonl": '{"n": [[1], [2]]}\n{"n": []}\n'}, "column 'n'.*'ignore'"),
    "lists of objects": ({"t.jsonl": '{"n": [{"a": 1}]}\n'}, "column 'n'.*'ignore'"),
    "lists of lists in Parquet": (
        {"t.parquet": parquet_of({"n": [[[1]]]})},
        "column 'n'.*'ignore'",
    ),
    "lists of objects in Parquet": (
        {"t.parquet": parquet_of({"n": [[{"a": 1}]]})},
        "column 'n'.*'ignore'",
    ),
    "a label of two lines": ({"t.csv": 'text,label\nx,"a\nb"\n'}, "label .*expected one line"),
}


@pytest.mark.parametrize(("files", "message"), ERRORS.values(), ids=ERRORS)
def test_an_input_that_cannot_be_meant_is_a_clear_error(convert, files, message):
    with pytest.raises(InputError, match=message):
        convert(files)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: data[: len(data) // 2],
        lambda data: data[:60] + bytes([data[60] ^ 255]) + data[61:],
        lambda data: data[:-6] + b"\0" + data[-5:],
        lambda data: data + b"garbage",
        lambda data: b"plain text\n",
        lambda data: b"",
    ],
    ids=["cut", "half", "a byte", "its sum", "more", "not gzip", "nothing"],
)
@pytest.mark.parametrize("name", ["t.csv.gz", "train.txt.gz"])
def test_a_damaged_gzip_is_named(convert, name, damage):
    rows = "".join(f"text number {n * n},{n}\n" for n in range(200))
    with pytest.raises(InputError, match=rf"{name}|found none"):
        convert({name: damage(gzip.compress(f"text,n\n{rows}".encode()))})


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: data[: len(data) // 2],
        lambda data: data[:4] + b"\xff" * 200 + data[204:],
        lambda data: (
            data[: data.index(b"schema") - 20] + b"\xff" * 40 + data[data.index(b"schema") + 20 :]
        ),
        lambda data: b"PAR1",
        lambda data: b"plain text\n",
        lambda data: b"",
    ],
    ids=["cut", "half", "pages", "footer", "short", "not Parquet", "nothing"],
)
def test_a_damaged_parquet_file_is_named(convert, damage):
    data = parquet_of({"text": [f"text number {n * n}" for n in range(500)]})
    with pytest.raises(InputError, match=r"'t\.parquet'"):
        convert({"t.parquet": damage(data)})


def test_more_columns_than_can_be_meant_are_refused(convert, monkeypatch):
    for module in (row_columns, delimited):
        monkeypatch.setattr(module, "MAX_COLUMNS", 3)
    assert convert({"t.csv": "a,b,n\nx,y,1\n"}).counts()["written"] == 1
    with pytest.raises(InputError, match=r"'t\.csv': expected at most 3 columns, got 4"):
        convert({"t.csv": "a,b,m,n\nx,y,1,2\n"})
    with pytest.raises(InputError, match="columns: expected at most 3, got 5"):
        convert({"t.jsonl": "".join(f'{{"k{n}": 1}}\n' for n in range(5))})


# Each error that names a setting as the cure: with it, that error does not come back.
NESTED = {"t.jsonl": '{"n": 1, "v": [[1]]}\n{"n": 2, "v": 3}\n'}
CURES: dict[str, tuple[dict[str, bytes | str], str, dict[str, Any]]] = {
    "lists in lists": (NESTED, "columns={'v': 'ignore'}", {"columns": {"v": "ignore"}}),
    "lists in lists of an entry": (
        {"t.json": '{"a": {"n": 1, "v": [[1]]}}'},
        "columns={'v': 'ignore'}",
        {"columns": {"v": "ignore"}},
    ),
    "objects in lists within an object": (
        {"t.jsonl": '{"n": 1, "o": {"v": [{"a": 1}]}}\n'},
        "columns={'o.v': 'ignore'}",
        {"columns": {"o.v": "ignore"}},
    ),
    "a whole object": (
        {"t.jsonl": '{"n": 1, "o": {"v": [{"a": 1}]}}\n'},
        "'ignore'",
        {"columns": {"o": "ignore"}},
    ),
    "lists in lists of Parquet": (
        {"t.parquet": parquet_of({"n": [1], "v": [[[1]]]})},
        "columns={'v': 'ignore'}",
        {"columns": {"v": "ignore"}},
    ),
    "nothing in a list of Parquet": (
        {"t.parquet": parquet_of({"n": [1], "v": [[1, None]]})},
        "columns={'v': 'ignore'}",
        {"columns": {"v": "ignore"}},
    ),
    "past 64 bits in JSON": (
        {"t.jsonl": f'{{"n": 1, "v": {WIDE}}}\n'},
        "columns={'v': 'ignore'}",
        {"columns": {"v": "ignore"}},
    ),
    "past 64 bits in Parquet": (
        {"t.parquet": parquet_of({"n": [1], "v": pa.array([WIDE], pa.uint64())})},
        "columns={'v': 'ignore'}",
        {"columns": {"v": "ignore"}},
    ),
    "a word among numbers": (
        {"t.csv": "n,m\n1,2\n3,x4\n5,6\n"},
        "columns={'m': 'string'}",
        {"columns": {"m": "string"}},
    ),
    "a word among numbers of JSON": (
        {"t.jsonl": '{"m": 1}\n{"m": 2}\n{"m": "x"}\n'},
        "columns={'m': 'string'}",
        {"columns": {"m": "string"}},
    ),
    "a word where floats are asked for": (
        {"t.csv": "n,m\n1,a\n"},
        "columns={'m': 'string'}",
        {"columns": {"m": "string"}},
    ),
    "a split that is none": (
        {"t.csv": "n,split\n1,banana\n"},
        "columns={'split': 'string'}",
        {"columns": {"split": "string"}},
    ),
    "no column of texts": (
        {"t.csv": "n,words\n1,a\n"},
        "columns={'<column>': 'text'}",
        {"columns": {"words": "text"}},
    ),
    "two kinds of tables": (
        {"t.csv": "n\n1\n", "t.jsonl": '{"n": 1}\n'},
        "layout='csv'",
        {"layout": "csv"},
    ),
    "a header in another encoding": (
        {"t.csv": b"caf\xe9,n\nx,1\n"},
        "encoding='latin-1'",
        {"encoding": "latin-1"},
    ),
    "lines of JSON in UTF-16": (
        {"t.jsonl": '{"n": 1}\n{"n": 2}\n'.encode("utf-16")},
        "encoding='utf-16'",
        {"encoding": "utf-16"},
    ),
}
BROKEN = {
    "a word where floats are asked for": {"columns": {"m": "float"}},
    "no column of texts": {"lowercase": True},
}


@pytest.mark.parametrize("case", CURES)
def test_the_cure_that_an_error_names_is_one(convert, case):
    files, cure, settings = CURES[case]
    broken = BROKEN.get(case, {})
    with pytest.raises((InputError, ConfigError)) as error:
        convert(files, **broken)
    assert cure in str(error.value)
    dataset = convert(files, **{**broken, **settings})
    assert dataset.counts()["written"] >= 1
    assert dataset.counts()["rejected"] == 0
    ignored = [n for n, kind in settings.get("columns", {}).items() if kind == "ignore"]
    assert not [f for f in dataset.features if f.partition(".")[0] in ignored or f in ignored]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("others", [("b.x",), ("test/b.x",), ("b.x", "c/d/e.x")])
def test_a_table_that_nobody_would_read_is_refused_by_name(convert, ending, others):
    """Of the same kind as those that are read, in a folder that is no split."""
    table = {
        "csv": "text,n\na,1\n",
        "tsv": "text\tn\na\t1\n",
        "jsonl": '{"text": "a", "n": 1}\n',
        "parquet": parquet_of({"text": ["a"], "n": [1]}),
    }[ending]
    names = [name.replace(".x", f".{ending}") for name in ("more/a.x", *others)]
    with pytest.raises(InputError, match=r"(more/a|c/d/e)\..*input_config"):
        convert(dict.fromkeys(names, table))
    hidden = dict.fromkeys([".more/a", *names[1:2]], table)
    assert convert(hidden).counts()["written"] == 1


def test_a_header_longer_than_any_is_refused(convert):
    with pytest.raises(InputError, match=r"'t\.csv'.*header"):
        convert({"t.csv": "text," + "x" * (2 << 20) + "\na,2\n"})
