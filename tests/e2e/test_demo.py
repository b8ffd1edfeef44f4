"""The demonstration: photos, a pipeline in a separate process, and third-party readers."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from datum.reader import load

import trainer_utils

pytestmark = pytest.mark.e2e
REPOSITORY = Path(__file__).parents[2]


def run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("TF_USE_LEGACY_KERAS", None)  # set in this process by the import of TFX
    return subprocess.run(
        [sys.executable, "-m", "pipelines.examples.demo"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    finished = run_demo(folder)
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


def only_child(folder: Path) -> Path:
    (child,) = (path for path in folder.iterdir() if path.is_dir())
    return child


def artifact(demo: Path, component: str, output: str) -> Path:
    return only_child(demo / "demo-run/own/artifacts" / component / output)


def records_of(uri: Path, split: str) -> list[tf.train.Example]:
    """Return the examples of a split, read by TensorFlow."""
    paths = sorted(str(path) for path in (uri / f"Split-{split}").iterdir())
    return [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(paths)]


def first(example: tf.train.Example, name: str):
    feature = example.features.feature[name]
    return (feature.bytes_list.value or feature.int64_list.value)[0]


def test_the_model_is_well_above_chance(demo):
    metrics = json.loads((artifact(demo, "Trainer", "model_run") / "metrics.json").read_text())
    assert metrics["num_classes"] == 5
    assert metrics["replicas"] == 2
    assert metrics["eval_accuracy"] > 0.6


def test_each_photo_is_in_one_split_once(demo, subtests):
    photos = [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (demo / "demo-run/photos").rglob("*.*")
        if path.stem.isdigit()
    ]
    assert len(photos) == 600
    for place in (("ImageExampleGen", "examples"), ("ShardBalancer", "balanced_examples")):
        with subtests.test(place=place):
            stored = [
                hashlib.sha256(first(example, "image")).hexdigest()
                for split in ("train", "eval")
                for example in records_of(artifact(demo, *place), split)
            ]
            assert sorted(stored) == sorted(photos)


def test_datum_reads_what_input_fn_reads(demo, subtests):
    uri = str(artifact(demo, "ShardBalancer", "balanced_examples"))
    for split, count in (("train", 404), ("eval", 196)):
        with subtests.test(split=split):
            ours = {
                (e["filename"].numpy(), int(e["label"]), e["image"].numpy().tobytes())
                for e in trainer_utils.input_fn(uri, split, batch_size=None)
            }
            assert len(ours) == count
            for place in (
                ("ShardBalancer", "balanced_examples"),
                ("SchemaExport", "datum_dataset"),
            ):
                loaded = load(str(artifact(demo, *place)))
                loaded.dataset_configs.batch_size_val = 1
                theirs = {
                    (e["filename"].numpy()[0], int(e["label"][0]), e["image"].numpy()[0].tobytes())
                    for e in loaded.val_fn(split)
                }
                assert ours == theirs


def test_statistics_hold_no_image_bytes(demo):
    import tensorflow_data_validation as tfdv

    folder = artifact(demo, "StatisticsGen", "statistics") / "Split-train"
    statistics = tfdv.load_stats_binary(str(folder / "FeatureStats.pb"))
    by_name = {f.path.step[0]: f for f in statistics.datasets[0].features}
    assert by_name["height"].num_stats.common_stats.num_non_missing == 404
    assert len(statistics.SerializeToString()) < 100_000
    assert b"JFIF" not in statistics.SerializeToString()


def test_the_pushed_model_serves_encoded_photos(demo):
    version = only_child(demo / "demo-run/own/serving")
    model = tf.saved_model.load(str(version))
    photo = next((demo / "demo-run/photos/palace_sky").glob("*.jpg")).read_bytes()
    result = model.signatures["serving_default"](image=tf.constant([photo]))
    assert result["probabilities"].shape == (1, 5)
    assert float(tf.reduce_sum(result["probabilities"])) == pytest.approx(1, abs=1e-5)


def test_second_run_is_cached(demo):
    assert "from the cache: 7 of 7" in run_demo(demo).stdout
