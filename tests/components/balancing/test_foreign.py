"""Test datasets of other tools, written by the real package or stored as golden files.

All readers must infer the same features of such a dataset. The oracle of each stock dataset is how
it was generated; the oracle of the component is the files of the other tools.
"""

import collections
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import trainer_utils
from components import steps
from components.report.inspection import inspect_dataset
from tests.components.balancing.test_executor import balance, example, write_stock
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature
from trainer_utils.format.datum import parse_features

GOLDEN = Path(__file__).parents[2] / "golden"
TYPES = "datum_to_type_and_shape_mapping.json"


def moved(paths: Iterable[Path]) -> collections.Counter[bytes]:
    """Return the records of some shards, read with TensorFlow's own reader."""
    return collections.Counter(
        record.numpy()
        for path in paths
        for record in tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix == ".gz" else "")
    )


@pytest.fixture
def bare(tmp_path):
    records = [example(number, number % 50 + 1) for number in range(300)]
    write_stock(tmp_path, "bare", [records[:120], records[120:]], suffix="")
    folder = (tmp_path / "Split-bare").rename(tmp_path / "bare")
    for name, path in zip("ab", sorted(folder.iterdir()), strict=True):
        path.rename(folder / f"train-{name}.tfrecord")
    return folder


@pytest.mark.parametrize(
    ("kind", "counts", "pattern"),
    [
        ("tfds", {"train": 20, "validation": 5}, "*-{}.*"),
        ("tfrecorder", {"train": 8, "validation": 2, "test": 2}, "{}-*"),
        ("datum", {"train": 23, "val": 7}, "{}-*"),
        ("bare", {"train": 300}, "{}-*"),
    ],
)
def test_every_record_of_third_party_datasets_is_moved(
    tmp_path, datum_photos, bare, kind, counts, pattern
):
    given = {"datum": Path(datum_photos), "bare": bare}.get(kind, GOLDEN / kind)
    manifest = balance(given, tmp_path / "out", num_shards="3")
    assert {split: entry["written"] for split, entry in manifest["splits"].items()} == counts
    for split in counts:
        made = (tmp_path / "out" / f"Split-{split}").iterdir()
        assert moved(made) == moved(given.glob(pattern.format(split)))
    features = json.loads((tmp_path / "out" / TYPES).read_text())
    if kind == "datum":
        assert features == json.loads((given / TYPES).read_text())
    if kind == "tfds":
        assert (tmp_path / "out/vocab/label.txt").read_text() == "cat\ndog\nowl\n"
        assert features["vec"] == {"type": "float", "shape": [3], "dense": True}
        assert features["objects/bbox"]["dense"] is False


@pytest.mark.parametrize("balanced", [False, True])
def test_input_fn_reads_a_tfds_folder(tmp_path, balanced):
    uri = GOLDEN / "tfds"
    if balanced:
        balance(uri, tmp_path, num_shards="3")
        uri = tmp_path
    batches = trainer_utils.input_fn(
        str(uri),
        split="train",
        features=["image", "label", "nested/a", "tokens", "vec", "mat", "objects/bbox"],
        batch_size=20,
        image_size=(10, 12),
        shuffle=False,
    )
    (batch,) = batches
    assert batch["image"].shape == (20, 10, 12, 3)
    numbers = batch["nested/a"].numpy().tolist()
    assert sorted(numbers) == list(range(20))
    assert batch["label"].numpy().tolist() == [n % 3 for n in numbers]
    assert batch["vec"].numpy().tolist() == [[1.0, 2.0, n] for n in numbers]
    assert batch["mat"].numpy().tolist() == [[[1, 2], [3, n]] for n in numbers]
    padded = [(list(range(n % 5)) + [0] * 4)[:4] for n in numbers]
    assert batch["tokens"].numpy().tolist() == padded
    assert len(trainer_utils.input_fn(str(uri), split="val", features="vec", batch_size=5)) == 1


def test_sequence_example_raises_with_its_file(tmp_path):
    """Raise rather than drop feature lists, since a later reader would not know of them."""
    source = tmp_path / "clips"
    source.mkdir()
    with tf.io.TFRecordWriter(str(source / "train.tfrecord")) as writer:
        for number in range(3):
            clip = tf.train.SequenceExample()
            clip.context.feature["id"].int64_list.value.append(number)
            clip.feature_lists.feature_list["frames"].feature.add().float_list.value.append(0.5)
            writer.write(clip.SerializeToString())
    with pytest.raises(
        Exception, match=r"SequenceExample, whose feature lists .*\(.*train\.tfrecord"
    ):
        balance(source, tmp_path / "out", num_shards="1")
    assert not (tmp_path / "out" / "manifest.json").exists()


RECORDS = 300  # more than the 256 that input_fn once inspected
TEXT = Feature(type="string")
IMAGE = Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"})
Values = Callable[[int, bytes], list[bytes]]
# The values of the n-th of 300 records, and the expected feature.
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


def answers(uri: Path, tmp_path: Path) -> dict[str, dict[str, Feature]]:
    """Return the features of a dataset as every part of the code that opens it infers them."""
    balance(uri, tmp_path / "balanced", num_shards="1")
    steps.export_schema(str(uri), str(tmp_path / "schema"))
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
def test_stock_dataset_has_the_same_features_everywhere(tmp_path, photos, serialize, kind):
    values, expected = IMAGES[kind]
    photo = tf.io.encode_jpeg(photos[0]).numpy()
    records = [serialize(id=[n], image=values(n, photo)) for n in range(RECORDS)]
    write_stock(uri := tmp_path / "stock", "train", [records[:9], records[9:]])
    found = answers(uri, tmp_path)
    assert found == {who: {"id": Feature(type="int"), "image": expected} for who in found}
    assert spec_of(uri) == spec_of(tmp_path / "balanced") == spec_of(tmp_path / "schema")
    is_picture = spec_of(uri)["image"].dtype == tf.uint8
    assert is_picture == (kind == "all")


@pytest.mark.parametrize("name", ["tfds", "tfrecorder", "datum"])
def test_third_party_dataset_has_the_same_features_everywhere(tmp_path, datum_photos, name):
    uri = Path(datum_photos) if name == "datum" else GOLDEN / name
    found = answers(uri, tmp_path)
    assert found == dict.fromkeys(found, found["opened"])
    read = {"features": ["vec", "label", "image"], "image_size": (8, 8)} if name == "tfds" else {}
    assert spec_of(uri, **read) == spec_of(tmp_path / "balanced", **read)
