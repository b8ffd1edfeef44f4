"""Rolling windows of spans."""

from pathlib import Path

import pytest
from tfx.components.example_gen import utils
from tfx.dsl.input_resolution.strategies.span_range_strategy import SpanRangeStrategy
from tfx.proto import range_config_pb2
from tfx.types import standard_artifacts

from components.kubeflow.dataset_records import DatasetRecord, record_dataset
from components.kubeflow.span_window import latest_window
from trainer_utils import DatasetWriter
from trainer_utils.format import ConfigError, DatasetError

SPANS = (2, 3, 5, 9, 10)


def add(root: Path, span: int, name: str = "", **given: object) -> str:
    uri = str(root / f"{span}{name}")
    with DatasetWriter(uri) as writer:
        writer.write("train", {"n": span})
    record = DatasetRecord(uri=uri, **{"source": "gen /in", "span": span, **given})
    record_dataset(str(root), record, input_versions=())
    return uri


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for span in SPANS:
        add(root, span)
    return root


@pytest.mark.parametrize("num_spans", [1, 2, 5, 6, 20])
@pytest.mark.parametrize("first_span", [0, 5, 11])
def test_a_window_is_that_of_tfx(root, num_spans, first_span):
    artifacts = []
    for span in SPANS:
        artifact = standard_artifacts.Examples()
        artifact.set_int_custom_property(utils.SPAN_PROPERTY_NAME, span)
        artifacts.append(artifact)
    rolling = range_config_pb2.RollingRange(num_spans=num_spans, start_span_number=first_span)
    config = range_config_pb2.RangeConfig(rolling_range=rolling)
    resolved = SpanRangeStrategy(config)._resolve({"examples": artifacts})["examples"]
    wanted = sorted(one.get_int_custom_property(utils.SPAN_PROPERTY_NAME) for one in resolved)
    if not wanted:
        with pytest.raises(DatasetError, match=r"expected datasets of spans, found none in the"):
            latest_window(str(root), num_spans=num_spans, first_span=first_span)
        return
    window = latest_window(str(root), num_spans=num_spans, first_span=first_span)
    assert window.spans == tuple(wanted)
    assert window.uris == tuple(f"{root}/{span}" for span in wanted)


def test_of_a_span_the_newest_version_holds_and_of_a_version_the_latest_whole_one(tmp_path):
    add(tmp_path, 1, "a", version=2, seconds=1.0)
    latest = add(tmp_path, 1, "b", version=2, seconds=2.0)
    add(tmp_path, 1, "c", version=1, seconds=3.0)
    assert latest_window(str(tmp_path), num_spans=1).uris == (latest,)
    Path(latest, "manifest.json").unlink()
    assert latest_window(str(tmp_path), num_spans=1).uris == (str(tmp_path / "1a"),)


def test_spans_of_several_sources_are_not_mixed(tmp_path):
    add(tmp_path, 1)
    theirs = add(tmp_path, 2, source="gen /other")
    with pytest.raises(ConfigError, match=r"of one source, found gen /in; gen /other\. Name one"):
        latest_window(str(tmp_path), num_spans=2)
    assert latest_window(str(tmp_path), num_spans=2, source="/other").uris == (theirs,)


def test_a_window_of_no_size_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"num_spans: .* got 0"):
        latest_window(str(tmp_path), num_spans=0)
