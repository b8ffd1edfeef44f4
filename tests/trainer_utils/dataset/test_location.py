"""Test how datasets are found by path, pattern and other spellings, as TensorFlow reads them."""

import glob
import os

import pytest
import tensorflow as tf

import trainer_utils
from tests.make import write_records
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import find_named_files, newest_dataset, uri_and_split
from trainer_utils.format import Feature

NUM_FILES = {"train": 4, "validation": 2}
RECORDS = 5  # in each file


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory, serialize):
    """Write files with the names of keras_imagenet; label n is that of record n of its split."""
    folder = tmp_path_factory.mktemp("imagenet")
    example = {"image/class/text": [b"knee pad"]}
    for split, count in NUM_FILES.items():
        for index in range(count):
            numbers = range(index * RECORDS, (index + 1) * RECORDS)
            records = [serialize(**{"image/class/label": [n]}, **example) for n in numbers]
            write_records(folder / f"{split}-{index:05d}-of-{count:05d}", records)
    (folder / "synsets.txt").write_text("n03623198\n")
    return folder


def labels(place, **settings):
    settings = {"batch_size": 4, "shuffle": False, "features": "image/class/label", **settings}
    dataset = trainer_utils.input_fn(place, **settings)
    return [int(label) for batch in dataset for label in batch]


def stored(*paths):
    """Return the labels that TensorFlow's own reader finds."""
    records = tf.data.TFRecordDataset(list(paths))
    examples = map(tf.train.Example.FromString, records.as_numpy_iterator())
    return [one.features.feature["image/class/label"].int64_list.value[0] for one in examples]


@pytest.mark.parametrize(
    ("pattern", "split"),
    [
        ("train-*", None),
        ("train-0000[12]-*", None),
        ("t*-0000?-of-*", None),
        ("*ation-*", "val"),
    ],
)
def test_pattern_matches_the_files_of_a_shell(imagenet, pattern, split):
    expected = stored(*sorted(glob.glob(f"{imagenet}/{pattern}")))
    assert expected
    assert labels(f"{imagenet}/{pattern}", split=split) == expected


def test_folder_of_files_without_extension_is_a_dataset(imagenet):
    assert open_dataset(str(imagenet)).records == {"train": 20, "validation": 10}
    assert labels(str(imagenet), split="eval") == list(range(10))


def test_list_of_files_is_one_dataset_in_order(imagenet):
    files = [f"{imagenet}/train-0000{index}-of-00004" for index in (3, 0)]
    assert labels(files) == stored(*files)
    plan = trainer_utils.plan(files, batch_size=5)
    assert (plan.records, plan.steps) == (10, 2)
    splits = trainer_utils.load(f"{imagenet}/*", batch_size=4, features="image/class/label")
    assert list(splits) == ["train", "validation"]
    assert splits["val"] is splits["validation"]
    with pytest.raises(KeyError, match="split 'tset': expected one of train, validation"):
        splits["tset"]


def test_files_with_other_names_and_places_are_read(tmp_path, imagenet, in_memory):
    for folder, name in (("a/train", "x.bin"), ("b/dev", "part 0[1]")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_bytes((imagenet / "train-00000-of-00004").read_bytes())
    assert labels(str(tmp_path / "a/train/x.bin")) == list(range(5))
    assert labels(str(tmp_path / "b/dev/part 0[1]")) == list(range(5))  # not a pattern
    assert open_dataset(f"{tmp_path}/*/*/*").records == {"train": 5, "dev": 5}
    remote = in_memory(imagenet, "imagenet")
    assert labels(f"{remote}/train-0000[01]-*") == list(range(10))


@pytest.mark.parametrize("name", ["run[3]", "a*b", "[", "x[0-9]/y*"])
def test_folder_with_wildcards_in_its_name_is_read(tmp_path, write_dataset, name, subtests):
    write_dataset(
        tmp_path / name, {"train": [[{"id": [1]}], [{"id": [2]}]]}, {"id": Feature(type="int")}
    )
    write_dataset(tmp_path / "run3", {"train": [[{"id": [9]}]]}, {"id": Feature(type="int")})
    folder = tmp_path / name
    shards = "Split-train/data_tfrecord-*"
    for given in (folder, f"{folder}/", f"file://{folder}", f"{folder}/{shards}", [str(folder)]):
        with subtests.test(given=given):
            batches = trainer_utils.iterate(given, "train", shuffle=False, batch_size=4)
            assert [batch["id"].tolist() for batch in batches] == [[1, 2]]
    assert find_named_files([f"{folder}/{shards}1-*"])[0][0].endswith("00001-of-00002")
    both = trainer_utils.iterate([str(folder), str(tmp_path / "run3")], shuffle=False)
    assert [batch["id"].tolist() for batch in both] == [[1, 2, 9]]


def test_files_of_a_dataset_keep_its_metadata(tmp_path, write_dataset):
    shards = [[{"n": [number], "list": [number] * 2}] for number in range(3)]
    features = {"n": Feature(type="int"), "list": Feature(type="int", shape=(2,))}
    uri = write_dataset(tmp_path, {"train": shards, "holdout": shards[:1]}, features)
    first = f"{uri}/Split-train/data_tfrecord-00000-of-00003"
    dataset = open_dataset(first)
    assert (dataset.records, dataset.features) == ({"train": 1}, features)
    assert open_dataset(f"{uri}/Split-holdout/data_tfrecord-0000[0]-*").records == {"holdout": 1}
    assert open_dataset(f"{uri}/Split-train/data_tfrecord-*").records == {"train": 3, "holdout": 1}
    data = bytearray((tmp_path / "Split-train/data_tfrecord-00000-of-00003").read_bytes())
    data[-1] ^= 1
    (tmp_path / "Split-train/data_tfrecord-00000-of-00003").write_bytes(data)
    with pytest.raises(tf.errors.InvalidArgumentError, match="data_tfrecord-00000-of-00003"):
        list(trainer_utils.input_fn(first))


def test_missing_files_raise_with_their_path(imagenet, subtests):
    for name in ("tran-*", "train-00004-of-00004", "nowhere/train-00000-of-00001", "*.txt"):
        with subtests.test(name=name):
            with pytest.raises(DatasetError) as caught:
                open_dataset(f"{imagenet}/{name}")
            assert f"{imagenet}/{name}" in str(caught.value)


def test_missing_shard_that_the_pattern_matches_raises(imagenet, tmp_path):
    for name in ("train-00000-of-00003", "train-00002-of-00003"):
        (tmp_path / name).write_bytes((imagenet / "train-00000-of-00004").read_bytes())
    with pytest.raises(DatasetError, match="train-00001-of-00003': is missing, one of at most 1"):
        find_named_files([f"{tmp_path}/train-*"])
    assert len(find_named_files([f"{tmp_path}/train-0000[02]-*"])) == 2
    (tmp_path / "x-00000-of-999999999").write_bytes(b"")
    with pytest.raises(DatasetError, match="one of at most 999999998"):
        find_named_files([f"{tmp_path}/x-*"])


def test_dataset_and_split_are_parsed_from_tfx_patterns(subtests):
    uri = "gs://bucket/Split-up/7"  # a parent folder is named like a split
    for tail, split in {
        "": None,
        "/": None,
        "/Split-train": "train",
        "/Split-train/*": "train",
        "/Split-eval/data_tfrecord-*": "eval",
    }.items():
        with subtests.test(tail=tail):
            assert uri_and_split(uri + tail) == (uri, split)


def test_newest_dataset_is_the_target_of_the_link(tmp_path):
    made = tmp_path / "artifacts/ShardBalancer/balanced_examples/4"
    made.mkdir(parents=True)
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    os.symlink("artifacts/ShardBalancer/balanced_examples/4", tmp_path / "latest")
    assert newest_dataset(f"{tmp_path}/") == newest_dataset(f"{tmp_path}/latest") == str(made)
    (tmp_path / "manifest.json").touch()  # the folder itself is now a dataset
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    assert newest_dataset("gs://bucket/out") == "gs://bucket/out"
