"""Bad inputs: each is a line of rejects.jsonl or a clear error, and every one is counted."""

import bz2
import gzip
import itertools
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from components.tables import pieces
from tests.components.tables.table_files import keyed, parquet_of
from trainer_utils.format import InputError

# Rejects: a file's name and content, those rows that are good, and for each bad one its code and
# what its detail says.
REJECTED: dict[str, tuple[str, bytes | str, set[str], dict[str, tuple[str, str]]]] = {
    "too few and too many fields": (
        "t.csv",
        "text,n\na,1\nb\nc,3,4\nd,4\n",
        {"t.csv:1", "t.csv:4"},
        {
            "t.csv:2": ("WRONG_COLUMNS", "line 3: expected 2 fields (text,n), got 1"),
            "t.csv:3": ("WRONG_COLUMNS", "line 4: expected 2 fields (text,n), got 3"),
        },
    ),
    "wrong fields after rows of several lines and blank lines": (
        "t.csv",
        'text,n\r\n"x\r\ny ""z""\r\n",1\r\n\r\nb\r\n"d\r\n",4\r\n\r\n1,2,3',
        {"t.csv:1", "t.csv:3"},
        {
            "t.csv:2": ("WRONG_COLUMNS", "line 6: expected 2 fields"),
            "t.csv:4": ("WRONG_COLUMNS", "line 10: expected 2 fields"),
        },
    ),
    "wrong fields below a header of two lines": (
        "t.tsv",
        '\n"text\nor so"\tn\na\t1\nb\n',
        {"t.tsv:1"},
        {"t.tsv:2": ("WRONG_COLUMNS", "line 5: expected 2 fields")},
    ),
    "undecodable bytes in a table": (
        "t.csv",
        b'text,n\n"two\nlines",1\ncaf\xe9,2\nc,\xff\nd,4\n',
        {"t.csv:1", "t.csv:4"},
        {
            "t.csv:2": ("NOT_UTF8", "line 4: column 'text': expected UTF-8, got b'\\xe9'"),
            "t.csv:3": ("NOT_UTF8", "line 5: column 'n': expected UTF-8, got b'\\xff'"),
        },
    ),
    "undecodable bytes in lines of JSON": (
        "t.jsonl",
        b'{"text": "a"}\n\n{"text": "caf\xe9"}\n{"text": "c"}\n',
        {"t.jsonl:1", "t.jsonl:3"},
        {"t.jsonl:2": ("NOT_UTF8", "line 3: expected UTF-8, got b'\\xe9")},
    ),
    "undecodable bytes in lines": (
        "train.txt",
        b"a\n\ncaf\xe9\n\xed\xa0\x80\nd\n",
        {"train.txt:1", "train.txt:5"},
        {
            "train.txt:3": ("NOT_UTF8", "line 3: column 'text': expected UTF-8, got b'\\xe9'"),
            "train.txt:4": ("NOT_UTF8", "line 4: column 'text': expected UTF-8, got b'\\xed"),
        },
    ),
    "NUL bytes in a table": (
        "t.csv",
        b"text,n\na\0b,1\nc,2\n",
        {"t.csv:2"},
        {"t.csv:1": ("NUL_BYTE", "line 2: column 'text': a NUL byte")},
    ),
    "NUL bytes in lines": (
        "train.txt",
        b"a\nb\0\n",
        {"train.txt:1"},
        {"train.txt:2": ("NUL_BYTE", "line 2: column 'text': a NUL byte")},
    ),
    "NUL bytes in lines of JSON": (
        "t.jsonl",
        b'{"text": "a"}\n{"text": "b\0"}\n\0\0\n',
        {"t.jsonl:1"},
        {"t.jsonl:2": ("BAD_JSON", "line 2: "), "t.jsonl:3": ("BAD_JSON", "line 3: ")},
    ),
    "lines that are no JSON, or no object": (
        "t.jsonl",
        '{"text": "a"}\nnope\n[1]\n"x"\n17\n{"text": "b"} {"text": "c"}\n{"text": "d"',
        {"t.jsonl:1"},
        {
            "t.jsonl:2": ("BAD_JSON", "line 2: expected a JSON object"),
            "t.jsonl:3": ("BAD_JSON", "line 3: expected a JSON object: got list"),
            "t.jsonl:4": ("BAD_JSON", "line 4: expected a JSON object: got str"),
            "t.jsonl:5": ("BAD_JSON", "line 5: expected a JSON object: got int"),
            "t.jsonl:6": ("BAD_JSON", "line 6: expected a JSON object: Extra data"),
            "t.jsonl:7": ("BAD_JSON", "line 7: expected a JSON object"),
        },
    ),
    "a field twice in a line of JSON": (
        "t.jsonl",
        '{"a": 1, "a": 2}\n{"a": 3}\n{"b": {"c": 1, "c": 1}}\n',
        {"t.jsonl:2"},
        {
            "t.jsonl:1": ("BAD_JSON", "line 1: expected a JSON object: 'a' stands twice"),
            "t.jsonl:3": ("BAD_JSON", "line 3: expected a JSON object: 'c' stands twice"),
        },
    ),
    "two fields that become one feature": (
        "t.jsonl",
        '{"a": {"b": 1}, "a.b": 2}\n{"a": {"b": 3}}\n',
        {"t.jsonl:2"},
        {"t.jsonl:1": ("BAD_JSON", "'a.b' stands twice")},
    ),
    "half of a surrogate pair": (
        "t.jsonl",
        '{"text": "\\ud800"}\n{"text": "ok"}\n{"te\\udc00xt": 1}\n',
        {"t.jsonl:2"},
        {"t.jsonl:1": ("BAD_JSON", "line 1: "), "t.jsonl:3": ("BAD_JSON", "line 3: ")},
    ),
    "a key twice": (
        "t.json",
        keyed('"1": {"text": "a"}', '"2": {"text": "b"}', '"1": {"text": "c"}'),
        {"t.json:1", "t.json:2"},
        {"t.json:1": ("DUPLICATE_KEY", "the key '1' stands twice")},
    ),
    "an entry that is no object": (
        "t.json",
        keyed('"1": {"text": "a"}', '"2": "b"', '"3": null'),
        {"t.json:1"},
        {
            "t.json:2": ("BAD_JSON", "expected an object for the key '2', got str"),
            "t.json:3": ("BAD_JSON", "expected an object for the key '3', got NoneType"),
        },
    ),
    "a field twice in an entry": (
        "t.json",
        keyed('"1": {"text": "a", "text": "b"}', '"2": {"text": "c"}'),
        {"t.json:2"},
        {"t.json:1": ("BAD_JSON", "'text' stands twice")},
    ),
    "a label called as a field is": (
        "t.json",
        keyed('"1": {"text": "a", "label": {"text": "b"}}', '"2": {"text": "c", "label": {}}'),
        {"t.json:2"},
        {"t.json:1": ("BAD_JSON", "'text' stands twice")},
    ),
    "half of a surrogate pair in an entry": (
        "t.json",
        keyed('"1": {"text": "\\ud800"}', '"2": {"text": "c"}'),
        {"t.json:2"},
        {"t.json:1": ("BAD_JSON", "")},
    ),
}


@pytest.mark.parametrize(
    ("name", "data", "good", "bad", "several"),
    [
        *((*case, False) for case in REJECTED.values()),
        *((*case, True) for case in REJECTED.values() if case[0] != "t.json"),
    ],
    ids=[
        *REJECTED,
        *(f"{name}, in pieces" for name, case in REJECTED.items() if case[0] != "t.json"),
    ],
)
def test_a_bad_row_is_rejected_by_itself(convert, monkeypatch, name, data, good, bad, several):
    if several:
        monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", 1)
        monkeypatch.setattr(pieces, "_BLOCK_BYTES", 3)
    layout = "json" if name == "t.json" else "auto"
    dataset = convert({name: data}, base=name, layout=layout, max_reject_fraction=0.95)
    assert dataset.by_id().keys() == good
    assert {line["source"]: line["code"] for line in dataset.rejects} == {
        source: code for source, (code, _) in bad.items()
    }
    wrong = [x for x in dataset.rejects if bad[x["source"]][1] not in x["detail"]]
    assert wrong == []
    counts = dataset.counts()
    blank = 1 if name == "train.txt" and b"\n\n" in data else 0
    assert counts == {
        "found": len(good) + len(bad) + blank,
        "written": len(good),
        "rejected": len(bad),
        "skipped": blank,
    }


def test_bad_files_of_folders_are_rejected_by_name(convert):
    files = {
        "a/good.txt": "text",
        "a/empty.txt": "",
        "a/blank.txt": " \n\t",
        "b/latin.txt": b"caf\xe9",
        "b/nul.txt": b"a\0b",
        "b/good.txt": "more",
    }
    dataset = convert(files, max_reject_fraction=0.9)
    assert dataset.labels() == {"a/good.txt": "a", "b/good.txt": "b"}
    assert {line["source"]: line["code"] for line in dataset.rejects} == {
        "a/empty.txt": "EMPTY_FILE",
        "a/blank.txt": "EMPTY_FILE",
        "b/latin.txt": "NOT_UTF8",
        "b/nul.txt": "NUL_BYTE",
    }
    assert dataset.counts() == {"found": 6, "written": 2, "rejected": 4, "skipped": 0}


@pytest.mark.parametrize(
    ("encoding", "data", "line"),
    [
        ("shift_jis", "text,n\n東京,1\n".encode("shift_jis") + b"\x81\xff,2\nc,3\n", 3),
        ("cp1252", b"text,n\na,1\n\x81,2\nc,3\n", 3),
        ("utf-16-le", "text,n\na,1\n".encode("utf-16-le") + b"\x00\xd8x\x00,\x002\x00\n\x00", 3),
    ],
)
def test_bytes_that_are_not_of_the_encoding_are_rejected_with_their_line(
    convert, encoding, data, line
):
    dataset = convert({"t.csv": data}, encoding=encoding, max_reject_fraction=0.5)
    (reject,) = dataset.rejects
    assert (reject["source"], reject["code"]) == ("t.csv:2", "NOT_UTF8")
    assert f"line {line}:" in reject["detail"]
    assert encoding in reject["detail"]
    assert "expected UTF-8" not in reject["detail"]


@pytest.mark.parametrize("name", ["train.txt", "t.jsonl", "t.csv"])
def test_a_reject_counts_in_the_split_of_its_file(convert, name):
    bad = {
        "train.txt": b"a\n\xff\n",
        "t.jsonl": b'{"text": "a"}\n{\n',
        "t.csv": b"text,n\na,1\nb\n",
    }
    one = f"train{Path(name).suffix}"
    other = f"test{Path(name).suffix}"
    good = {".txt": "x\n", ".jsonl": '{"text": "x"}\n', ".csv": "text,n\nx,1\n"}[Path(name).suffix]
    dataset = convert({other: bad[name], one: good}, max_reject_fraction=0.5)
    splits = dataset.manifest["splits"]
    assert (splits["test"]["found"], splits["test"]["rejected"]) == (2, 1)
    assert (splits["train"]["found"], splits["train"]["rejected"]) == (1, 0)


# Labels -------------------------------------------------------------------------------------------


def test_labels_that_are_missing_or_unknown_are_rejected(convert):
    text = "text,label\na,pos\nb,\nc,neg\nd,what\n"
    dataset = convert({"t.csv": text}, vocabulary=["pos", "neg"], max_reject_fraction=0.5)
    assert dataset.labels() == {"t.csv:1": "pos", "t.csv:3": "neg"}
    assert {line["source"]: (line["code"], line["detail"]) for line in dataset.rejects} == {
        "t.csv:2": ("NO_LABEL", "column 'label' is empty"),
        "t.csv:4": ("UNKNOWN_LABEL", "label 'what' is not in the vocabulary"),
    }
    assert dataset.manifest["total"]["found"] == 4


def test_a_list_with_an_unknown_label_is_rejected(convert):
    rows = [{"labels": ["x"]}, {"labels": ["x", "q"]}, {"labels": []}]
    data = "".join(json.dumps({"text": "t", **row}) + "\n" for row in rows)
    dataset = convert({"t.jsonl": data}, vocabulary={"labels": ["x", "y"]}, max_reject_fraction=0.5)
    assert [line["source"] for line in dataset.rejects] == ["t.jsonl:2"]
    assert dataset.by_id() == {
        "t.jsonl:1": {"text": [b"t"], "labels": [0]},
        "t.jsonl:3": {"text": [b"t"]},
    }


def test_rows_of_no_split_are_skipped_or_rejected_and_counted(convert):
    words = ["TRAIN", "VALIDATION", "DISCARD", "holdout"]
    text = "text,split\n" + "".join(f"text {n},{word}\n" for n, word in enumerate(words))
    dataset = convert({"t.csv": text}, max_reject_fraction=0.5)
    dataset.check_accounting()
    assert dataset.counts() == {"found": 4, "written": 2, "rejected": 1, "skipped": 1}
    (line,) = dataset.rejects
    assert (line["source"], line["code"]) == ("t.csv:4", "UNKNOWN_SPLIT")
    assert "'holdout'" in line["detail"]


def test_a_word_in_a_later_piece_is_named_with_its_row_in_the_file(convert, monkeypatch):
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", 1)
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", 16)
    rows = [*map(str, range(40)), "word", "41"]
    text = "n,m\n" + "".join(f"{row},1\n" for row in rows)
    with pytest.raises(InputError, match=r"column 'n'.*got 'word' \(t\.csv, row 41\)"):
        convert({"t.csv": text})


def test_one_float_in_a_later_piece_makes_a_column_of_floats(convert, monkeypatch):
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", 1)
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", 16)
    for name, text in {
        "t.csv": "n,m\n" + "1,1\n" * 20 + "2.5,1\n",
        "t.jsonl": '{"n": 1}\n' * 20 + '{"n": 2.5}\n',
    }.items():
        dataset = convert({name: text})
        values = [row["n"] for row in dataset.by_id().values()]
        assert sorted(values) == [[1.0]] * 20 + [[2.5]]
        assert all(type(value) is float for (value,) in values)
        assert dataset.features["n"]["type"] == "float"


def test_old_line_ends_are_read_or_refused_but_lose_nothing(convert):
    read, refused = None, ""
    try:
        read = convert({"t.csv": "text,n\ra,1\rb,2\r"}).texts()
    except InputError as error:
        refused = str(error)
    assert read == {"t.csv:1": "a", "t.csv:2": "b"} or "t.csv" in refused


# Limits -------------------------------------------------------------------------------------------


def test_too_many_rejects_fail_the_run_with_the_first_ten_and_the_whole_list(
    write, run_text, tmp_path
):
    rows = "".join(f"{n}\n" if n % 4 == 0 else f"{n},1\n" for n in range(60))
    base = write(tmp_path / "in", {"t.csv": f"text,n\n{rows}"})
    with pytest.raises(InputError) as error:
        run_text(base, tmp_path / "out", max_reject_fraction=0.2)
    message = str(error.value)
    assert "15 of 60 inputs were rejected (15 WRONG_COLUMNS)" in message
    assert "max_reject_fraction=0.2" in message
    assert message.count("t.csv:") == 10
    listed = tmp_path / "out.rejects.jsonl"
    assert str(listed) in message
    assert len(listed.read_text().splitlines()) == 15
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert run_text(base, tmp_path / "more", max_reject_fraction=0.25).counts()["rejected"] == 15


def test_one_reject_of_a_hundred_is_allowed_unless_none_is(convert):
    text = "text,n\nbad\n" + "a,1\n" * 99
    assert convert({"t.csv": text}).counts() == {
        "found": 100,
        "written": 99,
        "rejected": 1,
        "skipped": 0,
    }
    with pytest.raises(InputError, match="1 of 100 inputs"):
        convert({"t.csv": text}, max_reject_fraction=0)


def test_what_is_not_there_is_named(run_text, tmp_path):
    with pytest.raises(InputError, match=r"input_base.*missing"):
        run_text(tmp_path / "missing", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"input_base.*empty"):
        run_text(tmp_path / "empty", tmp_path / "out")


# Files that cannot be read, or are exchanged ------------------------------------------------------


def refuse(monkeypatch, name: str, *, after: int = 0) -> None:
    """Has the system refuse to open a file, after it was opened some times."""
    real, calls = os.open, itertools.count()

    def opened(path: Any, *args: Any, **more: Any) -> int:
        if str(path).endswith(name) and next(calls) >= after:
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "csv.gz", "parquet"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_table_that_cannot_be_read_is_one_reject(convert, monkeypatch, suffix, after):
    """Whether that turns out when it is looked at, when it is cut, or when its rows are read."""
    good = {
        "csv": b"text\none\n",
        "tsv": b"text\none\n",
        "jsonl": b'{"text": "one"}\n',
        "csv.gz": gzip.compress(b"text\none\n"),
        "parquet": parquet_of({"text": ["one"]}),
    }
    if (suffix, after) == ("csv.gz", 2):
        pytest.skip("what is read then is its copy")
    refuse(monkeypatch, f"b.{suffix}", after=after)
    files = {f"{name}.{suffix}": good[suffix] for name in "abc"}
    dataset = convert(files, max_reject_fraction=0.5, layout=suffix.removesuffix(".gz"))
    (line,) = dataset.rejects
    assert (line["source"].split(":")[0], line["code"]) == (f"b.{suffix}", "UNREADABLE")
    assert dataset.counts() == {"found": 3, "written": 2, "rejected": 1, "skipped": 0}


def test_where_no_table_can_be_read_the_first_is_named(convert, monkeypatch):
    refuse(monkeypatch, ".csv")
    with pytest.raises(InputError, match=r"'a.csv': expected a table, got Permission denied"):
        convert({"a.csv": "text\none\n", "b.csv": "text\ntwo\n"})


PACKED = {
    "gzip": gzip.compress(b"some text", mtime=0),
    "bzip2": bz2.compress(b"some text"),
    "xz": lzma.compress(b"some text"),
    "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_packed_file_among_texts_is_rejected_as_what_it_is(convert, packing):
    files = {"a/1.txt": "text", "b/2.txt": "text", "b/3.dat": PACKED[packing]}
    dataset = convert(files, max_reject_fraction=1.0)
    (line,) = dataset.rejects
    assert (line["source"], line["code"]) == ("b/3.dat", "UNSUPPORTED_FORMAT")
    assert packing in line["detail"]
    dataset.check_accounting()


def test_a_text_that_begins_as_packed_files_do_is_a_text(convert):
    dataset = convert({"a/1.txt": "%PDF-1.7 is a mark", "b/2.txt": "BZh"})
    assert dataset.counts()["written"] == 2


HALF = {
    "a key of an entry": ("a.json", b'{"\\ud800": {"text": "x"}, "b": {"text": "y"}}'),
    "a key in an entry": ("a.json", b'{"a": {"\\ud800": "x"}, "b": {"text": "y"}}'),
    "a text in an entry": ("a.json", b'[{"text": "\\ud800"}, {"text": "y"}]'),
    "a key of a line": ("a.jsonl", b'{"\\ud800": "x"}\n{"text": "y"}\n'),
    "a key within a line": ("a.jsonl", b'{"text": "x", "z": {"\\ud800": 1}}\n{"text": "y"}\n'),
    "a text of a line": ("a.jsonl", b'{"text": "\\ud800"}\n{"text": "y"}\n'),
}


@pytest.mark.parametrize(("name", "data"), HALF.values(), ids=HALF)
def test_half_of_a_surrogate_pair_rejects_its_row_wherever_it_stands(convert, name, data):
    dataset = convert({name: data}, max_reject_fraction=0.5)
    assert [line["code"] for line in dataset.rejects] == ["BAD_JSON"]
    assert [*dataset.texts().values()] == ["y"]
