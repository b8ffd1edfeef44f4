"""A page is a file where Kubeflow has an artifact for it, and nothing is left beside it."""

import json
import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip("tfx", reason="components needs TFX")
from components.kubeflow import run
from components.kubeflow.pod_folders import page_folder
from pipelines.kubeflow.compiler import compile_pipeline
from trainer_utils.format import Feature


@pytest.fixture
def dataset(write_dataset, tmp_path):
    features = {"score": Feature(type="float")}
    return write_dataset(tmp_path / "dataset", {"train": [[{"score": [0.5]}]]}, features)


def test_what_fails_leaves_nothing(tmp_path):
    def fail():
        with page_folder(str(tmp_path / "run/report")) as folder:
            Path(folder, "report.html").write_text("half of")
            raise KeyError("of an executor")

    with pytest.raises(KeyError, match="of an executor"):
        fail()
    assert not list((tmp_path / "run").iterdir())


def test_the_native_step_writes_the_file(dataset, tmp_path):
    output_file = tmp_path / "executor_output.json"
    uri = "minio://mlpipeline/"
    document = {
        "inputs": {
            "parameterValues": {"sample_records": 7},
            "artifacts": {"examples": {"artifacts": [{"name": "e", "uri": uri + "e"}]}},
        },
        "outputs": {
            "artifacts": {"report": {"artifacts": [{"name": "r", "uri": uri + "r"}]}},
            "outputFile": str(output_file),
        },
    }
    page = tmp_path / "local/report"
    paths = ["--path", "inputs", "examples", dataset, "--path", "outputs", "report", str(page)]
    status = run.main(["dataset_report", "--executor-input", json.dumps(document), *paths])
    assert status == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in page.parent.iterdir()] == ["report"]


PIPELINE = """
from tfx.orchestration.pipeline import Pipeline
from components import DatasetReport, ImageExampleGen

def make(pipeline_root):
    images = ImageExampleGen(input_base="gs://bucket/photos")
    report = DatasetReport(examples=images.outputs["examples"])
    return Pipeline("photos", pipeline_root, components=[images, report])
"""


def test_a_tfx_pipeline_compiles_to_an_artifact_that_kubeflow_shows(tmp_path):
    (tmp_path / "mine.py").write_text(PIPELINE)
    package = tmp_path / "p.yaml"
    compile_pipeline(
        f"{tmp_path / 'mine.py'}:make", str(package), image="i:1", pipeline_root="gs://bucket/runs"
    )
    (component,) = [
        one
        for name, one in yaml.safe_load(package.read_text())["components"].items()
        if re.search("report", name, re.IGNORECASE)
    ]
    artifact = component["outputDefinitions"]["artifacts"]["report"]
    assert artifact["artifactType"]["schemaTitle"] == "system.HTML"
