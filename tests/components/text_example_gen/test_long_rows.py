"""Rows that are long, and those too long to be held in memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.tables import pieces

REPOSITORY = Path(__file__).parents[3]

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
def test_a_long_row_is_read_and_a_longer_one_is_rejected(convert, monkeypatch, name, data):
    assert convert({name: data}).texts() == {f"{name}:1": "a", f"{name}:2": LONG}
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "max_row_bytes", 2 << 20)
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", 1 << 20)
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
def test_a_line_of_200_mb_is_rejected_in_bounded_memory(tmp_path):
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
