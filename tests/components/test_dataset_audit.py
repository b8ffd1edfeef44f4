"""DatasetAudit: TFX reads its anomalies, and later components depend on them."""

import json
from pathlib import Path

import pytest
import yaml
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import v1 as tfx
from tfx.types import artifact_utils, standard_artifacts

from components import DatasetAudit, SchemaExport
from components.dataset_audit import Executor
from components.schema.anomalies import FINDINGS_FILE
from components.settings import AuditSettings
from pipelines.kubeflow import compile_pipeline
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature


@pytest.fixture
def leaking(tmp_path, write_dataset) -> str:
    """Write a dataset with a text in both splits, and a text with two labels."""
    same = "one two three four five six seven"
    train = [(same, 0), ("alpha beta gamma", 0), ("alpha beta gamma", 1)]
    rows = {"train": train, "eval": [(same, 0), ("zeta eta theta", 1)]}
    splits = {
        split: [[{"text": [text.encode()], "label": [label]} for text, label in of_split]]
        for split, of_split in rows.items()
    }
    features = {"text": Feature(type="string"), "label": Feature(type="int")}
    return write_dataset(tmp_path / "in", splits, features)


def audit(uri: str, target: Path, **settings) -> standard_artifacts.ExampleAnomalies:
    given, made = standard_artifacts.Examples(), standard_artifacts.ExampleAnomalies()
    given.uri, made.uri = str(uri), str(target)
    properties = AuditSettings.to_properties(settings)
    Executor().Do({"examples": [given]}, {"anomalies": [made]}, properties)
    return made


def anomalies(uri: str, split: str) -> anomalies_pb2.Anomalies:
    message = anomalies_pb2.Anomalies()
    message.ParseFromString(Path(uri, f"Split-{split}/SchemaDiff.pb").read_bytes())
    return message


def test_findings_are_in_anomalies_json_and_properties(leaking, tmp_path):
    made = audit(leaking, tmp_path / "out")
    assert artifact_utils.decode_split_names(made.split_names) == ["train", "eval"]
    train, held = (anomalies(made.uri, split).anomaly_info for split in ("train", "eval"))
    assert sorted(train) == ["duplicates", "label_conflict", "leakage"]
    assert sorted(held) == ["leakage"]
    assert "train 0" in held["leakage"].description
    assert held["leakage"].severity == anomalies_pb2.AnomalyInfo.WARNING
    found = json.loads(Path(made.uri, FINDINGS_FILE).read_text())
    assert found["counts"] == {"leakage": 1, "label_conflict": 1, "duplicates": 1}
    files = {path.name for path in Path(made.uri).iterdir()}
    assert files == {FINDINGS_FILE, "Split-train", "Split-eval"}
    assert made.get_int_custom_property("num_findings") == 3
    assert made.get_int_custom_property("is_blessed") == 0
    assert made.get_json_value_custom_property("blessed") == {"train": 0, "eval": 0}


def test_findings_in_fail_on_fail_the_run_and_are_kept(leaking, tmp_path):
    with pytest.raises(DatasetError, match=r"expected no leakage, got 1 leakage: .*eval: eval 0"):
        audit(leaking, tmp_path / "out", fail_on=["leakage"])
    info = anomalies(str(tmp_path / "out"), "eval").anomaly_info["leakage"]
    assert info.severity == anomalies_pb2.AnomalyInfo.ERROR
    audit(leaking, tmp_path / "other", fail_on=["dark", "label_shift"])


def test_findings_are_kept_after_a_failed_run(leaking, tmp_path):
    kept = tmp_path / "out.findings.json"
    with pytest.raises(DatasetError, match=r"kept in .*out\.findings\.json"):
        audit(leaking, tmp_path / "out", fail_on=["leakage"])
    assert json.loads(kept.read_text())["counts"]["leakage"] == 1
    audit(leaking, tmp_path / "out")
    assert not kept.exists()


def test_pipeline_that_fails_on_findings_keeps_them(tmp_path, write_dataset):
    splits = {
        split: [[{"text": [text.encode()]} for text in texts]]
        for split, texts in TEXTS["leaking"].items()
    }
    uri = write_dataset(tmp_path / "in", splits, {"text": Feature(type="string")})
    examples = tfx.dsl.Importer(
        source_uri=str(uri),
        artifact_type=tfx.types.standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    ).with_id("examples")
    check = DatasetAudit(examples=examples.outputs["result"], fail_on=["leakage"])
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="checked",
        pipeline_root=str(tmp_path / "root"),
        components=[examples, check],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(tmp_path / "metadata.db")
        ),
    )
    with pytest.raises(DatasetError, match="leakage"):
        tfx.orchestration.LocalDagRunner().run(pipeline)
    (kept,) = Path(tmp_path, "root").rglob("*.findings.json")
    assert json.loads(kept.read_text())["counts"]["leakage"] == 1


TEXTS = {
    "clean": {"train": ["one two three", "four five six"], "eval": ["seven eight nine"]},
    "leaking": {"train": ["one two three", "four five six"], "eval": ["four five six"]},
}


def gated(name: str, uri: str) -> list:
    """Return the nodes of a pipeline that exports a schema only without findings."""
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
def test_cond_runs_only_after_a_clean_dataset(tmp_path, write_dataset):
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


def test_kubeflow_package_has_the_condition(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tfx import v1 as tfx\n"
        "from tests.components.test_dataset_audit import gated\n\n\n"
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
