"""Test classes of the output of TFX's Transform: examples without metadata, next to its graph."""

import logging
import shutil
from pathlib import Path

import pytest

import trainer_utils
from tests.make import write_rows


@pytest.fixture
def examples(tmp_path) -> Path:
    rows = ({"label": number % 3, "score": number / 4} for number in range(12))
    written = Path(write_rows(tmp_path / "written", rows))
    folder = tmp_path / "runs/Transform/transformed_examples/5"
    shutil.copytree(written / "Split-train", folder / "Split-train")
    return folder


def assets_of(examples: Path) -> Path:
    folder = examples.parents[1] / "transform_graph/5/transform_fn/assets"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", ["label", "label.txt"])
def test_classes_come_from_the_graph_of_the_same_run(examples, name):
    (assets_of(examples) / name).write_text("cat\ndog\nowl\n")
    batches = trainer_utils.iterate(str(examples), label="label", batch_size=4)
    assert (batches.num_classes, batches.class_names) == (3, ["cat", "dog", "owl"])
    labels = {"one_hot": True}
    batches = trainer_utils.iterate(str(examples), label="label", batch_size=4, labels=labels)
    assert next(iter(batches))[1].shape == (4, 3)


def test_graph_without_the_label_is_reported_once(examples, caplog):
    (assets_of(examples) / "words").write_text("a\nb\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batches = trainer_utils.iterate(str(examples), label="label", batch_size=4)
            assert (batches.num_classes, batches.class_names) == (None, None)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "ShardBalancer" in message
    assert "LabelOptions(num_classes=" in message
    chosen = trainer_utils.LabelOptions(num_classes=3)
    batches = trainer_utils.iterate(str(examples), label="label", batch_size=4, labels=chosen)
    assert batches.num_classes == 3


def test_float_label_has_no_classes_and_no_warning(examples, caplog):
    batches = trainer_utils.iterate(str(examples), label="score", batch_size=4)
    assert batches.num_classes is None
    assert caplog.records == []
