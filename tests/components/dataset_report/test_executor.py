"""Test DatasetReport in a pipeline: one page, with the statistics and schema of TFX."""

from pathlib import Path

import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.dataset_report import Executor
from components.steps import REPORT_FILE
from tests.components.report.test_page import HOSTILE, Page
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature

SCORES = [0.5, 0.5, 1.5, 4.0]


@pytest.fixture
def dataset(write_dataset, tmp_path) -> Path:
    examples = [{"score": [score], "name": [HOSTILE.encode()]} for score in SCORES]
    features = {"score": Feature(type="float"), "name": Feature(type="string")}
    return Path(write_dataset(tmp_path / "dataset", {"train": [examples]}, features))


def artifact(kind: type, uri: Path):
    made = kind()
    made.uri = str(uri)
    return [made]


def report(dataset: Path, target: Path, properties: dict | None = None, **inputs) -> Page:
    examples = {"examples": artifact(standard_artifacts.Examples, dataset)}
    target.mkdir(exist_ok=True)
    outputs = {"report": artifact(simple_artifacts.File, target)}
    Executor().Do({**examples, **inputs}, outputs, properties or {})
    assert [path.name for path in target.iterdir()] == [REPORT_FILE]
    return Page((target / REPORT_FILE).read_text(encoding="utf-8"))


def words(page: Page) -> str:
    return " ".join(page.text.split())


def test_page_has_the_figures_of_tfdv(dataset, tmp_path):
    shards = str(dataset / "Split-train/data_tfrecord*")
    found = tfdv.generate_statistics_from_tfrecord(shards)
    path = tmp_path / "statistics/Split-train/FeatureStats.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(found.SerializeToString())
    given = artifact(standard_artifacts.ExampleStatistics, path.parents[1])
    page = report(dataset, tmp_path / "report", statistics=given)
    numbers = next(f.num_stats for f in found.datasets[0].features if f.path.step == ["score"])
    table = words(page).partition("score")[2]
    figures = f"{numbers.min:g}{numbers.median:g}{numbers.mean:g}{numbers.max:g}"
    assert f"train40{figures}{numbers.std_dev:.4g}{numbers.num_zeros}" in table
    assert HOSTILE.partition("\x1b")[0] in page.text  # a frequent value, as text
    assert not page.all("script")


def test_invalid_statistics_raise_and_write_nothing(dataset, tmp_path):
    path = tmp_path / "statistics/Split-train/FeatureStats.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xff")
    given = artifact(standard_artifacts.ExampleStatistics, path.parents[1])
    with pytest.raises(DatasetError, match=r"FeatureStats\.pb"):
        report(dataset, tmp_path / "report", statistics=given)
    assert not list((tmp_path / "report").iterdir())


def test_schema_that_contradicts_the_data_is_a_finding(dataset, tmp_path, subtests):
    (tmp_path / "schema").mkdir()
    for name, finding in (("score", "agrees with the examples"), ("scores", "'score'")):
        with subtests.test(name=name):
            schema = schema_pb2.Schema()
            for feature, kind in ((name, schema_pb2.FLOAT), ("name", schema_pb2.BYTES)):
                entry = schema.feature.add(name=feature, type=kind)
                entry.presence.min_fraction = 1
                entry.shape.SetInParent()
            (tmp_path / "schema/schema.pbtxt").write_text(text_format.MessageToString(schema))
            given = artifact(standard_artifacts.Schema, tmp_path / "schema")
            assert finding in words(report(dataset, tmp_path / "report", schema=given))
