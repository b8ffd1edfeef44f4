"""Other people's formats go in: by the real package where it runs, else files that it wrote."""

import collections
import json
import shutil
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


def test_a_tfds_folder_is_balanced(tmp_path):
    manifest = balance(GOLDEN / "tfds", tmp_path, num_shards="3")
    written = {split: entry["written"] for split, entry in manifest["splits"].items()}
    assert written == {"train": 20, "validation": 5}
    for split in written:
        assert moved(tmp_path, split) == records_of(sorted((GOLDEN / "tfds").glob(f"*-{split}.*")))
    assert (tmp_path / "vocab/label.txt").read_text() == "cat\ndog\nowl\n"
    features = json.loads((tmp_path / "datum_to_type_and_shape_mapping.json").read_text())
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


def test_a_tfds_shard_of_another_length_than_it_says_is_refused(tmp_path):
    for path in (GOLDEN / "tfds").iterdir():
        text = path.read_bytes().replace(b'"20"', b'"19"')
        (tmp_path / path.name).write_bytes(text)
    with pytest.raises(trainer_utils.DatasetError, match="expected 19 records as the dataset says"):
        balance(tmp_path, tmp_path / "out")


def test_what_tfrecorder_wrote_is_balanced_and_read(tmp_path):
    manifest = balance(GOLDEN / "tfrecorder", tmp_path, num_shards="2")
    written = {split: entry["written"] for split, entry in manifest["splits"].items()}
    assert written == {"train": 8, "validation": 2, "test": 2}
    for split in written:
        given = sorted((GOLDEN / "tfrecorder").glob(f"{split}-*"))
        assert moved(tmp_path, split) == records_of(given)
    for uri in (GOLDEN / "tfrecorder", tmp_path):
        (labels,) = trainer_utils.input_fn(
            str(uri), split="train", features="image_height", label="label", batch_size=8
        )
        assert labels[0].numpy().tolist() == [8] * 8
        assert sorted(labels[1].numpy().tolist()) == [0] * 4 + [1] * 4


def test_a_datum_dataset_is_balanced_and_read(datum_photos, tmp_path):
    manifest = balance(Path(datum_photos), tmp_path, num_shards="4")
    written = {split: entry["written"] for split, entry in manifest["splits"].items()}
    assert written == {"train": 23, "val": 7}
    for split in written:
        given = sorted(Path(datum_photos).glob(f"{split}-*"))
        assert moved(tmp_path, split) == records_of(given)
    kept = "datum_to_type_and_shape_mapping.json"
    assert json.loads((tmp_path / kept).read_text()) == json.loads(
        (Path(datum_photos) / kept).read_text()
    )
    images = trainer_utils.input_fn(str(tmp_path), features="image", batch_size=23)
    assert next(iter(images)).shape == (23, 40, 48, 3)


def test_a_folder_of_bare_files_is_balanced_and_read(tmp_path):
    records = [example(number, number % 50 + 1) for number in range(300)]
    for name, group in (("a.tfrecord", records[:120]), ("b.tfrecord", records[120:])):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for record in group:
                writer.write(record)
    balance(tmp_path, tmp_path / "out", num_shards="4")
    assert moved(tmp_path / "out", "train") == collections.Counter(records)
    (batch,) = trainer_utils.input_fn(str(tmp_path), features="id", batch_size=300)
    assert sorted(batch.numpy().tolist()) == list(range(300))


def test_images_of_a_stock_dataset_are_known_for_images(tmp_path, photos, serialize):
    (tmp_path / "in/Split-train").mkdir(parents=True)
    encoded = [tf.io.encode_jpeg(photo[: 30 + n % 2]).numpy() for n, photo in enumerate(photos)]
    with tf.io.TFRecordWriter(str(tmp_path / "in/Split-train/data")) as writer:
        for number, data in enumerate(encoded):
            writer.write(serialize(image=[data], other=[data if number else b"none"]))
    balance(tmp_path / "in", tmp_path / "out")
    features = json.loads((tmp_path / "out/datum_to_type_and_shape_mapping.json").read_text())
    assert features == {
        "image": {"type": "string", "shape": [30, 48, 3], "dense": True, "sizes": "mixed"},
        "other": {"type": "string", "shape": [], "dense": True},
    }


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


@pytest.mark.parametrize("name", ["label.labels.txt", "dataset_info.json", "features.json"])
def test_what_is_not_utf_8_is_named_with_its_byte(tmp_path, name):
    source = tmp_path / "tfds"
    shutil.copytree(GOLDEN / "tfds", source)
    data = (source / name).read_bytes()
    (source / name).write_bytes(data[:2] + b"\xe9" + data[2:])
    with pytest.raises(Exception, match=rf"{name}'.*UTF-8.*\(byte 2\)"):
        balance(source, tmp_path / "out", num_shards="1")
