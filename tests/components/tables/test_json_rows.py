"""Rows of JSON: lines, documents, and the columns of objects."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainer_utils.core.errors import InputError

REPOSITORY = Path(__file__).parents[3]

# Runs in a separate process, since Arrow's JSON reader could crash it.
CRASHES = """
import json, sys
from components.tables import json_rows
from components.tables.pieces import Piece

piece = Piece(path="", source="t.jsonl", layout="jsonl")
rows = json_rows.read_lines(sys.stdin.buffer.read(), piece)
print(json.dumps([rows.found, rows.columns["text"].to_pylist(), [row.line for row in rows.bad]]))
"""


@pytest.mark.e2e
def test_json_line_that_crashes_arrow_is_rejected(subtests):
    deep = ['{"a":' * 10**6 + "1" + "}" * 10**6, "[" * 10**6]
    for lines, bad in (
        (["null", '{"text": "a"}', '{"text": "b"}'], [0]),
        (['{"text": "a"}', " null ", *deep, '{"text": "b"}'], [1, 2, 3]),
    ):
        with subtests.test(lines=lines):
            done = subprocess.run(
                [sys.executable, "-c", CRASHES],
                cwd=REPOSITORY,
                input="".join(f"{line}\n" for line in lines).encode(),
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-2000:].decode()
            assert json.loads(done.stdout) == [len(lines), ["a", "b"], bad]


def test_nan_and_infinity_among_strings_raise(convert, subtests):
    for value in ("NaN", "-Infinity", "[NaN]", '[Infinity, "b"]'):
        with subtests.test(value=value):
            first = '["a"]' if "[" in value else '"a"'
            data = f'{{"text": "t", "x": {first}}}\n{{"text": "u", "x": {value}}}\n'
            with pytest.raises(InputError, match=r"column 'x'.*(nan|inf) among strings.*line 2"):
                convert({"t.jsonl": data})


def test_a_packed_file_of_json_gives_the_same_rows(convert, subtests):
    entries = [{"text": f'a "{n}", {{\\', "label": {"n": n}, "x": [n, n]} for n in range(4)]
    texts = [entry["text"] for entry in entries]
    for value in ({f"k{n},": entry for n, entry in enumerate(entries)}, entries):
        with subtests.test(value=value):
            data = json.dumps(value, indent=1).encode()
            for name, packed in {"t.json": data, "t.json.gz": gzip.compress(data)}.items():
                assert sorted(convert({name: packed}).texts().values()) == texts


def test_truncated_json_file_raises(convert, subtests):
    for end in ("", "}", "]}", "},", ",}", '"', '}, "b": 1 2}'):
        with subtests.test(end=end):
            data = '{"a": {"text": "x", "n": [1]}, "c": {"text": "y"' + end
            with pytest.raises(InputError, match=r"'t\.json': expected JSON"):
                convert({"t.json": data})


MIXTURES = {
    "whole and not": ["1", "2.5", '"x"', '"y"', '"z"'],
    "written as floats": ["1.0", "1", "-0.0", '"x"', '"y"', '"z"', '"w"'],
    "truths": ["true", "2", "false", '"x"', '"y"', '"z"', '"w"'],
    "large": ["1e20", "1e-7", "9007199254740991", '"x"', '"y"', '"z"', '"w"'],
}


@pytest.mark.parametrize("values", MIXTURES.values(), ids=MIXTURES)
def test_numbers_among_strings_do_not_depend_on_the_cut(convert, values):
    lines = [f'{{"text": {v}, "x": {v}, "label": {v}}}\n' for v in values]
    numbers = sum('"' not in value for value in values)
    together = convert({"t.jsonl": "".join(lines)})
    apart = convert({f"{place:02}.jsonl": line for place, line in enumerate(lines)})
    halves = convert({"a.jsonl": "".join(lines[:numbers]), "b.jsonl": "".join(lines[numbers:])})

    def found(dataset):
        return [row for _, row in sorted(dataset.by_id().items(), key=lambda pair: pair[0])]

    assert found(together) == found(apart) == found(halves)


@pytest.mark.parametrize("settings", [{}, {"deduplicate": True}])
def test_rows_without_a_column_are_counted(convert, settings):
    full = "".join(f'{{"text": "words {n}", "x": {n}}}\n' for n in range(3))
    files = {"a.jsonl": '{"x": 1}\n{"x": 2}\n', "b.jsonl": full}
    counts = convert(files, columns={"x": "ignore"}, **settings).counts()
    assert counts["found"] == 5
    assert counts["found"] == counts["written"] + counts["rejected"] + counts["skipped"]
