"""Golden tests of every layout: how it is recognised, and what becomes of its rows."""

import csv
import datetime
import gzip
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tables import pieces, transcoding
from components.tables.casting import cast_column
from components.tables.kinds import column_facts, decide_column
from trainer_utils.format import ConfigError, InputError


def parquet_of(columns: dict[str, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), stream, **options)
    return stream.getvalue()


COLUMNS: dict[str, list[Any]] = {
    "text": ["good, very", 'a "quote"\nand a line', "bad"],
    "label": ["pos", "pos", "neg"],
    "stars": [5, None, 1],
    "price": [0.5, 2.0, None],
    "tokens": [[1, 2, 3], [], [7]],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
CSV = (
    "text,label,stars,price,tokens\n"
    '"good, very",pos,5,0.5,"[1, 2, 3]"\n'
    '"a ""quote""\nand a line",pos,,2,[]\n'
    "bad,neg,1,,[7]\n"
)
TSV = (
    "text\tlabel\tstars\tprice\ttokens\n"
    "good, very\tpos\t5\t0.5\t[1, 2, 3]\n"
    '"a ""quote""\nand a line"\tpos\t\t2\t[]\n'
    "bad\tneg\t1\t\t[7]\n"
)
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)
KEYED = {
    str(number): {
        "text": row["text"],
        "label": {name: row[name] for name in row if name != "text"},
    }
    for number, row in enumerate(ROWS, 1)
}
TABLES = {
    "csv": ("t.csv", CSV.encode()),
    "tsv": ("t.tsv", TSV.encode()),
    "jsonl": ("t.jsonl", JSONL.encode()),
    "parquet": ("t.parquet", parquet_of(COLUMNS)),
    "json": ("t.json", json.dumps(KEYED).encode()),
}
EXPECTED = {
    1: {
        "text": [b"good, very"],
        "label": [1],
        "stars": [5],
        "price": [0.5],
        "tokens": [1, 2, 3],
    },
    2: {"text": [b'a "quote"\nand a line'], "label": [1], "price": [2.0]},
    3: {"text": [b"bad"], "label": [0], "stars": [1], "tokens": [7]},
}


def numbered(name: str, rows: dict[int, Any]) -> dict[str, Any]:
    return {f"{name}:{number}": row for number, row in rows.items()}


# Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"layout": True}, {"base": True}], ids=str)
@pytest.mark.parametrize("layout", TABLES)
def test_a_table_gives_an_example_a_row(convert, layout, given):
    name, data = TABLES[layout]
    words = {"layout": layout, "base": name}
    dataset = convert({name: data}, **{setting: words[setting] for setting in given})
    assert dataset.by_id() == numbered(name, EXPECTED)
    assert dataset.vocabulary() == ["neg", "pos"]
    assert dataset.counts() == {"found": 3, "written": 3, "rejected": 0, "skipped": 0}
    assert dataset.manifest["split_order"] == ["train", "eval"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("layout", ["csv", "tsv", "jsonl", "json"])
def test_files_may_be_as_windows_writes_them(convert, layout, mark):
    name, data = TABLES[layout]
    dataset = convert({name: mark + data.replace(b"\n", b"\r\n")})
    rows = {**EXPECTED}
    if layout in ("csv", "tsv"):  # the quoted line break stays what it is in the file
        rows[2] = {**EXPECTED[2], "text": [b'a "quote"\r\nand a line']}
    assert dataset.by_id() == numbered(name, rows)


@pytest.mark.parametrize("layout", ["csv", "tsv", "jsonl", "json"])
def test_a_file_may_be_compressed(convert, layout):
    name, data = TABLES[layout]
    dataset = convert({f"{name}.gz": gzip.compress(data[:9]) + gzip.compress(data[9:])})
    assert dataset.by_id() == numbered(f"{name}.gz", EXPECTED)


ENCODINGS = {
    "utf-16": "Straße, 東京, 😀",
    "utf-16-le": "Straße, 東京, 😀",
    "utf-32": "Straße, 東京, 😀",
    "latin-1": "Straße",
    "cp1252": "“Straße” 5 €",
    "shift_jis": "東京、表示",
    "gb18030": "北京",
    "utf-8": "Straße, 東京, 😀",
}


@pytest.mark.parametrize(
    ("layout", "encoding"),
    [
        *(("csv", encoding) for encoding in ENCODINGS),
        *((layout, "utf-16") for layout in ("tsv", "jsonl", "json", "lines", "folder")),
        ("lines", "cp1252"),
        ("folder", "shift_jis"),
    ],
)
def test_a_file_may_be_in_another_encoding(convert, monkeypatch, encoding, layout):
    monkeypatch.setattr(transcoding, "_BLOCK_BYTES", 3)  # in the midst of characters
    text = ENCODINGS[encoding]
    files = {
        "csv": ("t.csv", f'text,label\n"{text}",a\n'),
        "tsv": ("t.tsv", f"text\tlabel\n{text}\ta\n"),
        "jsonl": ("t.jsonl", json.dumps({"text": text, "label": "a"}, ensure_ascii=False)),
        "json": ("t.json", json.dumps({"1": {"text": text, "label": "a"}}, ensure_ascii=False)),
        "lines": ("t.txt", text + "\n"),
        "folder": ("a/t.txt", text),
    }
    name, content = files[layout]
    base = name if layout == "lines" else ""
    dataset = convert({name: content.encode(encoding)}, base=base, encoding=encoding)
    (row,) = dataset.by_id().values()
    assert row["text"] == [text.encode()]
    assert not dataset.rejects


def test_the_first_row_names_the_columns_whatever_stands_round_it(convert):
    dataset = convert({"t.csv": '\n\r\n text ,"the ""best"" label",größe\na,b,1\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"text": [b"a"], 'the "best" label': [b"b"], "größe": [1]}
    }


@pytest.mark.parametrize("delimiter", [";", "\t", " ", "\x01"])
def test_a_table_may_have_any_delimiter(convert, delimiter):
    text = f'text{delimiter}n\n"a{delimiter}b"{delimiter}1\nc,d{delimiter}2\n'
    dataset = convert({"t.csv": text}, delimiter=delimiter)
    assert dataset.by_id() == {
        "t.csv:1": {"text": [f"a{delimiter}b".encode()], "n": [1]},
        "t.csv:2": {"text": [b"c,d"], "n": [2]},
    }


def test_column_names_stand_for_a_header(convert):
    dataset = convert({"t.csv": "good,pos\nbad,neg\n"}, column_names=["review", "label"])
    assert dataset.by_id() == {
        "t.csv:1": {"review": [b"good"], "label": [1]},
        "t.csv:2": {"review": [b"bad"], "label": [0]},
    }


def test_a_table_without_a_known_ending_is_read_as_the_layout_says(convert):
    data = "ham\tGo until jurong\nspam\tFree entry\n"
    dataset = convert({"SMSSpamCollection": data}, layout="tsv", column_names=["label", "text"])
    assert dataset.by_id() == {
        "SMSSpamCollection:1": {"label": [0], "text": [b"Go until jurong"]},
        "SMSSpamCollection:2": {"label": [1], "text": [b"Free entry"]},
    }


def test_blank_lines_of_a_table_are_no_rows(convert):
    dataset = convert({"t.csv": "text,n\n\na,1\n\r\n\nb,2\n\n"})
    assert dataset.texts() == {"t.csv:1": "a", "t.csv:2": "b"}


def test_an_empty_field_is_missing_and_a_quoted_one_is_an_empty_text(convert):
    dataset = convert({"t.csv": 'a,b,n\n,x,1\n"",y,2\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"b": [b"x"], "n": [1]},
        "t.csv:2": {"a": [b""], "b": [b"y"], "n": [2]},
    }


def test_words_that_elsewhere_mean_missing_are_words(convert):
    words = ["NA", "null", "NULL", "None", "N/A", "true", "nope"]
    dataset = convert({"t.csv": "text,n\n" + "".join(f"{word},1\n" for word in words)})
    assert sorted(dataset.texts().values()) == sorted(words)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_last_row_needs_no_line_end(convert, end):
    assert convert({"t.csv": f"text,n\na,1{end}"}).texts() == {"t.csv:1": "a"}
    assert convert({"t.jsonl": f'{{"text": "a"}}{end}'}).texts() == {"t.jsonl:1": "a"}
    assert convert({"train.txt": f"a{end}"}).texts() == {"train.txt:1": "a"}


def test_quotes_inside_an_unquoted_field_are_characters_of_it(convert):
    dataset = convert({"t.csv": 'text,n\n5" disk,1\nsay "a, b" 2,x\n'}, max_reject_fraction=0.5)
    assert dataset.texts() == {"t.csv:1": '5" disk'}


# Types --------------------------------------------------------------------------------------------


def as_typed(values: list[Any]) -> list[Any]:
    """Values with their types: 1 and 1.0 are not the same."""
    return [v and [(type(part).__name__, part) for part in v] for v in values]


def check_columns(rows: dict[str, Any], columns: dict[str, tuple[list[Any], list[Any]]]) -> None:
    """Each of some columns, whose values were written one below the other, is as expected."""
    found = {
        name: [row.get(name) for row in list(rows.values())[: len(expected)]]
        for name, (_, expected) in columns.items()
    }
    assert {name: as_typed(values) for name, values in found.items()} == {
        name: as_typed(expected) for name, (_, expected) in columns.items()
    }


def in_order(rows: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(rows.items(), key=lambda item: int(item[0].rpartition(":")[2])))


def as_rows(columns: dict[str, tuple[list[Any], list[Any]]]) -> list[dict[str, Any]]:
    """The values of columns as rows; those of short columns are missing at the end."""
    count = max(len(values) for values, _ in columns.values())
    padded = {
        name: [*values, *[None] * (count - len(values))] for name, (values, _) in columns.items()
    }
    return [{"n": row} | {name: padded[name][row] for name in padded} for row in range(count)]


TINY = float(np.float32(1e-5))
TEXT_COLUMNS: dict[str, tuple[list[str], list[Any]]] = {
    "ints": (["1", "-2", "0", "40"], [[1], [-2], [0], [40]]),
    "wide": (["9223372036854775807", "-9223372036854775808"], [[2**63 - 1], [-(2**63)]]),
    "exact": (["9007199254740993", "1"], [[2**53 + 1], [1]]),
    "late float": (["1", "2", "3", "2.5"], [[1.0], [2.0], [3.0], [2.5]]),
    "floats": (["1", "1e3", "-0.50", "1e-05"], [[1.0], [1000.0], [-0.5], [TINY]]),
    "infinite": (["1.5", "inf", "-inf"], [[1.5], [float("inf")], [float("-inf")]]),
    "too wide for ints": (["9223372036854775808", "0.5"], [[b"9223372036854775808"], [b"0.5"]]),
    "words": (["a", "2", "b"], [[b"a"], [b"2"], [b"b"]]),
    "int lists": (["[1, 2]", "[]", "[-3]"], [[1, 2], None, [-3]]),
    "float lists": (["[1, 2.5]", "[3]"], [[1.0, 2.5], [3.0]]),
    "almost lists": (["[1", "[2]"], [[b"[1"], [b"[2]"]]),
    "text lists": (['["a", "b"]', '["c"]'], [[b"a", b"b"], [b"c"]]),
    "times": (["2020-01-02", "2020-01-02 03:04"], [[b"2020-01-02"], [b"2020-01-02 03:04"]]),
    "booleans": (["true", "False"], [[b"true"], [b"False"]]),
}


@pytest.mark.parametrize("layout", ["csv", "json"])
def test_a_column_of_texts_is_what_all_of_its_values_are(convert, layout):
    rows = as_rows(TEXT_COLUMNS)
    if layout == "csv":
        stream = io.StringIO(newline="")
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        data = stream.getvalue()
    else:
        data = json.dumps({number: {"label": row} for number, row in enumerate(rows)})
    check_columns(in_order(convert({f"t.{layout}": data}).by_id()), TEXT_COLUMNS)


# Texts that some reader of numbers takes, but that no program writes for a number.
CODES = [
    *("08123", "007", "-01", "00", "+5", " 5 ", "5 ", "\u00a05", "1_000", "1,000", "0x10", "0b1"),
    *("1e5", "12E3", "nan", "NaN", "inf", "Infinity", "-0", ".5", "5.", "+0.5", "00.5", "1.2.3"),
    *(
        "9223372036854775808",
        "-9223372036854775809",
        "\uff11\uff12",
        "\u0663",
        "555-1234",
        "2020-01-02",
    ),
]


@pytest.mark.parametrize("code", CODES)
def test_what_would_not_be_written_so_again_is_text_and_so_is_its_whole_column(convert, code):
    values = ["12", code, "7", "-40"]
    expected = {n: {"m": [n], "x": [value.encode()]} for n, value in enumerate(values, 1)}
    rows = [{"m": n, "x": value} for n, value in enumerate(values, 1)]
    tables = {
        "t.csv": "m,x\n" + "".join(f'{row["m"]},"{row["x"]}"\n' for row in rows),
        "t.tsv": "m\tx\n" + "".join(f"{row['m']}\t{row['x']}\n" for row in rows),
        "t.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "t.json": json.dumps(rows),
        "t.parquet": parquet_of({"m": [1, 2, 3, 4], "x": values}),
    }
    for name, data in tables.items():
        dataset = convert({name: data})
        assert dataset.by_id() == numbered(name, expected), name
        assert dataset.features["x"]["type"] == "string"


@pytest.mark.parametrize("parts", ["007", "1, 02", "+1", "1_000", "0x10", "1e5", "1, 1.e5"])
def test_lists_of_codes_are_texts(convert, parts):
    rows = convert({"t.csv": f'm,x\n1,"[{parts}]"\n2,"[3]"\n'}).by_id()
    assert rows == numbered(
        "t.csv", {1: {"m": [1], "x": [f"[{parts}]".encode()]}, 2: {"m": [2], "x": [b"[3]"]}}
    )


def test_a_code_in_a_later_piece_keeps_the_earlier_numbers_as_they_stand(convert, monkeypatch):
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", 1)
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", 8)
    values = ["12", "7", "1.50", "3", "08123", "5"]
    text = "text,zip\n" + "".join(f"a,{value}\n" for value in values)
    assert sorted(convert({"t.csv": text}).texts("zip").values()) == sorted(values)


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_as_python_writes_it_is_one_in_lists_and_in_tables(number):
    text = repr(number)
    kind = "int" if isinstance(number, int) else "float"
    for values in ([text], [text, "1" if kind == "int" else "0.25"]):
        facts = column_facts(pa.array(values), np.arange(len(values)), are_texts=True)
        decided = decide_column("x", [(0, facts)], given=None, is_text=False, place=lambda *_: "")
        assert decided is not None
        assert decided.kind == kind
        read = cast_column(pa.array(values), decided, floats=pa.float64())
        assert read[0].as_py() == number


@given(st.text(st.sampled_from("0123456789+-_.,eExn aif \uff11\u0663"), min_size=1, max_size=8))
def test_what_is_taken_for_a_number_can_be_written_again_as_it_was(text):
    """Python's own reading is the truth: a number that it reads, and writes in the same way."""
    facts = column_facts(pa.array([text]), np.arange(1), are_texts=True)
    decided = decide_column("x", [(0, facts)], given=None, is_text=False, place=lambda *_: "")
    assert decided is not None
    if decided.kind == "int":
        assert str(int(text)) == text
    elif decided.kind == "float":
        assert "." in text or "e-" in text.lower() or "e+" in text.lower()
        whole = text.lower().partition("e")[0].partition(".")[0]
        assert whole in ("-0", str(int(whole)))


# What Arrow's reader takes for what it is, or for something near.
JSON_COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "mixed numbers": ([1, 2.5], [[1.0], [2.5]]),
    "exact": ([2**53 + 1, -(2**53) - 1], [[2**53 + 1], [-(2**53) - 1]]),
    "wide": ([2**63 - 1, -(2**63)], [[2**63 - 1], [-(2**63)]]),
    "booleans": ([True, False, None], [[1], [0], None]),
    "boolean lists": ([[True, False], []], [[1, 0], None]),
    "days": (["2020-01-02", "2021-12-31"], [[b"2020-01-02"], [b"2021-12-31"]]),
    "times": (["2020-01-02T03:04:05", None], [[b"2020-01-02T03:04:05"], None]),
    "spaced": (["2020-01-02 03:04:05.678Z"], [[b"2020-01-02 03:04:05.678Z"]]),
    "lists of days": ([["2020-01-02"], []], [[b"2020-01-02"], None]),
    "texts of digits": (["1", "2"], [[b"1"], [b"2"]]),
    "texts like lists": (["[1]", "[2]"], [[b"[1]"], [b"[2]"]]),
    "late list": ([[], [1]], [None, [1]]),
    "late number": ([None, None, 3], [None, None, [3]]),
    "escapes": (["\U0001f600", "é", '"\\\n'], [["😀".encode()], ["é".encode()], [b'"\\\n']]),
}
# And what it cannot read, or not exactly.
MIXED_COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "number first": ([1, "a"], [[b"1"], [b"a"]]),
    "text first": (["a", 1.5], [[b"a"], [b"1.5"]]),
    "list first": ([[1], 2], [[1], [2]]),
    "large int among floats": ([[1, 2.5], [2**60]], [[1.0, 2.5], [2.0**60]]),
    "past 32 bits": ([1e300, 0.5], [[float("inf")], [0.5]]),
    "nul": (["\0", "a\u0000b"], [[b"\0"], [b"a\0b"]]),
    "infinite": ([float("inf"), -float("inf")], [[float("inf")], [-float("inf")]]),
}


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        (JSON_COLUMNS, "\n"),
        (JSON_COLUMNS, "\n\n"),  # which Arrow is not asked to count
        *(({name: column}, "\n") for name, column in MIXED_COLUMNS.items()),
        (JSON_COLUMNS | MIXED_COLUMNS, "\n"),
    ],
    ids=["plain", "blank lines", *MIXED_COLUMNS, "all"],
)
def test_a_field_of_lines_of_json_is_what_all_of_its_values_are(convert, columns, end):
    lines = "".join(json.dumps(row) + end for row in as_rows(columns))
    check_columns(in_order(convert({"t.jsonl": lines}).by_id()), columns)


def test_empty_lists_say_nothing_of_what_a_column_holds(convert, monkeypatch):
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", 1)  # a piece a row
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", 1)
    expected = {1: {"n": [1]}, 2: {"n": [2]}, 3: {"n": [3], "x": [b"a"]}, 4: {"n": [4]}}
    csv_text = 'n,x\n1,[]\n2,[]\n3,"[""a""]"\n4,\n'
    assert convert({"t.csv": csv_text}).by_id() == numbered("t.csv", expected)
    values = [[], [], ["a"], None]
    lines = "".join(json.dumps({"n": n, "x": value}) + "\n" for n, value in enumerate(values, 1))
    assert convert({"t.jsonl": lines}).by_id() == numbered("t.jsonl", expected)


DAY = datetime.datetime(2020, 1, 2, 3, 4, 5)
PARQUET_COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "bytes": (pa.array([1, None, 255], pa.uint8()), [[1], None, [255]]),
    "wide": (pa.array([2**63 - 1, 0, None], pa.uint64()), [[2**63 - 1], [0], None]),
    "booleans": (pa.array([True, None, False]), [[1], None, [0]]),
    "floats": (pa.array([0.5, None, 1], pa.float32()), [[0.5], None, [1.0]]),
    "doubles": (pa.array([0.1, None, 1e300]), [[np.float32(0.1)], None, [float("inf")]]),
    "dictionary": (pa.array(["a", "b", None]).dictionary_encode(), [[b"a"], [b"b"], None]),
    "binary": (pa.array([b"\xff\0", b"", None]), [[b"\xff\0"], [b""], None]),
    "fixed binary": (pa.array([b"ab", b"cd", None], pa.binary(2)), [[b"ab"], [b"cd"], None]),
    "days": (pa.array([DAY.date(), None, None]), [[b"2020-01-02"], None, None]),
    "times": (
        pa.array([DAY, None, DAY]),
        [[b"2020-01-02T03:04:05"], None, [b"2020-01-02T03:04:05"]],
    ),
    "lists": (pa.array([[1, 2], None, []], pa.list_(pa.int32())), [[1, 2], None, None]),
    "fixed lists": (
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
        [[1, 2], [3, 4], [5, 6]],
    ),
    "text lists": (pa.array([["a"], ["b", "c"], None]), [[b"a"], [b"b", b"c"], None]),
    "digits": (pa.array(["1", "2", None]), [[b"1"], [b"2"], None]),
}


@pytest.mark.parametrize(
    "names", [["fixed lists"], sorted({*PARQUET_COLUMNS} - {"fixed lists"})], ids=len
)
def test_a_column_of_parquet_keeps_its_type(convert, names):
    columns = {name: PARQUET_COLUMNS[name] for name in names}
    data = parquet_of({name: array for name, (array, _) in columns.items()})
    rows = in_order(convert({"t.parquet": data}).by_id())
    found = {name: [row.get(name) for row in rows.values()] for name in names}
    assert found == {name: expected for name, (_, expected) in columns.items()}


@pytest.mark.parametrize("values", [[[1, None], [2]], [["a"], [None, "b"]]], ids=str)
@pytest.mark.parametrize("layout", ["jsonl", "parquet", "json"])
def test_a_value_that_is_missing_in_a_list_is_an_error_that_names_the_column(
    convert, layout, values
):
    data = {
        "jsonl": "".join(json.dumps({"n": 1, "x": value}) + "\n" for value in values),
        "parquet": parquet_of({"n": [1, 2], "x": values}),
        "json": json.dumps({n: {"label": {"x": value}} for n, value in enumerate(values)}),
    }
    with pytest.raises(InputError, match="column 'x'"):
        convert({f"t.{layout}": data[layout]})


def test_nested_objects_become_features_with_dots(convert):
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
        # A number where there are texts elsewhere makes Arrow give up.
        "t2.jsonl": "".join(json.dumps(row) + "\n\n" for row in rows).encode(),
        "t.json": json.dumps(dict(enumerate(rows, 1))).encode(),
        "t.parquet": parquet_of({name: [row[name] for row in rows] for name in rows[0]}),
    }
    for name, data in files.items():
        assert convert({name: data}).by_id() == numbered(name, expected), name


def test_what_a_column_is_may_be_said(convert):
    text = "words,stars,zip,code,note,mood\na,1,007,5,x,1\nb,2,123,6,y,2\n"
    kinds = {
        "words": "text",
        "stars": "float",
        "zip": "string",
        "code": "label",
        "note": "ignore",
    }
    dataset = convert({"t.csv": text}, columns=kinds, lowercase=True)
    assert dataset.by_id() == {
        "t.csv:1": {
            "words": [b"a"],
            "stars": [1.0],
            "zip": [b"007"],
            "code": [0],
            "mood": [1],
        },
        "t.csv:2": {
            "words": [b"b"],
            "stars": [2.0],
            "zip": [b"123"],
            "code": [1],
            "mood": [2],
        },
    }
    assert dataset.vocabulary("code") == ["5", "6"]


def test_a_label_that_is_a_number_stays_it_and_one_that_is_a_word_gets_an_id(convert):
    numbers = convert({"t.csv": "text,label\na,4\nb,-1\n"})
    assert [row["label"] for row in numbers.by_id().values()] in ([[4], [-1]], [[-1], [4]])
    assert not (numbers.uri / "vocab").exists()
    words = convert({"t.csv": "text,label\na,é\nb,z\nc,Z\n"})
    assert words.vocabulary() == ["Z", "z", "é"]
    assert words.labels() == {"t.csv:1": "é", "t.csv:2": "z", "t.csv:3": "Z"}


def test_lists_of_labels_become_lists_of_ids(convert):
    rows = [{"text": "a", "labels": ["x", "y"]}, {"text": "b", "labels": ["y"]}]
    dataset = convert({"t.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    assert dataset.vocabulary("labels") == ["x", "y"]
    assert {name: row["labels"] for name, row in dataset.by_id().items()} == {
        "t.jsonl:1": [0, 1],
        "t.jsonl:2": [1],
    }


def test_a_column_called_id_is_kept_beside_the_lineage(convert):
    dataset = convert({"t.csv": "id,text\n17,a\n18,b\n"})
    assert dataset.by_id(key="record_id") == {
        "t.csv:1": {"id": [17], "text": [b"a"]},
        "t.csv:2": {"id": [18], "text": [b"b"]},
    }


def test_the_features_are_described_as_datum_describes_them(convert):
    dataset = convert({"t.jsonl": JSONL})
    described = {
        name: {key: entry[key] for key in ("type", "shape", "dense")}
        for name, entry in dataset.features.items()
    }
    assert described == {
        "id": {"type": "string", "shape": [], "dense": True},
        "text": {"type": "string", "shape": [], "dense": True},
        "label": {"type": "int", "shape": [], "dense": True},
        "stars": {"type": "int", "shape": [1], "dense": False},
        "price": {"type": "float", "shape": [1], "dense": False},
        "tokens": {"type": "int", "shape": [3], "dense": False},
    }


# Keyed JSON ---------------------------------------------------------------------------------------


def test_the_keyed_form_has_a_feature_for_every_label(convert):
    entries = {
        "1": {"text": "I am the one", "label": {"polarity": 1, "topic": "self"}},
        "n": {"text": "Such a day", "label": {"polarity": 2, "topic": "weather"}},
    }
    dataset = convert({"train.json": json.dumps(entries)})
    assert dataset.splits.keys() == {"train"}
    assert dataset.by_id() == {
        "train.json:1": {"text": [b"I am the one"], "polarity": [1], "topic": [b"self"]},
        "train.json:n": {"text": [b"Such a day"], "polarity": [2], "topic": [b"weather"]},
    }


def test_a_split_of_keyed_json_may_have_several_files(convert):
    files = {
        f"{name}.json": json.dumps({"1": {"text": name, "label": {"polarity": 0}}})
        for name in ("train", "train_2", "train-00001", "val", "test.part")
    }
    dataset = convert(files)
    assert dataset.split_of() == {
        "train.json:1": "train",
        "train_2.json:1": "train",
        "train-00001.json:1": "train",
        "val.json:1": "eval",
        "test.part.json:1": "test",
    }


def test_keyed_json_may_be_a_list(convert):
    dataset = convert({"t.json": '[{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]'})
    assert dataset.texts() == {"t.json:1": "a", "t.json:2": "b"}
    assert dataset.vocabulary() == ["x", "y"]


def test_keyed_json_may_be_a_line_an_entry(convert):
    text = '{"1": {"text": "a", "label": {"p": 1}},\n "2": {"text": "b", "label": {"p": 2}}}'
    assert convert({"t.json": text}).texts() == {"t.json:1": "a", "t.json:2": "b"}


@pytest.mark.parametrize("rows", [1, 2])
def test_lines_of_json_may_be_called_json(convert, rows):
    text = "".join(json.dumps({"text": f"t{n}", "n": n}) + "\n" for n in range(1, rows + 1))
    assert convert({"t.json": text}).texts() == {f"t.json:{n}": f"t{n}" for n in range(1, rows + 1)}


# Lines and files ----------------------------------------------------------------------------------


def test_lines_are_examples_and_blank_ones_are_skipped(convert):
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


@pytest.mark.parametrize("name", ["book.txt", "book", "book.log", "book.txt.gz"])
@pytest.mark.parametrize("settings", [{}, {"layout": "lines"}], ids=["auto", "forced"])
def test_one_file_of_text_is_read_as_lines(convert, name, settings):
    data = b"a\nb\n"
    files = {name: gzip.compress(data) if name.endswith(".gz") else data}
    dataset = convert(files, base=name, **settings)
    assert dataset.texts() == {f"{name}:1": "a", f"{name}:2": "b"}


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


@pytest.mark.parametrize(
    ("expected", "settings"),
    [(FOLDERS[name], {}) for name in FOLDERS] + [(FOLDERS["split"], {"layout": "folder"})],
    ids=[*FOLDERS, "forced"],
)
def test_folders_give_split_and_label_of_each_file(convert, expected, settings):
    files = {name: f"Text of {name}.\r\nAnd more. \n" for name in expected}
    dataset = convert(files, **settings)
    assert dataset.texts() == files
    splits = dataset.split_of()
    assert all(splits[name] == split for name, (split, _) in expected.items() if split)
    if any(label for _, label in expected.values()):
        assert dataset.labels() == {name: label for name, (_, label) in expected.items()}


def test_a_byte_order_mark_is_no_part_of_a_file_s_text(convert):
    assert convert({"a/1.txt": "\ufeffText"}).texts() == {"a/1.txt": "Text"}


def test_hidden_files_are_skipped_and_strays_are_rejected(convert):
    files = {"train/pos/1.txt": "a", "test/neg/1.txt": "b", "train/pos/.hidden": "x"}
    strays = {"imdb.vocab": "the", "train/urls_pos.txt": "http://"}
    dataset = convert({**files, **strays}, max_reject_fraction=0.5)
    assert dataset.labels() == {"train/pos/1.txt": "pos", "test/neg/1.txt": "neg"}
    assert {line["source"]: line["code"] for line in dataset.rejects} == {
        "imdb.vocab": "NO_SPLIT",
        "train/urls_pos.txt": "NO_LABEL",
    }
    assert dataset.counts() == {"found": 5, "written": 2, "rejected": 2, "skipped": 1}


def test_file_names_may_be_any(convert, tmp_path, run_text):
    (tmp_path / "in/a").mkdir(parents=True)
    names = ["größe.txt", "a\nb.txt", "caf\udce9.txt"]
    for name in names:
        (tmp_path / "in/a" / name).write_text("x")
    dataset = run_text(tmp_path / "in", tmp_path / "out")
    assert dataset.by_id().keys() == {f"a/{name}" for name in names}


# Splits -------------------------------------------------------------------------------------------

ONE = "text,n\na,1\n"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train.csv", "val.csv", "test.csv"], ["train", "eval", "test"]),
        (["Train.csv", "validation-00000-of-00001.csv"], ["train", "eval"]),
        (["train_1.csv", "train 2.csv", "dev.part.csv"], ["train", "train", "eval"]),
        (["train/a.csv", "train/b.csv", "valid/a.csv"], ["train", "train", "eval"]),
        (["test.csv"], ["test"]),
    ],
    ids=str,
)
def test_files_and_folders_named_after_splits_are_these(convert, names, expected):
    dataset = convert(dict.fromkeys(names, ONE))
    assert dataset.split_of() == {f"{n}:1": s for n, s in zip(names, expected, strict=True)}


@pytest.mark.parametrize("names", [["test_scores.csv"], ["a.csv", "b.csv"], ["trainings.csv"]])
def test_other_names_leave_the_splits_to_the_hash(convert, names):
    dataset = convert(dict.fromkeys(names, ONE))
    assert dataset.manifest["split_order"] == ["train", "eval"]
    assert dataset.by_id().keys() == {f"{name}:1" for name in names}


def test_a_column_names_each_row_s_split(convert):
    words = ["TRAIN", "validation", "Test", "", "unassigned"]
    rows = "".join(f"t{n},{word}\n" for n, word in enumerate(words))
    dataset = convert({"t.csv": f"text,split\n{rows}"})
    splits = dataset.split_of()
    assert {n: splits[f"t.csv:{n}"] for n in (1, 2, 3)} == {1: "train", 2: "eval", 3: "test"}
    assert {splits["t.csv:4"], splits["t.csv:5"]} <= {"train", "eval"}
    assert all(row.keys() == {"text"} for row in dataset.by_id().values())


def test_a_column_of_another_name_may_name_the_splits(convert):
    dataset = convert({"t.csv": "text,part\na,train\nb,dev\n"}, columns={"part": "split"})
    assert dataset.split_of() == {"t.csv:1": "train", "t.csv:2": "eval"}


def test_a_column_called_split_may_be_another_thing(convert):
    dataset = convert({"t.csv": "text,split\na,banana\n"}, columns={"split": "string"})
    assert dataset.by_id() == {"t.csv:1": {"text": [b"a"], "split": [b"banana"]}}


def test_a_word_that_is_no_split_is_named_with_its_row(convert):
    with pytest.raises(InputError, match=r"column 'split'.*got 'banana' \(t\.csv:2\)"):
        convert({"t.csv": "text,split\na,train\nb,banana\n"})


def test_patterns_of_input_config_are_splits(convert, input_config):
    files = {"x/one.csv": ONE, "y/two.csv": ONE, "y/three.csv": ONE, "z/four.csv": ONE}
    dataset = convert(files, input_config=input_config(good="x/*", bad="y/t*.csv"))
    assert dataset.split_of() == {
        "x/one.csv:1": "good",
        "y/two.csv:1": "bad",
        "y/three.csv:1": "bad",
    }


def test_an_input_that_two_patterns_select_is_refused(convert, input_config):
    config = input_config(a="*.csv", b="t*")
    with pytest.raises(InputError, match=r"'t\.csv'.*got two"):
        convert({"t.csv": ONE, "u.csv": ONE}, input_config=config)


def test_files_of_one_kind_may_have_other_columns(convert):
    dataset = convert({"a.csv": "text,n\nx,1\n", "b.csv": "m,text\n2.5,y\n"})
    assert dataset.by_id() == {
        "a.csv:1": {"text": [b"x"], "n": [1]},
        "b.csv:1": {"text": [b"y"], "m": [2.5]},
    }


# What is not recognised ---------------------------------------------------------------------------


def test_tables_of_two_kinds_are_refused_unless_one_is_chosen(convert):
    files = {"a.csv": ONE, "b.jsonl": '{"text": "j"}\n'}
    with pytest.raises(InputError, match=r"a\.csv and b\.jsonl.*layout='csv'"):
        convert(files)
    assert convert(files, layout="jsonl").texts() == {"b.jsonl:1": "j"}


def test_files_of_which_only_some_are_named_after_splits_are_refused(convert):
    with pytest.raises(InputError, match=r"got 'more\.csv' beside others"):
        convert({"train.csv": ONE, "more.csv": ONE})


def test_a_layout_that_is_not_there_is_named_with_what_is(convert):
    with pytest.raises(InputError, match=r"layout='parquet', found none; at its top: t\.csv"):
        convert({"t.csv": ONE}, layout="parquet")


@pytest.mark.parametrize(
    ("files", "settings"),
    [
        ({"a/1.txt": "x"}, {"columns": {"text": "string"}}),
        ({"a/1.txt": "x"}, {"delimiter": ";"}),
        ({"t.jsonl": '{"a": 1}\n'}, {"column_names": ["a"]}),
        ({"t.txt": "x\n"}, {"delimiter": ";", "layout": "lines"}),
    ],
    ids=str,
)
def test_a_setting_for_another_layout_is_refused(convert, files, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        convert(files, **settings)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.integers(1, 9))
def test_text_is_transcoded_whole_however_it_is_read(text, block):
    for encoding in ("utf-16", "utf-8-sig", "utf-32-be"):
        target = io.BytesIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transcoding, "_BLOCK_BYTES", block)
            transcoding._copy(io.BytesIO(text.encode(encoding)), target, encoding)
        assert target.getvalue() == text.encode()
