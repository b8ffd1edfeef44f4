"""A line of JSON that Arrow does not survive is rejected."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainer_utils.format import InputError

REPOSITORY = Path(__file__).parents[3]

# What Arrow's reader of JSON does not survive is read in a process of its own.
CRASHES = """
import json, sys
from components.tables import json_lines
from components.tables.pieces import Piece

piece = Piece(path="", source="t.jsonl", layout="jsonl")
rows = json_lines.read(sys.stdin.buffer.read(), piece)
print(json.dumps([rows.found, rows.columns["text"].to_pylist(), [row.line for row in rows.bad]]))
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('null\n{"text": "a"}\n', [2, ["a"], [0]]),
        ('{"text": "a"}\n null \n{"text": "b"}\n', [3, ["a", "b"], [1]]),
        ('{"text": "a"}\n' + '{"a":' * 10**6 + "1" + "}" * 10**6 + "\n", [2, ["a"], [1]]),
        ('{"text": "a"}\n' + "[" * 10**6 + "\n", [2, ["a"], [1]]),
    ],
    ids=["null first", "null", "objects in objects", "lists in lists"],
)
def test_a_line_of_json_that_arrow_does_not_survive_is_rejected(data, expected):
    done = subprocess.run(
        [sys.executable, "-c", CRASHES],
        cwd=REPOSITORY,
        input=data.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:].decode()
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("value", ["{}", "[{}]", '[{}, "b"]'])
def test_no_text_is_made_of_what_is_no_number(convert, word, value):
    first = '["a"]' if "[" in value else '"a"'
    data = f'{{"text": "t", "x": {first}}}\n{{"text": "u", "x": {value.format(word)}}}\n'
    with pytest.raises(InputError, match=r"column 'x'.*(nan|inf) among texts.*line 2"):
        convert({"t.jsonl": data})
