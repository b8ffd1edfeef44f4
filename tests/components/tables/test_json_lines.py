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
def test_a_line_of_json_that_arrow_does_not_survive_is_rejected():
    deep = ['{"a":' * 10**6 + "1" + "}" * 10**6, "[" * 10**6]
    for lines, bad in (
        (["null", '{"text": "a"}', '{"text": "b"}'], [0]),
        (['{"text": "a"}', " null ", *deep, '{"text": "b"}'], [1, 2, 3]),
    ):
        done = subprocess.run(
            [sys.executable, "-c", CRASHES],
            cwd=REPOSITORY,
            input="".join(f"{line}\n" for line in lines).encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:].decode()
        assert json.loads(done.stdout) == [len(lines), ["a", "b"], bad]


def test_no_text_is_made_of_what_is_no_number(convert):
    for value in ("NaN", "-Infinity", "[NaN]", '[Infinity, "b"]'):
        first = '["a"]' if "[" in value else '"a"'
        data = f'{{"text": "t", "x": {first}}}\n{{"text": "u", "x": {value}}}\n'
        with pytest.raises(InputError, match=r"column 'x'.*(nan|inf) among texts.*line 2"):
            convert({"t.jsonl": data})
