"""Folders and files as others have them: pipeline roots, raw photos, gzip of any name."""

import os

import pytest
import tensorflow as tf

from trainer_utils import DatasetError, DatasetWriter, input_fn, iterate

RECORDS = 12


def _write(folder: str) -> str:
    with DatasetWriter(folder) as writer:
        for number in range(RECORDS):
            writer.write("train", {"id": number})
    return folder


def _ids(read_by, place, **settings) -> list[int]:
    dataset = read_by(place, "train", batch_size=5, features="id", **settings)
    batches = dataset.as_numpy_iterator() if read_by is input_fn else dataset
    return sorted(int(number) for batch in batches for number in batch)


def test_the_only_dataset_below_a_pipelines_root_is_the_one_that_is_meant(tmp_path):
    _write(str(tmp_path / "root" / "ImageExampleGen" / "examples" / "3"))
    (tmp_path / "root" / "metadata.sqlite").write_bytes(b"x")
    (tmp_path / "root" / "StatisticsGen" / "statistics" / "4").mkdir(parents=True)
    assert _ids(iterate, str(tmp_path / "root")) == list(range(RECORDS))


def test_of_several_all_are_named_the_newest_first(tmp_path):
    places = [tmp_path / "root" / name for name in ("Gen/examples/3", "Balancer/balanced/9")]
    for age, place in enumerate(places):
        _write(str(place))
        for path in [place, *place.rglob("*")]:
            os.utime(path, (1_000_000 + age, 1_000_000 + age))
    with pytest.raises(DatasetError) as caught:
        input_fn(str(tmp_path / "root"))
    message = str(caught.value)
    assert 0 < message.index(str(places[1])) < message.index(str(places[0]))


@pytest.mark.parametrize("name", ["1.jpg", "train/cat/1.jpg", "notes.txt"])
def test_raw_files_are_for_convert(tmp_path, name):
    path = tmp_path / "raw" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"raw")
    with pytest.raises(DatasetError, match=f"tfx-shards convert {tmp_path / 'raw'}"):
        input_fn(str(tmp_path / "raw"))


@pytest.mark.parametrize(
    ("read_by", "name", "is_packed", "shuffle"),
    [
        (input_fn, "data.tfrecord", True, True),
        (iterate, "data.tfrecord", True, False),
        (iterate, "train-00000-of-00001", True, True),
        (iterate, "train-00000-of-00001", False, True),
        (iterate, "data.tfrecord.gz", False, True),
    ],
)
def test_gzip_is_known_by_its_bytes(tmp_path, serialize, read_by, name, is_packed, shuffle):
    path = tmp_path / name
    with tf.io.TFRecordWriter(str(path), options="GZIP" if is_packed else "") as writer:
        for number in range(RECORDS):
            writer.write(serialize(id=[number]))
    for place in (str(path), str(tmp_path)):
        assert _ids(read_by, place, shuffle=shuffle) == list(range(RECORDS))
    path.write_bytes(path.read_bytes()[: RECORDS * 8])
    with pytest.raises((DatasetError, tf.errors.OpError), match=name):
        _ids(read_by, str(path), shuffle=shuffle)
