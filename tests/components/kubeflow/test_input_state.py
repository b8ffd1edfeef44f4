"""What counts as a change of raw inputs, and what does not."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.kubeflow.input_state import fingerprint_inputs
from trainer_utils.format import InputError


@pytest.fixture
def photos(tmp_path) -> Path:
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg", "list.csv"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "photos"


def same_size(folder: Path) -> None:
    (folder / "cat/1.jpg").write_bytes(b"CAT/1.JPG")


CHANGES = {
    "a byte": same_size,
    "a size": lambda folder: (folder / "cat/1.jpg").write_bytes(b"longer than it was"),
    "a name": lambda folder: (folder / "cat/1.jpg").rename(folder / "cat/4.jpg"),
    "a file more": lambda folder: (folder / "dog/4.jpg").write_bytes(b""),
    "a file less": lambda folder: (folder / "dog/3.jpg").unlink(),
    "two contents exchanged": lambda folder: (
        (folder / "cat/1.jpg").write_bytes(b"cat/2.jpg"),
        (folder / "cat/2.jpg").write_bytes(b"cat/1.jpg"),
    ),
}


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_an_input_is_another_fingerprint(photos, change, contents):
    given = {"input_base": str(photos), "contents": contents}
    before = fingerprint_inputs(given)
    assert fingerprint_inputs(given) == before
    CHANGES[change](photos)
    assert fingerprint_inputs(given) != before


def test_the_fingerprint_is_the_digest_of_names_sizes_and_times(tmp_path):
    """Spelled out, since a cache key that changes with a release makes everything anew."""
    base = os.fsencode(tmp_path)
    names = [b"1/%04d.jpg" % number for number in range(1100)]
    names += [b"0/not-utf8-\xff.jpg", b"0/line\nbreak.jpg"]
    for name in names:
        path = os.path.join(base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(name[-5:])
    os.symlink("nowhere", os.path.join(base, b"0/link"))
    rows = []
    for name in sorted([*names, b"0/link"]):
        found = os.lstat(os.path.join(base, name))
        times = b"%d-%d" % (found.st_mtime_ns, found.st_ctime_ns)
        size, problem = (0, b"('UNREADABLE', 'No such file or directory')")
        if name in names:
            size, problem = found.st_size, b"None"
        rows.append(b"%b\0%d\0%b\0%b\0" % (name, size, times, problem))
    expected = hashlib.sha256(b"single_split\0*\0" + b"".join(rows)).hexdigest()
    assert fingerprint_inputs({"input_base": str(tmp_path)}) == expected


def test_a_copy_has_the_fingerprint_of_the_same_contents(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "copy", copy_function=shutil.copyfile)
    os.utime(tmp_path / "copy/cat/1.jpg", (1, 1))
    both = [str(photos), str(tmp_path / "copy")]
    assert len({fingerprint_inputs({"input_base": base, "contents": True}) for base in both}) == 1
    assert len({fingerprint_inputs({"input_base": base}) for base in both}) == 2


def test_what_is_no_input_does_not_count(photos):
    given = [
        {"input_base": str(photos), "input_patterns": {"train": "cat/*"}},
        {"input_base": str(photos / "list.csv"), "siblings": False},
        {"component": "text", "input_base": str(photos / "list.csv"), "layout": "csv"},
    ]
    of_siblings = [
        {"input_base": str(photos / "list.csv")},
        {"component": "image", "input_base": str(photos / "list.csv")},
        {
            "component": "text",
            "input_base": str(photos / "list.csv"),
            "columns": json.dumps({"path": "image"}),
        },
    ]
    before = [fingerprint_inputs(one) for one in (*given, *of_siblings)]
    (photos / "dog/3.jpg").write_bytes(b"another dog")
    after = [fingerprint_inputs(one) for one in (*given, *of_siblings)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True] * 3 + [False] * 3


def test_image_roots_count(photos, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    native = {"input_base": str(photos), "image_roots": [str(root)]}
    of_tfx = {**native, "component": "image", "image_roots": json.dumps([str(root)])}
    before = [fingerprint_inputs(one) for one in (native, of_tfx)]
    (root / "new.jpg").write_bytes(b"new")
    assert not {*before} & {fingerprint_inputs(one) for one in (native, of_tfx)}


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="input_base '/no/photos': expected a folder"):
        fingerprint_inputs({"input_base": "/no/photos"})


def test_the_step_imports_neither_tfx_nor_tensorflow(photos, tmp_path):
    output = tmp_path / "out/fingerprint"
    executor_input = {
        "inputs": {"parameterValues": {"input_base": str(photos)}},
        "outputs": {
            "parameters": {"fingerprint": {"outputFile": str(output)}},
            "outputFile": str(tmp_path / "output.json"),
        },
    }
    code = (
        "import sys\n"
        "from components.kubeflow.run import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "heavy = ('tfx', 'apache_beam', 'tensorflow', 'kfp')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    arguments = ["input_fingerprint", "--executor-input", json.dumps(executor_input)]
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert finished.stdout == "[]\n", finished.stderr
    assert output.read_text() == fingerprint_inputs({"input_base": str(photos)})
