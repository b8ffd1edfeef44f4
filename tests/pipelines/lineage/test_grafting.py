"""Settings and parents from datasets, beside what Kubeflow knows of the same artifacts."""

import shutil
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact

SETTINGS = {"num_shards": {"train": 2}, "seed": 5}


@pytest.fixture
def datasets(write_step, tmp_path) -> tuple[Path, Path]:
    raw = write_step(tmp_path / "Gen/examples/1", 3, input_base="/photos")
    return raw, write_step(tmp_path / "Balancer/balanced/2", 3, [raw], **SETTINGS)


def test_settings_counts_and_names_come_from_who_knows_them(kubeflow, datasets):
    raw, balanced = (kubeflow.artifact(uri.parts[-2], str(uri)) for uri in datasets)
    kubeflow.run("r", display_name="nightly")
    kubeflow.task("r", "gen", {}, {"examples": [raw]}, parameters={"input_base": "{{$.base}}"})
    kubeflow.task(
        "r", "balance", {"examples": [raw]}, {"balanced": [balanced]}, parameters={"seed": 0.0}
    )
    told = describe_artifact(str(datasets[1]), metadata=kubeflow.address)
    assert told.to_json()["made_by"]["settings"] == {**SETTINGS, "task_id": "task-r-balance"}
    text = str(told)
    assert "Made by balance (execution 2) in run nightly (r)" in text
    assert "files in /photos" in text
    assert told.to_json()["splits"]["train"]["written"] == 3
    assert "run: not known" not in text
    (before,) = told.to_json()["ancestors"]
    assert before["made_by"]["inputs"] == {}
    assert before["splits"]["train"]["written"] == 3


@pytest.mark.parametrize("is_there", [True, False])
def test_parents_that_kubeflow_forgot_are_told_by_the_dataset(kubeflow, datasets, is_there):
    raw, balanced = datasets
    kubeflow.artifact("imported", str(balanced))  # no task made it
    if is_there:
        kubeflow.artifact("raw", str(raw))
    else:
        shutil.rmtree(raw)
    told = describe_artifact(str(balanced), metadata=kubeflow.address).to_json()
    assert told["made_by"]["settings"] == SETTINGS
    (before,) = told["ancestors"]
    assert before["made_by"]["settings"] == {"input_base": "/photos"}
    assert before["artifact"]["uri"].startswith("digest:")


def test_an_imported_parent_is_known_by_its_digest(kubeflow, datasets):
    raw, balanced = (kubeflow.artifact(uri.parts[-2], str(uri)) for uri in datasets)
    kubeflow.run("r")
    kubeflow.task("r", "import", {}, {"artifact": [raw]}, type="IMPORTER")
    kubeflow.task("r", "balance", {"given": [raw]}, {"balanced": [balanced]})
    told = describe_artifact(str(datasets[1]), metadata=kubeflow.address).to_json()
    (before,) = told["ancestors"]
    assert before["artifact"]["uri"] == str(datasets[0])
    assert list(told["made_by"]["inputs"].values()) == [[before["artifact"]["id"]]]
