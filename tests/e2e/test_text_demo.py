"""Texts from a table to a trained model, in a process of its own, and other people's readers."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from datum.reader import load
from tensorflow_metadata.proto.v0 import statistics_pb2

import trainer_utils

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # which importing TFX sets in this process
    finished = subprocess.run(
        [sys.executable, "-m", "pipelines.examples.demo", "--text"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder / "demo-run", finished.stdout


def artifact(demo: tuple[Path, str], component: str, output: str) -> Path:
    (found,) = (demo[0] / "own-texts/artifacts" / component / output).iterdir()
    return found


@pytest.fixture(scope="module")
def rows(demo) -> list[dict[str, str]]:
    """The rows that are whole, by the standard library."""
    text = (demo[0] / "texts.csv").read_text(errors="surrogateescape")
    found = list(csv.DictReader(text.splitlines(keepends=True)))
    return [row for row in found if row["label"] and row["words"] and is_utf8(row["text"])]


def is_utf8(text: str) -> bool:
    """Whether no byte of it had to be escaped when it was read."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def test_every_row_is_accounted_for(demo, rows):
    assert f"{len(rows) + 3} found = {len(rows)} written + 3 rejected + 0 skipped" in demo[1]
    rejects = artifact(demo, "TextExampleGen", "examples") / "rejects.jsonl"
    codes = [json.loads(line)["code"] for line in rejects.read_text().splitlines()]
    assert sorted(codes) == ["NOT_UTF8", "NO_LABEL", "WRONG_COLUMNS"]


@pytest.mark.parametrize(
    ("component", "output"),
    [("TextExampleGen", "examples"), ("ShardBalancer", "balanced_examples")],
)
def test_the_records_are_the_rows_each_once(demo, rows, component, output):
    uri = artifact(demo, component, output)
    labels = (uri / "vocab/label.txt").read_text().splitlines()
    found = []
    for path in sorted(map(str, uri.glob("Split-*/*"))):
        for record in tf.data.TFRecordDataset(path):
            example = tf.train.Example.FromString(record.numpy()).features.feature
            label = labels[example["label"].int64_list.value[0]]
            words = str(example["words"].int64_list.value[0])
            found.append((example["text"].bytes_list.value[0].decode(), label, words))
    assert sorted(found) == sorted((row["text"], row["label"], row["words"]) for row in rows)


def test_datum_and_input_fn_read_the_same(demo):
    uri = str(artifact(demo, "ShardBalancer", "balanced_examples"))
    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    for split in ("train", "eval"):
        theirs = [
            {name: value.numpy()[0] for name, value in example.items()}
            for example in loaded.val_fn(split)
        ]
        ours = trainer_utils.input_fn(uri, split, batch_size=None).as_numpy_iterator()
        assert by_id(ours) == by_id(theirs)


def by_id(examples) -> dict[bytes, tuple[bytes, int, int]]:
    """Every example's values."""
    return {e["id"]: (e["text"], int(e["label"]), int(e["words"])) for e in examples}


def test_statistics_and_schema_see_every_column(demo):
    folder = artifact(demo, "StatisticsGen", "statistics") / "Split-train"
    statistics = statistics_pb2.DatasetFeatureStatisticsList.FromString(
        next(folder.iterdir()).read_bytes()
    )
    names = {feature.path.step[0] for feature in statistics.datasets[0].features}
    assert names == {"text", "label", "words", "id"}


def test_the_model_is_well_above_chance_and_serves_texts(demo):
    metrics = json.loads((artifact(demo, "Trainer", "model_run") / "metrics.json").read_text())
    assert metrics["num_classes"] == 4
    assert metrics["replicas"] == 2
    assert metrics["eval_accuracy"] > 0.5
    (version,) = (demo[0] / "own-texts/serving").iterdir()
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    result = serve(text=tf.constant(["Redistributions of source code must retain the notice."]))
    assert result["probabilities"].shape == (1, 4)
    assert float(tf.reduce_sum(result["probabilities"])) == pytest.approx(1, abs=1e-5)
