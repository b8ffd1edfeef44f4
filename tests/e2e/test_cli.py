"""The command line as people use it: two conversions at once, then all that is asked of them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.cli.app import app

pytestmark = pytest.mark.e2e
REPOSITORY = Path(__file__).parents[2]


def start(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "convert", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """60 photos and three broken files; a table of 90 texts."""
    from pipelines.examples.demo_photos import make_photos

    folder = tmp_path_factory.mktemp("cli")
    make_photos(str(folder / "photos"), count=60)
    with (folder / "texts.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["text", "label"])
        table.writerows([f"text {number}", f"class {number % 3}"] for number in range(90))
    return folder


@pytest.fixture(scope="module")
def converted(folder):
    """Both, at once, into different folders with one metadata file: `(stdout, stderr)` of each."""
    shared = ["--metadata", "shared.sqlite"]
    options = ["--max-reject-fraction", "0.1", "--num-shards", "train=2,eval=1"]
    processes = [
        start(folder, "photos", "a", *options, *shared),
        start(folder, "texts.csv", "b", "--json", *shared),
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    for process, (_, stderr) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, stderr
    return outputs


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_converting_imports_no_more_of_tfx_than_it_uses():
    program = (
        "import sys, pipelines.tools.conversion.convert\n"
        "print([n for n in ('tfx.v1', 'google.cloud.aiplatform', 'kfp') if n in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_uri_alone_is_on_stdout_and_the_outcome_on_stderr(converted, folder):
    stdout, stderr = converted[0]
    (uri,) = stdout.splitlines()
    assert (folder / uri / "manifest.json").is_file()
    assert "63 found = 60 written + 3 rejected + 0 skipped" in stderr
    assert "1 TRUNCATED_IMAGE" in stderr
    assert len(stderr.splitlines()) == 10, stderr  # no log of TensorFlow, TFX, Beam or ML Metadata
    rejects = stderr.partition("TRUNCATED_IMAGE (")[2].partition(")")[0]
    assert len((folder / rejects).read_text().splitlines()) == 3


def test_json_is_one_document_with_all_of_it(converted, folder):
    facts = json.loads(converted[1][0])
    assert facts["kind"] == "text"
    assert facts["accounting"]["total"]["written"] == 90
    assert facts["metadata"] == "shared.sqlite"
    for name in ("uri", "examples", "schema"):
        assert (folder / facts[name]).is_dir()


def test_each_run_has_its_own_dataset_in_the_shared_metadata(converted, folder):
    from ml_metadata import metadata_store
    from tfx.orchestration.metadata import sqlite_metadata_connection_config

    path = str(folder / "shared.sqlite")
    store = metadata_store.MetadataStore(sqlite_metadata_connection_config(path))
    uris = {artifact.uri for artifact in store.get_artifacts()}
    assert len(store.get_contexts_by_type("pipeline_run")) == 2
    for stdout in (converted[0][0].strip(), json.loads(converted[1][0])["uri"]):
        assert str(folder / stdout) in uris


@pytest.mark.parametrize("out", ["a", "b"])
def test_what_was_converted_is_good(converted, folder, out):
    verified = invoke("verify", folder / out)
    assert verified.exit_code == 0, verified.stdout
    assert "good:" in verified.stdout
    facts = json.loads(invoke("inspect", folder / out, "--json").stdout)
    assert sum(split["records"] for split in facts["splits"].values()) == {"a": 60, "b": 90}[out]
    planned = invoke("plan", folder / out, "--workers", 2, "--batch-size", 8)
    assert "steps" in planned.stdout
    assert invoke("doctor", folder / out, "--workers", 2).exit_code == 0
    measured = invoke("bench", folder / out, "--seconds", 0.05, "--batch-size", 8)
    assert "never waits for this input" in measured.stdout, measured.output


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["photos", "c"], 1, "3 of 63 inputs were rejected"),
        (["photos", "c", "--set", "nonsense=1"], 2, "option 'nonsense': expected one of"),
        (["none", "c"], 1, "found none"),
        (["photos", "photos/c"], 2, "expected a folder outside the input"),
    ],
)
def test_what_cannot_be_converted_ends_in_one_sentence(
    folder, monkeypatch, arguments, status, said
):
    monkeypatch.chdir(folder)
    result = invoke("convert", *arguments)
    assert result.exit_code == status
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last
    assert "Traceback" not in result.stderr


def test_a_dry_run_makes_nothing(folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    planned = json.loads(invoke("convert", "photos", "d", "--dry-run", "--json").stdout)
    assert (planned["layout"], planned["found"]) == ("folder", 63)
    assert "5 classes" in invoke("convert", "photos", "--dry-run").stdout
    assert sorted(os.listdir(folder)) == before
