"""What an audit finds decides what runs after it, on TFX's own runner and in a Kubeflow package."""

from pathlib import Path

import pytest
import yaml
from tfx import v1 as tfx

from components import DatasetAudit, SchemaExport
from pipelines.kubeflow import compile_pipeline
from trainer_utils.format import Feature

TEXTS = {
    "clean": {"train": ["one two three", "four five six"], "eval": ["seven eight nine"]},
    "leaking": {"train": ["one two three", "four five six"], "eval": ["four five six"]},
}


def gated(name: str, uri: str) -> list:
    """The nodes of a pipeline that exports a dataset's schema only if nothing was found in it."""
    examples = tfx.dsl.Importer(
        source_uri=uri,
        artifact_type=tfx.types.standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    ).with_id(f"{name}-examples")
    audit = DatasetAudit(examples=examples.outputs["result"]).with_id(f"{name}-audit")
    found = audit.outputs["anomalies"].future()[0]
    with tfx.dsl.Cond(found.custom_property("is_blessed") == 1):
        schema = SchemaExport(examples=examples.outputs["result"]).with_id(f"{name}-schema")
    return [examples, audit, schema]


@pytest.mark.e2e
def test_a_cond_runs_only_what_follows_a_clean_dataset(tmp_path, write_dataset):
    nodes = []
    for name, of_splits in TEXTS.items():
        splits = {
            split: [[{"text": [text.encode()]} for text in texts]]
            for split, texts in of_splits.items()
        }
        uri = write_dataset(tmp_path / name, splits, {"text": Feature(type="string")})
        nodes += gated(name, str(uri))
    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            pipeline_name="gated",
            pipeline_root=str(tmp_path / "root"),
            components=nodes,
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(tmp_path / "metadata.db")
            ),
        )
    )
    ran = {path.name for path in (tmp_path / "root").iterdir()}
    assert {"clean-audit", "leaking-audit", "clean-schema"} <= ran
    assert [*Path(tmp_path, "root/clean-schema").rglob("schema.pbtxt")]
    assert not [*Path(tmp_path, "root").glob("leaking-schema/**/schema.pbtxt")]


def test_a_kubeflow_package_holds_the_condition(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tfx import v1 as tfx\n"
        "from tests.components.dataset_audit.test_component import gated\n\n\n"
        "def pipeline():\n"
        "    return tfx.dsl.Pipeline(pipeline_name='gated', pipeline_root='unused',\n"
        "        components=gated('my', 'minio://mlpipeline/mine'))\n"
    )
    compile_pipeline(
        f"{tmp_path / 'mine.py'}:pipeline",
        str(tmp_path / "p.yaml"),
        image="example/it:1",
        pipeline_root="minio://mlpipeline/v2",
    )
    tasks = yaml.safe_load((tmp_path / "p.yaml").read_text())["root"]["dag"]["tasks"]
    conditions = {
        name: task["triggerPolicy"]["condition"]
        for name, task in tasks.items()
        if "condition" in task.get("triggerPolicy", {})
    }
    assert list(conditions) == ["my-schema"]
    assert "is_blessed" in conditions["my-schema"]
