"""Other people's formats go in: by the real package where it runs, else files that it wrote."""

import collections
import json
from pathlib import Path

import pytest
import tensorflow as tf

import trainer_utils
from tests.components.shard_balancer.test_executor import balance, example, read

GOLDEN = Path(__file__).parents[2] / "golden"


def records_of(paths: list[Path]) -> collections.Counter[bytes]:
    return collections.Counter(
        record.numpy()
        for path in paths
        for record in tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix == ".gz" else "")
    )


def moved(folder: Path, split: str) -> collections.Counter[bytes]:
    return collections.Counter(record for shard in read(folder, split) for record in shard)


@pytest.fixture
def bare(tmp_path):
    records = [example(number, number % 50 + 1) for number in range(300)]
    (tmp_path / "bare").mkdir()
    for name, group in (("train-a.tfrecord", records[:120]), ("train-b.tfrecord", records[120:])):
        with tf.io.TFRecordWriter(str(tmp_path / "bare" / name)) as writer:
            for record in group:
                writer.write(record)
    return tmp_path / "bare"


@pytest.mark.parametrize(
    ("kind", "counts", "pattern"),
    [
        ("tfds", {"train": 20, "validation": 5}, "*-{}.*"),
        ("tfrecorder", {"train": 8, "validation": 2, "test": 2}, "{}-*"),
        ("datum", {"train": 23, "val": 7}, "{}-*"),
        ("bare", {"train": 300}, "{}-*"),
    ],
)
def test_every_record_of_others_is_moved(tmp_path, datum_photos, bare, kind, counts, pattern):
    given = {"datum": Path(datum_photos), "bare": bare}.get(kind, GOLDEN / kind)
    manifest = balance(given, tmp_path / "out", num_shards="3")
    assert {split: entry["written"] for split, entry in manifest["splits"].items()} == counts
    for split in counts:
        assert moved(tmp_path / "out", split) == records_of(
            sorted(given.glob(pattern.format(split)))
        )
    mapping = "datum_to_type_and_shape_mapping.json"
    features = json.loads((tmp_path / "out" / mapping).read_text())
    if kind == "datum":
        assert features == json.loads((given / mapping).read_text())
    if kind == "tfds":
        assert (tmp_path / "out/vocab/label.txt").read_text() == "cat\ndog\nowl\n"
        assert features["vec"] == {"type": "float", "shape": [3], "dense": True}
        assert features["objects/bbox"]["dense"] is False


@pytest.mark.parametrize("balanced", [False, True])
def test_a_tfds_folder_is_read_by_input_fn(tmp_path, balanced):
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


def test_feature_lists_that_no_schema_holds_are_refused_by_file(tmp_path):
    """Passed over they would be lost: a later reader would not know that they are there."""
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
