"""Test how layouts are recognised, their rows, and the digits of numbers."""

import decimal
import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.components.tables.table_files import numbered, parquet_of
from tests.make import table
from trainer_utils.core.errors import InputError

COLUMNS: dict[str, list[Any]] = {
    "text": ["good, very", 'a "quote"\nand a line', "bad"],
    "label": ["pos", "pos", "neg"],
    "stars": [5, None, 1],
    "price": [0.5, 2.0, None],
    "tokens": [[1, 2, 3], [], [7]],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
KEYED = {
    str(number): {
        "text": row["text"],
        "label": {name: row[name] for name in row if name != "text"},
    }
    for number, row in enumerate(ROWS, 1)
}
TABLES = {
    "csv": ("t.csv", table(ROWS, "csv")),
    "tsv": ("t.tsv", table(ROWS, "csv", delimiter="\t")),
    "jsonl": ("t.jsonl", table(ROWS, "jsonl")),
    "parquet": ("t.parquet", table(ROWS, "parquet")),
    "json": ("t.json", json.dumps(KEYED).encode()),
}
EXPECTED = {
    1: {"text": [b"good, very"], "label": [1], "stars": [5], "price": [0.5], "tokens": [1, 2, 3]},
    2: {"text": [b'a "quote"\nand a line'], "label": [1], "price": [2.0]},
    3: {"text": [b"bad"], "label": [0], "stars": [1], "tokens": [7]},
}


@pytest.mark.parametrize("given", [{}, {"layout": True, "base": True}], ids=["", "told"])
@pytest.mark.parametrize("layout", TABLES)
def test_table_gives_one_example_per_row(convert, layout, given):
    name, data = TABLES[layout]
    words = {"layout": layout, "base": name}
    dataset = convert({name: data}, **{setting: words[setting] for setting in given})
    assert dataset.by_id() == numbered(name, EXPECTED)
    assert dataset.vocabulary() == ["neg", "pos"]
    assert dataset.counts() == {"found": 3, "written": 3, "rejected": 0, "skipped": 0}
    assert dataset.manifest["split_order"] == ["train", "eval"]


def test_nested_objects_become_features_with_dots(convert, subtests):
    rows = [
        {"text": "a", "user": {"name": "Ann", "home": {"lat": 1.5, "tags": [1, 2]}}, "n": 1},
        {"text": "b", "user": {"name": "Bob"}, "n": 2},
        {"text": "c", "user": None, "n": 3},
        {"text": "d", "user": {"home": {"tags": []}}, "n": 4},
    ]
    expected = {
        1: {
            "text": [b"a"],
            "user.name": [b"Ann"],
            "user.home.lat": [1.5],
            "user.home.tags": [1, 2],
            "n": [1],
        },
        2: {"text": [b"b"], "user.name": [b"Bob"], "n": [2]},
        3: {"text": [b"c"], "n": [3]},
        4: {"text": [b"d"], "n": [4]},
    }
    files = {
        "t.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        # A number in a column of strings makes Arrow's JSON reader fail.
        "t2.jsonl": "".join(json.dumps(row) + "\n\n" for row in rows).encode(),
        "t.json": json.dumps(dict(enumerate(rows, 1))).encode(),
        "t.parquet": parquet_of({name: [row[name] for row in rows] for name in rows[0]}),
    }
    for name, data in files.items():
        with subtests.test(name=name):
            assert convert({name: data}).by_id() == numbered(name, expected), name


def test_number_labels_are_kept_and_word_labels_get_an_id(convert):
    numbers = convert({"t.csv": "text,label\na,4\nb,-1\n"})
    assert [row["label"] for row in numbers.by_id().values()] in ([[4], [-1]], [[-1], [4]])
    assert not (numbers.uri / "vocab").exists()
    words = convert({"t.csv": "text,label\na,é\nb,z\nc,Z\n"})
    assert words.vocabulary() == ["Z", "z", "é"]
    assert words.labels() == {"t.csv:1": "é", "t.csv:2": "z", "t.csv:3": "Z"}


def test_lines_are_examples_and_blank_lines_are_skipped(convert):
    text = "\ufefffirst\n\n  two\tx  \r\n \t \n\x0b\nnot\x0bthree\x85lines\u2028here\nlast"
    dataset = convert({"train.txt": text, "dev.txt": "other\n"})
    assert dataset.texts() == {
        "train.txt:1": "first",
        "train.txt:3": "  two\tx  ",
        "train.txt:6": "not\x0bthree\x85lines\u2028here",
        "train.txt:7": "last",
        "dev.txt:1": "other",
    }
    assert dataset.split_of()["dev.txt:1"] == "eval"
    assert dataset.counts() == {"found": 8, "written": 5, "rejected": 0, "skipped": 3}
    assert dataset.manifest["splits"]["train"]["skipped"] == 3


def test_single_text_file_is_read_as_lines(convert, subtests):
    for name in ("book", "book.log", "book.txt.gz"):
        with subtests.test(name=name):
            files = {name: gzip.compress(b"a\nb\n") if name.endswith(".gz") else b"a\nb\n"}
            for settings in ({}, {"layout": "lines"}):
                dataset = convert(files, base=name, **settings)
                assert dataset.texts() == {f"{name}:1": "a", f"{name}:2": "b"}


ONE = "text,n\na,1\n"


def test_files_and_folders_named_like_splits_are_splits(convert, subtests):
    for names, expected in (
        (["Train.csv", "validation-00000-of-00001.csv", "test.csv"], ["train", "eval", "test"]),
        (["train_1.csv", "train 2.csv", "dev.part.csv"], ["train", "train", "eval"]),
        (["train/a.csv", "train/b.csv", "valid/a.csv"], ["train", "train", "eval"]),
        (["test.csv"], ["test"]),
        (["test_scores.csv"], ["test"]),
        (["a.csv", "trainings.csv"], None),
    ):
        with subtests.test(names=names):
            dataset = convert(dict.fromkeys(names, ONE))
            assert dataset.by_id().keys() == {f"{name}:1" for name in names}
            if expected is None:
                assert dataset.manifest["split_order"] == ["train", "eval"]
            else:
                assert [dataset.split_of()[f"{name}:1"] for name in names] == expected


LARGE = 2**53 + 1  # the first integer that is not a double
DECIMALS = ["12345678901234567.89", "0.0000001", "-1.10"]


@pytest.mark.parametrize(
    ("name", "kind"), [("t.jsonl", "string"), ("t.json", "label"), ("t.csv", "string")]
)
def test_int_among_floats_keeps_its_digits_as_a_string(convert, name, kind):
    rows = [{"text": "a", "n": LARGE}, {"text": "b", "n": 1.5}, {"text": "c", "n": -LARGE}]
    forms = {
        "t.jsonl": "\n".join(map(json.dumps, rows)),
        "t.json": json.dumps(rows),
        "t.csv": "text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in rows),
    }
    dataset = convert({name: forms[name]}, columns={"n": kind})
    found = dataset.texts("n") if kind == "string" else dataset.labels("n")
    assert sorted(found.values()) == sorted(str(row["n"]) for row in rows)


DECIMAL = [*map(decimal.Decimal, DECIMALS)]
WHOLE = [decimal.Decimal(LARGE), decimal.Decimal(-2)]
SMALL = pa.array([[decimal.Decimal("1.5")], []], pa.list_(pa.decimal128(5, 2)))
AS_NUMBERS = {
    "an int beside a float": ({"t.jsonl": f'{{"n": {LARGE}}}\n{{"n": 1.5}}\n'}, [[LARGE], [1.5]]),
    "infinity": ({"t.jsonl": '{"n": Infinity}\n{"n": 1.5}\n'}, [[float("inf")], [1.5]]),
    "decimals": (
        {"t.parquet": parquet_of({"n": pa.array([*DECIMAL, None], pa.decimal128(30, 9))})},
        [*([float(text)] for text in DECIMALS), []],
    ),
    "whole decimals": (
        {"t.parquet": parquet_of({"n": pa.array(WHOLE, pa.decimal128(20, 0))})},
        [[LARGE], [-2]],
    ),
    "decimals in lists": ({"t.parquet": parquet_of({"n": SMALL})}, [[1.5], []]),
    **{
        text: ({"t.csv": f"n,m\n1.5,1\n{text},2\n"}, [[1.5], [float(text)]])
        for text in ("3.4028234e+38", "-3.4028234e+38", "0.0000001", "1.5e-300")
    },
}


def test_number_is_rounded_to_the_nearest_value_of_its_type(convert, subtests):
    for files, numbers in AS_NUMBERS.values():
        with subtests.test(files=files):
            dataset = convert(files)
            (name,) = files
            kind = np.int64 if dataset.features["n"]["type"] == "int" else np.float32
            rows = dataset.by_id()
            for number, values in enumerate(numbers, 1):
                assert rows[f"{name}:{number}"].get("n", []) == [
                    kind(value).item() for value in values
                ]


TOO_LARGE = [
    ({"t.jsonl": '{"n": 1.5}\n{"n": 1e39}\n'}, 2),
    ({"t.jsonl": '{"n": [1.5]}\n{"n": [2.0, -1e39]}\n'}, 2),
    ({"t.csv": f"n,m\n{'9' * 40}.5,1\n1.5,2\n"}, 1),
    ({"t.csv": "n,m\n1.5,1\n1.0e+400,2\n"}, 2),
    ({"t.parquet": parquet_of({"n": [1.5, 1e300]})}, 2),
]


def test_number_that_overflows_raises_with_its_row(convert, subtests):
    for files, row in TOO_LARGE:
        with subtests.test(files=files):
            with pytest.raises(InputError, match=rf"column 'n': expected numbers.*row {row}"):
                convert(files)


FOLDERS = {
    "split and class": {
        "train/pos/1.txt": ("train", "pos"),
        "train/neg/2.txt": ("train", "neg"),
        "test/pos/0_10.txt": ("test", "pos"),
    },
    "class": {"pos/1.txt": (None, "pos"), "neg/1.txt": (None, "neg")},
    "nested below the class": {
        "train/pos/2024/1.txt": ("train", "pos"),
        "train/neg/2.txt": ("train", "neg"),
    },
    "split": {"train/1.txt": ("train", None), "dev/1.txt": ("eval", None)},
    "files alone": {"one.txt": (None, None), "two.txt": (None, None)},
    "other names": {"pos/README": (None, "pos"), "neg/mail.eml": (None, "neg")},
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_give_the_split_and_label_of_each_file(convert, case):
    expected = FOLDERS[case]
    settings = {"layout": "folder"} if case == "split" else {}
    files = {name: f"Text of {name}.\r\nAnd more. \n" for name in expected}
    dataset = convert(files, **settings)
    assert dataset.texts() == files
    splits = dataset.split_of()
    assert all(splits[name] == split for name, (split, _) in expected.items() if split)
    if any(label for _, label in expected.values()):
        assert dataset.labels() == {name: label for name, (_, label) in expected.items()}


def test_hidden_files_are_skipped_and_stray_files_rejected(convert):
    files = {"train/pos/1.txt": "a", "train/neg/2.txt": "c", "test/neg/1.txt": "b"}
    files["train/pos/.hidden"] = "x"
    strays = {"imdb.vocab": "the", "train/urls_pos.txt": "http://"}
    dataset = convert({**files, **strays}, max_reject_fraction=0.5)
    assert dataset.labels() == {
        "train/pos/1.txt": "pos",
        "train/neg/2.txt": "neg",
        "test/neg/1.txt": "neg",
    }
    assert {line["source"]: line["code"] for line in dataset.rejects} == {
        "imdb.vocab": "NO_SPLIT",
        "train/urls_pos.txt": "NO_LABEL",
    }
    assert dataset.counts() == {"found": 6, "written": 3, "rejected": 2, "skipped": 1}
