"""Delimited tables: headers, delimiters, quotes and empty fields.

The rows must equal the rows of Python's `csv` for every block size.
"""

import csv
import gc
import io
from collections.abc import Iterator
from unittest import mock

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.tables import delimited, row_ends
from components.tables.cutting import cut_table
from components.tables.delimited import judge_header
from components.tables.pieces import Piece, TableOptions
from components.tables.row_ends import CutLimits
from tests.components.tables.table_files import in_order
from trainer_utils.core.errors import InputError

NAMES = ("x", "y", "z")
HEADER = "x,y,z\n"
TOKENS = ["a", "bc", "é", "😀", ",", '"', '""', '","', '"\n"', "\n", "\r\n", "\u2028", ',"', '",']
FIELDS = st.lists(st.sampled_from([*"aé ,\n", '"', "\r\n"]), max_size=5).map("".join)
ROWS = st.lists(st.lists(FIELDS, min_size=2, max_size=4), max_size=8)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Freeze all objects: for each error, pyarrow scans every object that is not frozen."""
    gc.freeze()
    yield
    gc.unfreeze()


class OneFile:
    """Inputs with a single file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def rows_of(
    data: bytes, *, block_bytes: int, piece_bytes: int, quoting: str = "csv"
) -> list[list[str] | None]:
    """Return the fields of each row, or None for a row with too few or too many."""

    whole = Piece(path="t.csv", source="t.csv", layout="csv")
    options = TableOptions(column_names=NAMES, quoting=quoting)
    found: list[list[str] | None] = []
    with (
        mock.patch.object(row_ends, "_BLOCK_BYTES", block_bytes),
        mock.patch.object(row_ends, "LIMITS", CutLimits(piece_bytes=piece_bytes)),
    ):
        for piece in cut_table(OneFile(data), options, whole):
            rows = delimited.read(data[piece.start : piece.stop], piece)
            columns = [rows.columns[name].to_pylist() for name in NAMES] if rows.columns else []
            good = iter([list(map(as_text, row)) for row in zip(*columns, strict=True)])
            bad = {one.record for one in rows.bad}
            found += [None if n in bad else next(good) for n in range(rows.found)]
            assert next(good, None) is None
    return found


def rows_or_refusal(data: bytes, **sizes: int) -> list[list[str] | None] | str:
    try:
        return rows_of(data, **sizes)
    except InputError as error:
        return str(error)


def as_text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def expected(text: str, quoting: int = csv.QUOTE_MINIMAL) -> list[list[str] | None]:
    reader = csv.reader(io.StringIO(text, newline=""), quoting=quoting)
    return [row if len(row) == len(NAMES) else None for row in reader if row]


def written(rows: list[list[str]], end: str, quoting: int) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end, quoting=quoting).writerows(rows)
    return stream.getvalue()


SIZES = {"block": st.sampled_from([1, 2, 3, 5, 16, 1 << 20]), "piece": st.sampled_from([1, 9, 99])}
MARK = st.sampled_from(["", "\ufeff"])


@settings(deadline=None, max_examples=200)
@given(
    rows=ROWS,
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=MARK,
    **SIZES,
)
def test_output_of_python_csv_writer_is_read_unchanged(rows, end, quoting, mark, block, piece):
    text = written(rows, end, quoting)
    data = (mark + HEADER + text).encode()
    assert rows_of(data, block_bytes=block, piece_bytes=piece) == expected(text)


@settings(deadline=None, max_examples=200)
@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=40), mark=MARK, **SIZES)
def test_any_quotes_are_read_like_python_csv_or_refused(tokens, mark, block, piece):
    text = "".join(tokens)
    data = (mark + HEADER + text).encode()
    found = rows_or_refusal(data, block_bytes=block, piece_bytes=piece)
    if isinstance(found, str):
        assert "quote" in found
        assert found == rows_or_refusal(data, block_bytes=1 << 20, piece_bytes=1 << 20)
    else:
        assert found == expected(text)


@settings(deadline=None, max_examples=200)
@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=40), mark=MARK, **SIZES)
def test_without_quoting_quotes_are_ordinary_characters(tokens, mark, block, piece):
    text = "".join(tokens)
    data = (mark + HEADER + text).encode()
    found = rows_of(data, block_bytes=block, piece_bytes=piece, quoting="none")
    assert found == expected(text, csv.QUOTE_NONE)


@pytest.mark.parametrize("row", ['"Yes?" he said.,1,2', 'a,"b"c,2', '"a""b"c,1,2'])
def test_text_after_a_closing_quote_is_refused_with_a_cure(row):
    data = f"{HEADER}1,2,3\n{row}\n".encode()
    cure = r"""more text after that quote \(line 3\)\. .*quoting='none' .*--quoting none"""
    with pytest.raises(InputError, match=cure):
        rows_of(data, block_bytes=1 << 20, piece_bytes=1 << 20)
    found = rows_of(data, block_bytes=1 << 20, piece_bytes=1 << 20, quoting="none")
    assert found == [["1", "2", "3"], row.split(",")]


def test_blank_lines_and_spaces_around_the_header_are_ignored(convert):
    dataset = convert({"t.csv": '\n\r\n text ,"the ""best"" label",größe\na,b,1\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"text": [b"a"], 'the "best" label': [b"b"], "größe": [1]}
    }


@pytest.mark.parametrize("delimiter", [";", "\x01"])
def test_a_table_may_have_any_delimiter(convert, delimiter):
    text = f'text{delimiter}n\n"a{delimiter}b"{delimiter}1\nc,d{delimiter}2\n'
    dataset = convert({"t.csv": text}, delimiter=delimiter)
    assert dataset.by_id() == {
        "t.csv:1": {"text": [f"a{delimiter}b".encode()], "n": [1]},
        "t.csv:2": {"text": [b"c,d"], "n": [2]},
    }


def test_empty_field_is_missing_and_quoted_one_is_empty_string(convert):
    dataset = convert({"t.csv": 'a,b,n\n,x,1\n"",y,2\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"b": [b"x"], "n": [1]},
        "t.csv:2": {"a": [b""], "b": [b"y"], "n": [2]},
    }


# A clear header is accepted. In doubt, one question is asked, and no row is lost ------------------

# First rows of published tables, each with rows below it.
HEADERS = {
    "reviews": (["text", "label"], [["A lovely film", "pos"], ["A bore", "neg"]]),
    "IMDB": (["review", "sentiment"], [["One of the best", "positive"], ["Bad", "negative"]]),
    "capitals": (["Text Label"], [["a cat sat"], ["on the mat"]]),
    "not ASCII": (["größe", "名前", "текст"], [["klein", "太郎", "да"], ["groß", "花子", "нет"]]),
    "one column": (["text"], [["so good"], ["so bad"]]),
    "iris": (
        ["sepal length (cm)", "sepal width (cm)", "species"],
        [["5.1", "3.5", "setosa"], ["7.0", "3.2", "versicolor"]],
    ),
    "titanic": (
        ["PassengerId", "Survived", "Name", "Cabin"],
        [["1", "0", "Braund, Mr. Owen", ""], ["2", "1", "Cumings, Mrs.", "C85"]],
    ),
    "a question": (["How old are you?", "Do you like it?"], [["31", "yes"], ["45", "no"]]),
    "MNIST": (["label", "1x1", "1x2"], [["5", "0", "0"], ["0", "0", "3"]]),
    "one hot": (["comment", "toxic", "severe_toxic"], [["You", "0", "1"], ["Me", "1", "0"]]),
    "dotted": (["author.name", "author.age"], [["Ann", "3"], ["Bob", "4"]]),
    "a known name below another": (["class", "words"], [["text", "label"], ["b", "c"]]),
    "elements": (["RI", "Na", "Mg"], [["1.51", "13.64", "4.49"], ["1.52", "13.89", "3.6"]]),
    "a list of words": (["word"], [["hello"], ["world"]]),
}
ROWS = {
    "a sentence and a class": (
        ["The film was great", "pos"],
        [["A bore", "neg"], ["Nice", "pos"]],
    ),
    "a class and a sentence": (["ham", "Go until jurong point, crazy.."], [["spam", "Free entry"]]),
    "sentences of two words": (["Great film!", "up"], [["Bad film.", "down"]]),
    "one sentence alone": (["I love it"], [["I hate it"], ["So so"]]),
    "a number": (["great", "5"], [["bad", "1"]]),
    "missing values": (["NA", "x", "y"], [["1.5", "2", "3"], ["NA", "3", "4"]]),
    "numbers": (["5.1", "3.5", "1.4"], [["4.9", "3.0", "1.4"]]),
    "a missing name": (["", "text"], [["0", "a"], ["1", "b"]]),
    "the same twice": (["a", "b", "a"], [["1", "2", "3"]]),
    "numbered rows": (["r001", "great"], [["r002", "bad"], ["r003", "meh"]]),
    "urls": (["gs://bucket/a", "cat"], [["gs://bucket/b", "dog"]]),
    "a long text": (["word" * 200], [["x"]]),
    "Chinese sentences": (["我很喜欢这部电影。", "好"], [["不好看。", "坏"]]),
}


def test_headers_are_accepted_and_rows_of_values_are_not(subtests):
    for case, (first, rows) in HEADERS.items():
        with subtests.test(case=case):
            assert judge_header(first, rows)[0] is None, case
    for case, (first, rows) in ROWS.items():
        with subtests.test(case=case):
            assert judge_header(first, rows)[0] is not None, case


LINES = ["The film was great,pos\n", "A bore,neg\n", "So so,pos\n"]
FILES: dict[str, dict[str, bytes | str]] = {
    "one file": {"t.csv": "".join(LINES)},
    "TSV": {"t.tsv": "".join(LINES).replace(",", "\t")},
    "three files": {f"{n}.tsv": line.replace(",", "\t") for n, line in enumerate(LINES)},
    "split folders": {"train/a.csv": "".join(LINES[:2]), "test/b.csv": LINES[2]},
    "quoted": {"t.csv": '"The film was great","pos"\n"A bore",neg\n"So so","pos"\n'},
    "a byte order mark": {"t.csv": b"\xef\xbb\xbf" + "".join(LINES).encode()},
    "short words": {"a.csv": "great,up\n", "b.csv": "bad,down\nso so,up\n"},
}


def test_table_without_header_asks_for_names_and_keeps_all_rows(convert, subtests):
    for files in FILES.values():
        with subtests.test(files=files):
            with pytest.raises(InputError, match=r"column_names=\['text', 'label'\].*header=True"):
                convert(files)
            dataset = convert(files, column_names=["text", "label"])
            assert dataset.counts()["written"] == 3
            assert len(dataset.vocabulary()) == 2


def test_header_setting_makes_the_first_row_a_header(convert, subtests):
    for first, columns in (("text,,label", None), ("a,a,b", None), ("1,2,3", {"1", "2", "3"})):
        with subtests.test(first=first):
            files = {"t.csv": f"{first}\n0,good,pos\n1,bad,neg\n"}
            with pytest.raises(InputError):
                convert(files)
            names = [] if columns else ["number", "text", "label"]
            given = {"column_names": names} if names else {}
            dataset = convert(files, header=True, **given)
            assert dataset.counts()["written"] == 2
            assert dataset.features.keys() >= {*(columns or names)}


@pytest.mark.parametrize(
    ("delimiter", "names"),
    [
        ("\t", ("text", "n")),
        *(
            (one, names)
            for one in ";|"
            for names in [("text", "n"), ("", "text", "n"), ("", "text")]
        ),
    ],
)
def test_header_with_another_delimiter_raises(convert, delimiter, names):
    lines = [names, *([str(number)] * len(names) for number in range(3))]
    files = {"t.csv": "".join(f"{delimiter.join(line)}\n" for line in lines)}
    with pytest.raises(InputError, match="Name the delimiter") as refused:
        convert(files)
    assert f"delimiter={delimiter!r} " in str(refused.value)
    named = convert(files, delimiter=delimiter).features.keys()
    assert named >= {name or "index" for name in names}


FRAMES = {
    "numbered": pd.DataFrame({"review": ["So good", "A bore"], "stars": [5, 1]}),
    "named rows": pd.DataFrame({"mpg": [21.5, 22.8]}, index=["Mazda RX4", "Datsun 710"]),
    "a table of words": pd.DataFrame({"colour": ["red", "blue"], "mood": ["up", "down"]}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_unnamed_pandas_index_is_named_index(convert, frame):
    dataset = convert({"t.csv": frame.to_csv()})
    expected = frame.rename_axis("index").reset_index().to_dict("records")
    values = [
        {name: value.encode() if isinstance(value, str) else value for name, value in row.items()}
        for row in expected
    ]
    rows = in_order(dataset.by_id()).values()
    found = [{name: value for name, (value,) in row.items()} for row in rows]
    assert found == [pytest.approx(row) for row in values]


def test_first_row_with_empty_first_field_is_not_a_header(convert, subtests):
    for row in (",A lovely film,pos\n", ",5,3\n", ",index,5\n"):
        with subtests.test(row=row), pytest.raises(InputError, match=r"header=True"):
            convert({"t.csv": row + "1,A bore,neg\n2,Nice,pos\n"})
    dataset = convert({"t.csv": ",up,down\n1,0,0\n"}, header=True)
    assert dataset.by_id() == {"t.csv:1": {"index": [1], "up": [0], "down": [0]}}
