"""Test that bad inputs are rejects or clear errors, and that the fix in the message works."""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from components.tables import row_ends
from components.tables.row_ends import CutLimits
from tests.components.tables.table_files import keyed, parquet_of
from tests.docs.markdown import REPOSITORY
from trainer_utils.core.errors import ConfigError, InputError

# A file's name and content, the numbers of its good rows, and for each bad row its code and a
# part of its detail.
JSON_ROW = "expected a JSON object"
REJECTED: dict[str, tuple[str, bytes | str, set[int], dict[int, tuple[str, str]]]] = {
    "too few and too many fields": (
        *("t.csv", "text,n\na,1\nb\nc,3,4\nd,4\n", {1, 4}),
        {2: ("WRONG_COLUMNS", "line 3"), 3: ("WRONG_COLUMNS", "line 4")},
    ),
    "wrong fields after rows of several lines and blank lines": (
        *("t.csv", 'text,n\r\n"x\r\ny ""z""\r\n",1\r\n\r\nb\r\n"d\r\n",4\r\n\r\n1,2,3', {1, 3}),
        {2: ("WRONG_COLUMNS", "line 6"), 4: ("WRONG_COLUMNS", "line 10")},
    ),
    "undecodable bytes in a table": (
        *("t.csv", b'text,n\n"two\nlines",1\ncaf\xe9,2\nc,\xff\nd,4\n', {1, 4}),
        {2: ("NOT_UTF8", "line 4: column 'text'"), 3: ("NOT_UTF8", "line 5: column 'n'")},
    ),
    "undecodable bytes in lines of JSON": (
        *("t.jsonl", b'{"text": "a"}\n\n{"text": "caf\xe9"}\n{"text": "c"}\n', {1, 3}),
        {2: ("NOT_UTF8", "line 3")},
    ),
    "undecodable bytes in lines": (
        *("train.txt", b"a\n\ncaf\xe9\n\xed\xa0\x80\nd\n", {1, 5}),
        {3: ("NOT_UTF8", "b'\\xe9'"), 4: ("NOT_UTF8", "line 4")},
    ),
    "undecodable bytes in Parquet": (
        "t.parquet",
        parquet_of({"text": [b"a", b"caf\xe9", b"c"], "label": [b"x", b"y", b"\xff"]}),
        {1},
        {2: ("NOT_UTF8", "column 'text'"), 3: ("NOT_UTF8", "column 'label'")},
    ),
    "NUL bytes in lines": ("train.txt", b"a\nb\0\n", {1}, {2: ("NUL_BYTE", "line 2")}),
    "NUL bytes in lines of JSON": (
        *("t.jsonl", b'{"text": "a"}\n{"text": "b\0"}\n\0\0\n', {1}),
        {2: ("BAD_JSON", "line 2: "), 3: ("BAD_JSON", "line 3: ")},
    ),
    "lines that are no JSON, or no object": (
        "t.jsonl",
        '{"text": "a"}\nnope\n[1]\n"x"\n17\n{"text": "b"} {"text": "c"}\n{"text": "d"',
        {1},
        {n: ("BAD_JSON", f"line {n}: {JSON_ROW}") for n in range(2, 8)},
    ),
    "a field twice in a line of JSON": (
        *("t.jsonl", '{"a": 1, "a": 2}\n{"a": 3}\n{"b": {"c": 1, "c": 1}}\n', {2}),
        {1: ("BAD_JSON", "duplicate name 'a'"), 3: ("BAD_JSON", "duplicate name 'c'")},
    ),
    "two fields that become one feature": (
        *("t.jsonl", '{"a": {"b": 1}, "a.b": 2}\n{"a": {"b": 3}}\n', {2}),
        {1: ("BAD_JSON", "duplicate name 'a.b'")},
    ),
    "half of a surrogate pair": (
        "t.jsonl",
        '{"text": "\\ud800"}\n{"text": "ok"}\n{"te\\udc00xt": 1}\n{"z": {"\\ud800": 1}}\n',
        {2},
        {n: ("BAD_JSON", f"line {n}: ") for n in (1, 3, 4)},
    ),
    "a label called as a field is": (
        "t.json",
        keyed('"1": {"text": "a", "label": {"text": "b"}}', '"2": {"text": "c", "label": {}}'),
        {2},
        {1: ("BAD_JSON", "duplicate name 'text'")},
    ),
    "half of a surrogate pair in an entry": (
        "t.json",
        keyed('"1": {"text": "\\ud800"}', '"2": {"text": "c"}', '"3": {"\\ud800": "x"}'),
        {2},
        {1: ("BAD_JSON", ""), 3: ("BAD_JSON", "")},
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_bad_row_is_rejected_alone(convert, monkeypatch, case):
    name, data, good, bad = REJECTED[case]
    if name != "t.json":
        monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_bytes=1))
        monkeypatch.setattr(row_ends, "_BLOCK_BYTES", 3)
    layout = "json" if name == "t.json" else "auto"
    dataset = convert({name: data}, base=name, layout=layout, max_reject_fraction=0.95)
    assert dataset.by_id().keys() == {f"{name}:{n}" for n in good}
    found = {line["source"]: (line["code"], line["detail"]) for line in dataset.rejects}
    assert found.keys() == {f"{name}:{n}" for n in bad}
    for number, (code, said) in bad.items():
        assert found[f"{name}:{number}"][0] == code
        assert said in found[f"{name}:{number}"][1]
    blank = int(case == "undecodable bytes in lines")
    counts = {"found": len(good) + len(bad) + blank, "written": len(good), "rejected": len(bad)}
    assert dataset.counts() == {**counts, "skipped": blank}


def test_reject_is_counted_in_the_split_of_its_file(convert):
    bad, good = '{"text": "a"}\n{\n', '{"text": "x"}\n'
    files = {"test.jsonl": bad, "train.jsonl": good}
    splits = convert(files, max_reject_fraction=0.5).manifest["splits"]
    assert (splits["test"]["found"], splits["test"]["rejected"]) == (2, 1)
    assert (splits["train"]["found"], splits["train"]["rejected"]) == (1, 0)


def refuse(monkeypatch, name: str, *, after: int = 0) -> None:
    """Make opening a file fail after the first `after` times."""
    real, calls = os.open, itertools.count()

    def opened(path: Any, *args: Any, **more: Any) -> int:
        if str(path).endswith(name) and next(calls) >= after:
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", opened)


TABLES = {
    "csv": b"text\none\n",
    "jsonl": b'{"text": "one"}\n',
    "csv.gz": gzip.compress(b"text\none\n"),
    "parquet": parquet_of({"text": ["one"]}),
}


@pytest.mark.parametrize(
    ("suffix", "after"),
    [("csv", 0), ("csv", 1), ("csv", 2), ("csv.gz", 1), ("jsonl", 2), ("parquet", 1)],
)
def test_unreadable_table_is_one_reject(convert, monkeypatch, suffix, after):
    """Raise at inspection, at cutting or at reading of the rows, by the count of opens."""
    refuse(monkeypatch, f"b.{suffix}", after=after)
    files = {f"{name}.{suffix}": TABLES[suffix] for name in "abc"}
    dataset = convert(files, max_reject_fraction=0.5, layout=Path(suffix).stem)
    (line,) = dataset.rejects
    assert (line["source"].split(":")[0], line["code"]) == (f"b.{suffix}", "UNREADABLE")
    assert dataset.counts() == {"found": 3, "written": 2, "rejected": 1, "skipped": 0}


LONG = "x" * (3 << 20)  # more than Arrow reads at a time


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", f'text,n\na,1\n"{LONG}",2\n'),
        ("t.jsonl", f'{{"text": "a"}}\n{{"text": "{LONG}"}}\n'),
        ("train.txt", f"a\n{LONG}\n"),
    ],
    ids=["csv", "jsonl", "lines"],
)
def test_long_row_is_read_and_a_longer_one_is_rejected(convert, monkeypatch, name, data):
    assert convert({name: data}).texts() == {f"{name}:1": "a", f"{name}:2": LONG}
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(max_row_bytes=2 << 20))
    monkeypatch.setattr(row_ends, "_BLOCK_BYTES", 1 << 20)
    dataset = convert({name: data}, max_reject_fraction=0.5)
    assert dataset.texts() == {f"{name}:1": "a"}
    (reject,) = dataset.rejects
    assert (reject["source"], reject["code"]) == (f"{name}:2", "TOO_LARGE")
    line = data[: data.index("xx")].count("\n") + 1
    assert reject["detail"].startswith(f"line {line}: ")


GIANTS = """
import gzip, json, resource, sys
from pathlib import Path
from components import steps
from components.example_gen.settings import TextSettings

def run(base, uri):
    steps.convert(str(base), str(uri), TextSettings(max_reject_fraction=0.9))
    return json.loads((uri / "manifest.json").read_text())

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

folder = Path(sys.argv[1])
block = b"x" * (1 << 20)

def write(path, before, after, opener=open):
    path.parent.mkdir(parents=True)
    with opener(path, "wb") as stream:
        stream.write(before)
        for _ in range(200):
            stream.write(block)
        stream.write(after)
    return path

cases = {
    "t.csv": (b"text,n\\na,1\\n", b",2\\nb,3\\n"),
    "q.csv": (b'text,n\\na,1\\n"', b'\\n",2\\nb,3\\n'),
    "t.jsonl": (b'{"text": "a"}\\n{"text": "', b'"}\\n{"text": "b"}\\n'),
    "train.txt": (b"a\\n", b"\\nb\\n"),
    "train.txt.gz": (b"a\\n", b"\\nb\\n"),
}
small = folder / "small"
small.mkdir()
(small / "t.csv").write_bytes(b"text,n\\na,1\\nb,2\\n")
run(small, folder / "small-out")
before, results = peak(), {}
for name, (start, end) in cases.items():
    opener = gzip.open if name.endswith(".gz") else open
    path = write(folder / name / name, start, end, opener)
    manifest = run(path, folder / f"{name}-out")
    results[name] = [manifest["total"], manifest["rejects"], peak() - before]
    path.unlink()
print(json.dumps(results))
"""


@pytest.mark.slow
def test_200_mb_line_is_rejected_in_bounded_memory(tmp_path):
    output = subprocess.run(
        [sys.executable, "-c", GIANTS, str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    results = json.loads(output.splitlines()[-1])
    assert results.keys() == {"t.csv", "q.csv", "t.jsonl", "train.txt", "train.txt.gz"}
    for name, (total, codes, extra_bytes) in results.items():
        assert (total["found"], total["written"], codes) == (3, 2, {"TOO_LARGE": 1}), name
        assert extra_bytes < 100 << 20, name


WIDE = 2**63
ERRORS: dict[str, tuple[dict[str, bytes | str], str]] = {
    "no bytes": ({"t.csv": ""}, "found none"),
    "a header alone": ({"t.csv": "text,n\n"}, "found none .*a header alone"),
    "no lines of JSON": ({"t.jsonl": "\n\n"}, "found none"),
    "no rows of Parquet": ({"t.parquet": parquet_of({"a": pa.array([], pa.int64())})}, "none"),
    "empty files": ({"a/1.txt": "", "b/2.txt": ""}, "2 of 2 .*EMPTY_FILE"),
    "a blank name of a column": ({"t.csv": "a,,b\n1,2,3\n"}, r"'t\.csv'.*has no name"),
    "a column's name twice": ({"t.csv": "a,b,a\n1,2,3\n"}, r"'t\.csv'.*'a' is a duplicate"),
    "a header that is no UTF-8": ({"t.csv": b"caf\xe9\nx\n"}, r"'t\.csv'.*header in UTF-8"),
    "a header longer than any": ({"t.csv": "text," + "x" * (2 << 20) + "\na,2\n"}, r"'t\.csv'"),
    "an unclosed quote": ({"t.csv": 'a,b\n1,2\n"x\ny",3\n4,"5\n6,7\n'}, r"'t\.csv'.*line 5"),
    "quotes of two texts": ({"t.tsv": 'a\tb\n"Yes\t1\nNo\t2\nso "they say\t3\n'}, "line 4"),
    "JSON cut short": ({"t.json": '{"1": {"text": "a"'}, r"'t\.json': expected JSON"),
    "a key of JSON twice": (
        {"t.json": keyed('"1": {"text": "a"}', '"2": {"text": "b"}', '"1": {"text": "c"}')},
        r"'t\.json': expected JSON, got duplicate name '1'",
    ),
    "JSON that is no UTF-8": ({"t.json": b'{"1":\n{"text": "\xff"}}'}, r"'t\.json'.*byte 16"),
    "JSON nested past all measure": ({"t.json": "[" * 200_000}, r"'t\.json': expected JSON"),
    "a word among floats": ({"t.csv": "n\n1\n3.5\nnone\n"}, r"'n'.*'none' \(t\.csv, row 3\)"),
    "lists of objects": ({"t.jsonl": '{"n": [{"a": 1}]}\n'}, "column 'n'.*'ignore'"),
    "lists of objects in Parquet": ({"t.parquet": parquet_of({"n": [[{"a": 1}]]})}, "column 'n'"),
    "a label of two lines": ({"t.csv": 'text,label\nx,"a\nb"\n'}, "label"),
    "some named after splits": ({"train.csv": "n\n1\n", "more.csv": "n\n1\n"}, r"'more\.csv'"),
}


def test_malformed_input_raises_with_its_location(convert, subtests):
    for files, said in ERRORS.values():
        with subtests.test(files=files), pytest.raises(InputError, match=said):
            convert(files)


# For errors that name a setting as the fix: with this setting the error does not occur.
IGNORED = {"columns": {"v": "ignore"}}
TEXT_M = {"columns": {"m": "string"}}
CURES: dict[str, tuple[Any, ...]] = {  # files, the fix, and the setting that causes the error
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


def test_fix_in_the_error_message_works(convert, subtests):
    for case, (files, settings, *broken) in CURES.items():
        with subtests.test(case=case):
            with pytest.raises((InputError, ConfigError)) as error:
                convert(files, **(broken or [{}])[0])
            ((name, value),) = settings.items()
            assert f"{name}={value!r}" in str(error.value), case
            dataset = convert(files, **settings)
            assert (dataset.counts()["written"] >= 1, dataset.counts()["rejected"]) == (True, 0), (
                case
            )
            ignored = [n for n, kind in settings.get("columns", {}).items() if kind == "ignore"]
            assert not [f for f in dataset.features for name in ignored if f.startswith(name)]


# Settings that do not fit the inputs --------------------------------------------------------------

ROWS = {"t.csv": "words,n,label\na,1,x\nb,2,y\n"}
FOLDER, OBJECTS, LINES = {"a/1.txt": "x"}, {"t.jsonl": '{"a": 1}\n'}, {"t.txt": "x\n"}


def test_setting_that_does_not_fit_the_inputs_raises(convert, subtests):
    for files, settings in (
        (ROWS, {"columns": {"lable": "label"}}),
        (ROWS, {"columns": {"n": "split", "words": "split"}}),
        (ROWS, {"group_by": "lable"}),
        ({"t.jsonl": '{"text": "a", "g": [1]}\n'}, {"group_by": "g"}),
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
        with subtests.test(files=files):
            with pytest.raises((ConfigError, InputError)) as caught:
                convert(files, **settings)
            setting = getattr(caught.value, "setting", None)
            assert not setting or setting.partition("[")[0] in (*settings, "columns"), settings


def test_serialized_tensors_match_their_declared_spec(convert, subtests):
    tensors = [tf.io.serialize_tensor(tf.range(size)).numpy() for size in (2, 3)]
    columns = {"text": pa.array(["a", "b"]), "x": pa.array(tensors, pa.binary())}
    files: dict[str, bytes | str] = {"t.parquet": parquet_of(columns)}
    written = convert(files, tensors={"x": "int32[?]"}).features["x"]
    assert written["tensor"] == {"dtype": "int32", "shape": [None]}
    for spec in ("int32[2]", "int64[?]"):
        with subtests.test(spec=spec):
            with pytest.raises(ConfigError) as caught:
                convert(files, tensors={"x": spec})
            assert (caught.value.setting, caught.value.value) == ("tensors", "x")
