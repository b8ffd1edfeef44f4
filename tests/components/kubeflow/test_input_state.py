"""Test which changes of the raw inputs change their fingerprint."""

import json
from pathlib import Path

import pytest

from components.kubeflow.input_state import fingerprint_inputs, fingerprint_of_tfx
from tests.make import run_python, write_files


@pytest.fixture
def photos(tmp_path) -> Path:
    names = ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg", "list.csv")
    return write_files(tmp_path / "photos", {name: name for name in names})


CHANGES = {
    "two contents exchanged": lambda folder: (
        (folder / "cat/1.jpg").write_bytes(b"cat/2.jpg"),
        (folder / "cat/2.jpg").write_bytes(b"cat/1.jpg"),
    ),
    "a byte": lambda folder: (folder / "cat/1.jpg").write_bytes(b"CAT/1.JPG"),
    "a size": lambda folder: (folder / "cat/1.jpg").write_bytes(b"longer than it was"),
    "a name": lambda folder: (folder / "cat/1.jpg").rename(folder / "cat/4.jpg"),
    "a file more": lambda folder: (folder / "dog/4.jpg").write_bytes(b""),
    "a file less": lambda folder: (folder / "dog/3.jpg").unlink(),
}


def test_every_change_of_an_input_changes_the_fingerprint(photos, subtests):
    seen = [fingerprint_inputs(str(photos))]
    assert fingerprint_inputs(str(photos)) == seen[0]
    for name, change in CHANGES.items():
        with subtests.test(name=name):
            change(photos)
            seen.append(fingerprint_inputs(str(photos)))
            assert len({*seen}) == len(seen), name


def test_only_inputs_and_file_roots_are_fingerprinted(photos, tmp_path):
    table, root = str(photos / "list.csv"), tmp_path / "root"
    root.mkdir()
    unlisted = {"input_base": table, "layout": "csv"}
    listing = {"input_base": table, "columns": json.dumps({"path": "image"})}
    rooted = {"input_base": str(photos / "cat"), "file_roots": json.dumps([str(root)])}

    def fingerprints() -> list[str]:
        return [
            fingerprint_inputs(str(photos), {"train": "cat/*"}),
            fingerprint_inputs(table, siblings=False),
            fingerprint_of_tfx("text", unlisted),
            fingerprint_inputs(table),
            fingerprint_of_tfx("image", {"input_base": table}),
            fingerprint_of_tfx("text", listing),
            fingerprint_inputs(str(photos / "cat"), file_roots=[str(root)]),
            fingerprint_of_tfx("image", rooted),
        ]

    before = fingerprints()
    (photos / "dog/3.jpg").write_bytes(b"another dog")
    (root / "new.jpg").write_bytes(b"new")
    same = [a == b for a, b in zip(before, fingerprints(), strict=True)]
    assert same == [True] * 3 + [False] * 5
    assert before[-1] == before[-2]


def test_fingerprint_step_imports_neither_tfx_nor_kfp(photos, tmp_path):
    output = tmp_path / "out/fingerprint"
    executor_input = {
        "inputs": {"parameterValues": {"input_base": str(photos)}},
        "outputs": {"parameters": {"fingerprint": {"outputFile": str(output)}}},
    }
    code = (
        "import sys\n"
        "from components.kubeflow.input_state import main\n"
        "main(sys.argv[1:])\n"
        "heavy = ('tfx', 'apache_beam', 'tensorflow', 'kfp')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    finished = run_python(code, "image", json.dumps(executor_input))
    assert finished.stdout == "[]\n", finished.stderr
    assert output.read_text() == fingerprint_inputs(str(photos))
