"""Datasets in Kubeflow's own store: what is gone from it is made again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.kubeflow import tfx_step
from components.kubeflow.dataset_records import (
    RECORD_VARIABLE,
    DatasetRecord,
    find_version,
    record_dataset,
    record_stored,
    records_root,
)
from components.kubeflow.run import main
from trainer_utils import DatasetWriter
from trainer_utils.format import ConfigError, InputError


def write_dataset(folder: Path) -> str:
    with DatasetWriter(str(folder)) as writer:
        writer.write("train", {"n": 1})
    return str(folder)


@pytest.fixture
def records(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "records"))
    return tmp_path / "records"


def shard_of(uri: str) -> Path:
    return next(Path(uri).glob("Split-*/*tfrecord*"))


def step_version(tmp_path: Path, **given: Any) -> str:
    """What the step before an ExampleGen gives, for one file."""
    if not (tmp_path / "in").exists():
        (tmp_path / "in").mkdir()
        (tmp_path / "in/t.csv").touch()
    executor_input = {
        "inputs": {"parameterValues": {"input_base": str(tmp_path / "in"), **given}},
        "outputs": {
            "parameters": {"fingerprint": {"outputFile": str(tmp_path / "fingerprint")}},
            "outputFile": str(tmp_path / "output.json"),
        },
    }
    arguments = ["input_fingerprint", "--executor-input", json.dumps(executor_input)]
    assert main(arguments) == 0
    return (tmp_path / "fingerprint").read_text()


def test_the_version_is_another_once_the_stores_files_are_gone(records, tmp_path):
    first = step_version(tmp_path)
    uri = write_dataset(tmp_path / "store/examples")
    record_stored(uri, versions=[first])
    assert step_version(tmp_path) == first
    shard_of(uri).unlink()
    second = step_version(tmp_path)
    assert second not in ("", first)
    record_stored(write_dataset(tmp_path / "store/again"), versions=[second])
    assert step_version(tmp_path) == second, "made again, it comes from the cache again"


def test_without_a_place_for_records_nothing_is_recorded_or_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    record_stored(str(tmp_path / "examples"), versions=["f"])
    assert find_version("", "f") == "f"
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_version_is_not_recorded(records):
    record_stored("minio://b/examples", versions=[])
    assert not records.exists()


def test_a_dataset_root_has_its_own_records(records, tmp_path):
    root = str(tmp_path / "root")
    record_dataset(root, DatasetRecord(uri=f"{root}/gone"), input_versions=["f"])
    assert find_version("", "f") == "f"
    assert find_version(root, "f") == "f-2"
    assert records_root("/other") == "/other"


def test_a_place_that_not_every_pod_finds_is_refused(monkeypatch):
    monkeypatch.setenv(RECORD_VARIABLE, "records")
    with pytest.raises(ConfigError, match=f"{RECORD_VARIABLE}: expected an absolute path"):
        find_version("", "f")


def test_a_store_that_may_not_be_looked_into_is_named_with_the_cure(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "file"))  # no folder can be in it
    with pytest.raises(InputError, match=rf"records of datasets in .*/file.*{RECORD_VARIABLE}"):
        record_stored("minio://b/examples", versions=["f"])


def test_a_step_of_tfx_records_where_kubeflow_will_keep_its_dataset(records, tmp_path, monkeypatch):
    pytest.importorskip("tfx", reason="components needs TFX")
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor

    uri, path = str(tmp_path / "store/examples"), str(tmp_path / "pod/examples")

    def run(arguments: Any) -> None:
        document = json.loads(arguments[0].json_serialized_invocation_args)
        (artifact,) = document["outputs"]["artifacts"]["examples"]["artifacts"]
        assert artifact["uri"] == path
        assert "input_version" not in document["inputs"]["parameterValues"]
        write_dataset(Path(path))
        Path(document["outputs"]["outputFile"]).write_text(
            json.dumps({"artifacts": {"examples": {"artifacts": [artifact]}}})
        )

    monkeypatch.setattr(kubeflow_v2_run_executor, "main", run)
    document = {
        "inputs": {"parameterValues": {"input_version": "f"}},
        "outputs": {
            "artifacts": {"examples": {"artifacts": [{"uri": uri, "name": "e", "metadata": {}}]}},
            "outputFile": str(tmp_path / "output.json"),
        },
    }
    types = {"inputs": {}, "outputs": {"examples": "tfx.Examples"}}
    arguments = ["--types", json.dumps(types), "--path", "outputs", "examples", path, "--"]
    theirs = ["--executor_class_path", "x", "--json_serialized_invocation_args"]
    assert tfx_step.main([*arguments, *theirs, json.dumps(document)]) == 0
    assert find_version("", "f") == "f-2", "the launcher has not copied it yet"
    shutil.copytree(path, uri)
    assert find_version("", "f") == "f"
    shutil.rmtree(uri)
    assert find_version("", "f") == "f-2"


def test_a_native_step_records_where_kubeflow_will_keep_its_dataset(records, tmp_path):
    pytest.importorskip("tfx", reason="components needs TFX")
    version = step_version(tmp_path)
    (tmp_path / "in/t.csv").write_text("text\n" + "".join(f"some {n}\n" for n in range(9)))
    uri, path = str(tmp_path / "store/examples"), str(tmp_path / "pod/examples")
    executor_input = {
        "inputs": {
            "parameterValues": {"input_base": str(tmp_path / "in"), "input_version": version}
        },
        "outputs": {
            "artifacts": {"examples": {"artifacts": [{"uri": uri, "name": "e", "metadata": {}}]}},
            "outputFile": str(tmp_path / "output.json"),
        },
    }
    given = ["--executor-input", json.dumps(executor_input), "--path", "outputs", "examples", path]
    assert main(["text_example_gen", *given]) == 0
    assert find_version("", version) == f"{version}-2"
    shutil.copytree(path, uri)
    assert find_version("", version) == version
