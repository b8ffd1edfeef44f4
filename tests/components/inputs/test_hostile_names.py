"""Hostile names never write elsewhere or forge lines, and the dataset is valid."""

import json
import os
import re
from pathlib import Path

import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import ImageSettings, TextSettings
from pipelines.tools.verification import verify_dataset
from tests.make import jpeg
from trainer_utils.dataset import open_dataset

COLUMNS = [
    "../../../x", "/etc/x", "..", ".", ".hidden", "trailing.", "a/b", "a\\b", "C:\\x", "new\nline",
    "esc\x1b[2Jx", "bell\x07", "\u2028", "\u202etxt.exe", "%2e%2e%2fx", "100%", "日本語", "x" * 200,
    "nul?*<>|", "\x9b31m",
]  # fmt: skip
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> Path:
    """Return the folder of a dataset with a vocabulary per column, its balancing and schema."""
    root = tmp_path_factory.mktemp("deep") / "down" / "here" / "below"
    (root / "in").mkdir(parents=True)
    with (root / "in/t.jsonl").open("w") as stream:
        for number in range(12):
            row = {"text": f"text {number}", **dict.fromkeys(COLUMNS, f"value {number % 3}")}
            stream.write(json.dumps(row) + "\n")
    settings = TextSettings(columns=dict.fromkeys(COLUMNS, "label"))
    steps.convert(str(root / "in"), str(root / "out"), settings)
    steps.balance([str(root / "out")], str(root / "balanced"), BalancerSettings(num_shards=2))
    steps.export_schema(str(root / "balanced"), str(root / "schema"))
    return root


def test_column_names_never_write_outside_the_output(labelled, subtests):
    assert {path.name for path in labelled.iterdir()} == {"in", "out", "balanced", "schema"}
    above = labelled.parents[2]
    assert {path.name for path in above.iterdir()} == {"down"}
    assert not Path("/etc/x.txt").exists()
    for name in ("out", "balanced"):
        with subtests.test(name=name):
            folders = {path.name for path in (labelled / name).iterdir() if path.is_dir()}
            assert folders == {"Split-train", "Split-eval", "index", "vocab"}
            assert len(list((labelled / name / "vocab").iterdir())) == len(COLUMNS)


def test_every_vocabulary_is_found_by_its_feature_name(labelled, subtests):
    for name in ("out", "balanced"):
        with subtests.test(name=name):
            vocabularies = open_dataset(str(labelled / name)).vocabularies
            assert set(vocabularies) == set(COLUMNS)
            assert all(list(v) == ["value 0", "value 1", "value 2"] for v in vocabularies.values())
            assert verify_dataset(str(labelled / name)).is_good


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Write photos, some of them bad, in folders with control characters in their names."""
    base = tmp_path_factory.mktemp("photos")
    names = ["a\x1b[2Jb", "c\nError: forged", "d\u2028e", "f\x07", "\u202eg", "h\x9b31m", "i\rj"]
    for place, name in enumerate(names):
        folder = base / "class"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.jpg").write_bytes(jpeg(place))
        (folder / f"{name} bad.jpg").write_bytes(b"")
    bad = os.path.join(os.fsencode(base), b"class", b"not \xff UTF-8.jpg")
    with open(bad, "wb") as stream:
        stream.write(b"")
    return base


def test_rejects_with_hostile_names_are_separate_lines(photos, tmp_path):
    steps.convert(
        str(photos), str(tmp_path / "out"), ImageSettings(layout="folder", max_reject_fraction=0.9)
    )
    text = (tmp_path / "out/rejects.jsonl").read_text("utf-8")
    assert len(text.splitlines()) == 8
    assert not UNPRINTABLE.search(text)
    sources = {json.loads(line)["source"] for line in text.splitlines()}
    assert "class/d\u2028e bad.jpg" in sources, "escaped, and the same once it is read"
    found = verify_dataset(str(tmp_path / "out"))
    assert found.is_good, str(found)


def test_no_command_prints_hostile_names_unescaped(photos, labelled, tmp_path, subtests):
    from click.testing import CliRunner

    from pipelines.cli.app import app

    uri = tmp_path / "out\x1b[2J\nError: forged"
    steps.convert(str(photos), str(uri), ImageSettings(layout="folder", max_reject_fraction=0.9))
    commands = ("inspect", "verify", "plan --workers 2 --batch-size 2", "doctor", "show", "diff")
    for where in (str(uri), str(labelled / "balanced"), str(uri / "gone\u2028\x07")):
        for command in commands:
            with subtests.test(command=command):
                name, *options = command.split()
                for more in ([], ["--json"]):
                    arguments = [name, where, *([where] if name == "diff" else []), *options, *more]
                    result = CliRunner().invoke(app, arguments)
                    output = result.stdout + result.stderr
                    assert output
                    assert not UNPRINTABLE.search(output), (arguments, output)
                    assert not re.search("^Error: forged", output, re.MULTILINE)
