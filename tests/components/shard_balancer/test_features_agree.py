"""What the features of a dataset are has one answer, whoever asks, where its own files say nothing.

The oracle of each stock dataset is how it was made; the component's are the files that they wrote.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tfx.types import standard_artifacts

import trainer_utils
from components.report.inspection import inspect_dataset
from components.schema_export import Executor as SchemaExport
from tests.components.shard_balancer.test_executor import balance
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature
from trainer_utils.format.datum import parse_features

GOLDEN = Path(__file__).parents[2] / "golden"
TYPES = "datum_to_type_and_shape_mapping.json"
RECORDS = 300  # more than the 256 that input_fn once looked at
TEXT = Feature(type="string")
IMAGE = Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"})
Values = Callable[[int, bytes], list[bytes]]
# Which values the n-th of 300 records has, and what feature that is.
IMAGES: dict[str, tuple[Values, Feature]] = {
    "all": (lambda n, photo: [photo], IMAGE),
    "all but the last": (lambda n, photo: [photo if n < RECORDS - 1 else b"none"], TEXT),
    "the last alone": (lambda n, photo: [b"none" if n < RECORDS - 1 else photo], TEXT),
    "missing in the last": (
        lambda n, photo: [photo] if n < RECORDS - 1 else [],
        Feature(type="string", shape=(1,), dense=False),
    ),
    "two each": (
        lambda n, photo: [photo, photo],
        Feature(type="string", shape=(2,), dense=False),
    ),
}


def write_stock(folder: Path, records: Iterator[bytes]) -> Path:
    (folder / "Split-train").mkdir(parents=True)
    for shard in range(2):
        path = folder / f"Split-train/data_tfrecord-{shard:05d}-of-00002.gz"
        with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions("GZIP")) as writer:
            for record in itertools.islice(records, RECORDS // 2):
                writer.write(record)
    return folder


def answers(uri: Path, tmp_path: Path) -> dict[str, dict[str, Feature]]:
    """What each that opens a dataset takes its features for."""
    balance(uri, tmp_path / "balanced", num_shards="1")
    given, made = standard_artifacts.Examples(), standard_artifacts.Schema()
    given.uri, made.uri = str(uri), str(tmp_path / "schema")
    SchemaExport().Do({"examples": [given]}, {"datum_schema": [made]}, {})
    written = {
        name: parse_features((tmp_path / name / TYPES).read_text(), path=name)
        for name in ("balanced", "schema")
    }
    return {
        "opened": dict(open_dataset(str(uri)).features),
        "inspected": dict(inspect_dataset(str(uri)).features),
        **written,
    }


def spec_of(uri: Path, **settings: Any) -> Any:
    return trainer_utils.input_fn(str(uri), "train", batch_size=2, **settings).element_spec


@pytest.mark.parametrize("kind", IMAGES)
def test_a_stock_dataset_has_one_set_of_features(tmp_path, photos, serialize, kind):
    values, expected = IMAGES[kind]
    photo = tf.io.encode_jpeg(photos[0]).numpy()
    uri = write_stock(
        tmp_path / "stock",
        (serialize(id=[n], image=values(n, photo)) for n in range(RECORDS)),
    )
    found = answers(uri, tmp_path)
    assert found == {who: {"id": Feature(type="int"), "image": expected} for who in found}
    assert spec_of(uri) == spec_of(tmp_path / "balanced") == spec_of(tmp_path / "schema")
    is_picture = spec_of(uri)["image"].dtype == tf.uint8
    assert is_picture == (kind == "all")


@pytest.mark.parametrize("name", ["tfds", "tfrecorder", "datum"])
def test_the_datasets_of_others_have_one_set_of_features(tmp_path, datum_photos, name):
    uri = Path(datum_photos) if name == "datum" else GOLDEN / name
    found = answers(uri, tmp_path)
    assert found == dict.fromkeys(found, found["opened"])
    read = {"features": ["vec", "label", "image"], "image_size": (8, 8)} if name == "tfds" else {}
    assert spec_of(uri, **read) == spec_of(tmp_path / "balanced", **read)
