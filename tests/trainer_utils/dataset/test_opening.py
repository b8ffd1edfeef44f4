"""Test opening of datasets from all writers, and errors for missing or incomplete ones."""

import itertools
import os
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.make import run_python, write_anywhere, write_records
from trainer_utils import DatasetWriter, storage
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError
from trainer_utils.dataset import open_dataset, read_shard_blocks
from trainer_utils.dataset.location import list_dataset
from trainer_utils.format import Feature, SplitRange, encode_example
from trainer_utils.format.datum import render_features
from trainer_utils.format.naming import WORKING_FOLDER

RECORDS = 12
FEATURES = {"id": Feature(type="int"), "text": Feature(type="string")}
SHARD = "Split-train/data_tfrecord-00001-of-00003"


def examples(start: int, stop: int) -> list[dict]:
    return [{"id": [number], "text": [b"text %d" % number]} for number in range(start, stop)]


def write_stock(uri: Path, split: str, shards: Sequence[list[bytes]], suffix: str = ".gz") -> str:
    """Write the artifact of a stock ExampleGen by TensorFlow's writer; return its uri."""
    for index, records in enumerate(shards):
        path = uri / f"Split-{split}/data_tfrecord-{index:05d}-of-{len(shards):05d}{suffix}"
        write_records(path, records, "GZIP" if suffix else "")
    return str(uri)


def refusal(uri: Path, **options: Any) -> str:
    """Return the error for opening or reading a dataset, which must be one line."""
    with pytest.raises(DatasetError) as caught:
        trainer_utils.iterate(str(uri), **options) if options else open_dataset(str(uri))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def ours(tmp_path, write_dataset) -> Path:
    """Write 10 training examples in shards of 4, 1 and 5, and 3 evaluation examples."""
    shards = [examples(0, 4), examples(4, 5), examples(5, 10)]
    write_dataset(tmp_path / "ours", {"train": shards, "eval": [examples(10, 13)]}, FEATURES)
    return tmp_path / "ours"


@pytest.fixture
def stock(tmp_path, serialize) -> Path:
    """Write the same examples as a stock ExampleGen: gzip, with no files except the shards."""
    records = [serialize(**example) for example in examples(0, 13)]
    write_stock(tmp_path / "stock", "train", [records[:4], records[4:5], records[5:10]])
    write_stock(tmp_path / "stock", "eval", [records[10:]])
    return tmp_path / "stock"


def write_numbers(folder: Path, count: int = RECORDS, **settings: Any) -> None:
    with DatasetWriter(str(folder), **settings) as writer:
        for number in range(count):
            writer.write("train", {"id": number})


def ids_read(read_by, place, **settings) -> list[int]:
    dataset = read_by(place, "train", batch_size=5, features="id", **settings)
    batches = dataset.as_numpy_iterator() if read_by is trainer_utils.input_fn else dataset
    return sorted(int(number) for batch in batches for number in batch)


@pytest.mark.parametrize("gzip", [False, True])
def test_tfx_shards_dataset_is_opened_by_its_manifest(tmp_path, write_dataset, gzip):
    shards = {"train": [examples(0, 4), examples(4, 5)], "eval": [examples(5, 8)]}
    uri = write_dataset(tmp_path, shards, FEATURES, gzip=gzip)
    dataset = open_dataset(uri)
    assert dataset.uri == uri
    assert dataset.features == FEATURES
    assert dataset.records == {"train": 5, "eval": 3}
    paths = sorted((tmp_path / "Split-train").iterdir())
    found = [(Path(shard.path), shard.records, shard.bytes) for shard in dataset.shards["train"]]
    assert found == [(p, n, p.stat().st_size) for p, n in zip(paths, [4, 1], strict=True)]
    for start, stop in itertools.combinations_with_replacement(range(6), 2):
        ranges = dataset.file_ranges(SplitRange("train", start, stop))
        places = [
            (paths.index(Path(part.path)), part.skip + n)
            for part in ranges
            for n in range(part.take)
        ]
        assert places == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)][start:stop]


def test_datum_dataset_is_opened_by_its_json_files(datum_photos):
    dataset = open_dataset(datum_photos)
    assert dataset.records == {"train": 23, "val": 7}
    assert dataset.features == {
        "image": Feature(type="string", shape=(40, 48, 3)),
        "id": Feature(type="int"),
        "label": Feature(type="int"),
        "weight": Feature(type="float"),
    }
    (shard,) = dataset.shards["val"]
    assert Path(shard.path).is_relative_to(datum_photos)
    assert shard.bytes == Path(shard.path).stat().st_size


OPTIONAL = {"optional": True}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # values of one feature in two examples; None if it is missing
        ([[1], [2]], Feature(type="int")),
        ([[0.5, 1.5], [2.5, 3.5]], Feature(type="float", shape=(2,))),
        ([[b"a", b"b"], [b"c"]], Feature(type="string", shape=(2,), dense=False)),
        ([[1], None], Feature(type="int", shape=(1,), dense=False, extra=OPTIONAL)),
        # an empty feature without a type, from an empty cell of a CSV file
        ([[], [1]], Feature(type="int", shape=(1,), dense=False, extra=OPTIONAL)),
    ],
)
def test_features_of_a_stock_example_gen_are_inferred(tmp_path, serialize, values, expected):
    """Lists are padded with zeros; a missing integer, which could be a class, is -1."""
    records = [
        serialize(id=[number], **({} if value is None else {"x": value}))
        for number, value in enumerate(values)
    ]
    uri = write_stock(tmp_path, "train", [records])
    assert open_dataset(uri).features == {"id": Feature(type="int"), "x": expected}
    (batch,) = trainer_utils.input_fn(uri, shuffle=False).as_numpy_iterator()
    for row, value in zip(batch["x"], values, strict=True):
        read = np.atleast_1d(row).tolist()
        present = len(value or [])
        assert read[:present] == (value or [])
        missing = -1 if expected.extra else 0
        assert all(one in (missing, b"") for one in read[present:])


@pytest.mark.parametrize("name", ["ours", "stock"])
def test_remote_dataset_is_opened_like_a_local_one(
    request, in_memory, monkeypatch, tmp_path, name, subtests
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # for copies that TensorFlow reads
    local: Path = request.getfixturevalue(name)
    remote = in_memory(local, f"{local.parent.name}/{name}")
    dataset = open_dataset(remote)
    assert dataset.records == {"train": 10, "eval": 3}
    assert dataset.features == FEATURES
    for shuffle in (False, True, *(["global"] if name == "ours" else [])):  # not for gzip files
        with subtests.test(shuffle=shuffle):
            read = trainer_utils.input_fn(remote, batch_size=None, features="id", shuffle=shuffle)
            ids = list(read.as_numpy_iterator())
            assert (sorted(ids) if shuffle else ids) == list(range(10))


def test_tfx_artifact_is_opened_at_its_uri(ours):
    artifact = pytest.importorskip("tfx.types.standard_artifacts").Examples()
    artifact.uri = str(ours)
    assert open_dataset(artifact).records == {"train": 10, "eval": 3}


def test_invalid_uri_raises_with_its_value(subtests):
    for value in (None, "", 5, b"bytes", types.SimpleNamespace(uri=None)):
        with subtests.test(value=value):
            with pytest.raises(ConfigError) as caught:
                open_dataset(value)
            assert (caught.value.setting, caught.value.value) == ("artifact_uri", value)


def test_output_folder_of_convert_opens_its_newest_dataset(ours, tmp_path, subtests):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/latest").symlink_to(ours, target_is_directory=True)
    for spelling in ("out", "out/", "out/latest", "out/latest/Split-train/*"):
        with subtests.test(spelling=spelling):
            assert open_dataset(f"{tmp_path}/{spelling}").records["train"] == 10


def test_missing_or_empty_folder_raises_with_its_path(tmp_path, subtests):
    (tmp_path / "empty").mkdir()
    (tmp_path / "others/Split-train").mkdir(parents=True)
    for name in ("gone", "empty", "others"):
        with subtests.test(name=name):
            assert str(tmp_path / name) in refusal(tmp_path / name)


def test_missing_shard_or_unfinished_dataset_raises(ours):
    (ours / SHARD).unlink()
    assert f"shard '{SHARD}': is missing" in refusal(ours)
    (ours / "manifest.json").unlink()
    (ours / WORKING_FOLDER).mkdir()
    assert refusal(ours) == f"'{ours}': expected a whole dataset, got one that was never finished"


def test_truncated_stock_shard_raises_with_path_and_offset(tmp_path, serialize):
    records = [serialize(**example) for example in examples(0, 3)]
    write_stock(tmp_path, "train", [records], suffix="")
    path = tmp_path / "Split-train/data_tfrecord-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-1])
    message = refusal(tmp_path)
    assert str(path) in message
    assert f"(record 2, byte {len(records[0]) + len(records[1]) + 2 * 16})" in message


def test_damaged_gzip_shard_raises_with_its_path(stock, subtests):
    path = stock / f"{SHARD}.gz"
    data = path.read_bytes()
    bad_sum = data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]
    bad_code = data[:30] + bytes([data[30] ^ 255]) + data[31:]
    for damaged in (data[:-12], data[: len(data) // 2], bad_sum, bad_code, b"These are notes."):
        with subtests.test(damaged=damaged):
            path.write_bytes(damaged)
            assert str(path) in refusal(stock)
            with pytest.raises(CorruptShardError) as caught:
                list(read_shard_blocks(str(path)))
            assert caught.value.path == str(path)


def test_records_that_are_not_examples_raise_with_the_path(tmp_path):
    write_stock(tmp_path, "train", [[b"\xff\xff\xff not a message"]])
    message = refusal(tmp_path)
    assert "data_tfrecord-00000-of-00001.gz" in message
    assert "tf.train.Example" in message


def test_unknown_feature_raises_with_the_known_ones(ours, subtests):
    for options in ({"features": "pixels"}, {"features": ["id", "pixels"]}, {"label": "pixels"}):
        with subtests.test(options=options):
            said = f"feature 'pixels': expected one of id, text ({ours})"
            assert refusal(ours, **options) == said


def test_unchanged_dataset_is_inspected_once(stock, serialize, monkeypatch):
    from trainer_utils.dataset import opening

    read = []
    blocks = opening.read_shard_blocks
    monkeypatch.setattr(opening, "read_shard_blocks", lambda p: read.append(p) or blocks(p))
    first = open_dataset(str(stock))
    assert len(read) == 4
    assert open_dataset(str(stock)) == first
    assert len(read) == 4
    write_stock(stock, "eval", [[serialize(id=[1, 2], text=[b"other"])]])
    changed = open_dataset(str(stock))
    assert len(read) == 8
    assert changed.records == {"train": 10, "eval": 1}
    assert changed.features["id"] == Feature(type="int", shape=(2,), dense=False)


def test_metadata_takes_precedence_over_inspection(stock):
    assert open_dataset(str(stock)).features == FEATURES
    said = {"id": Feature(type="int", shape=(1,), dense=False)}
    (stock / "datum_to_type_and_shape_mapping.json").write_text(render_features(said))
    assert open_dataset(str(stock)).features == said
    assert open_dataset(str(stock), inspect=False).features == said


def test_opening_does_not_list_the_index_folder(tmp_path, monkeypatch):
    """There are two files per shard, and a bucket lists a thousand per request."""
    write_numbers(tmp_path, 6, num_shards=3)
    listed, folders = storage.list_folder, []

    def list_seen(folder: str) -> Any:
        folders.append(os.path.relpath(folder, tmp_path))
        return listed(folder)

    monkeypatch.setattr(storage, "list_folder", list_seen)
    dataset = open_dataset(str(tmp_path))
    assert sorted(folders) == [".", "Split-train"]
    assert all(os.path.isfile(shard.index_path) for shard in dataset.shard_files)
    assert {name.split("/")[0] for name in list_dataset(str(tmp_path)).sizes} >= {"index"}


def test_single_dataset_below_a_pipeline_root_is_opened(tmp_path):
    write_numbers(tmp_path / "root/ImageExampleGen/examples/3")
    (tmp_path / "root" / "metadata.sqlite").write_bytes(b"x")
    (tmp_path / "root" / "StatisticsGen" / "statistics" / "4").mkdir(parents=True)
    assert ids_read(trainer_utils.iterate, str(tmp_path / "root")) == list(range(RECORDS))


def test_several_datasets_below_a_root_raise_newest_first(tmp_path):
    places = [tmp_path / "root" / name for name in ("Gen/examples/3", "Balancer/balanced/9")]
    for age, place in enumerate(places):
        write_numbers(place)
        for path in [place, *place.rglob("*")]:
            os.utime(path, (1_000_000 + age, 1_000_000 + age))
    with pytest.raises(DatasetError) as caught:
        trainer_utils.input_fn(str(tmp_path / "root"))
    message = str(caught.value)
    assert 0 < message.index(str(places[1])) < message.index(str(places[0]))


@pytest.mark.parametrize("name", ["notes.txt", "train/notes.txt"])
def test_raw_files_raise_with_the_convert_command(tmp_path, name):
    path = tmp_path / "raw" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"raw")
    with pytest.raises(DatasetError, match=f"tfx-shards convert {tmp_path / 'raw'}"):
        trainer_utils.input_fn(str(tmp_path / "raw"))


@pytest.mark.parametrize(
    ("read_by", "name", "is_packed", "shuffle"),
    [
        (trainer_utils.input_fn, "data.tfrecord", True, True),
        (trainer_utils.iterate, "data.tfrecord", True, False),
        (trainer_utils.iterate, "train-00000-of-00001", True, True),
        (trainer_utils.iterate, "train-00000-of-00001", False, True),
        (trainer_utils.iterate, "data.tfrecord.gz", False, True),
    ],
)
def test_gzip_is_detected_by_its_first_bytes(
    tmp_path, serialize, read_by, name, is_packed, shuffle, subtests
):
    path = tmp_path / name
    records = [serialize(id=[number]) for number in range(RECORDS)]
    write_records(path, records, "GZIP" if is_packed else "")
    for place in (str(path), str(tmp_path)):
        with subtests.test(place=place):
            assert ids_read(read_by, place, shuffle=shuffle) == list(range(RECORDS))
    path.write_bytes(path.read_bytes()[: RECORDS * 8])
    with pytest.raises((DatasetError, tf.errors.OpError), match=name):
        ids_read(read_by, str(path), shuffle=shuffle)


@pytest.mark.parametrize("name", ["data.tfrecord", "part-1"])
def test_gzip_is_detected_in_other_processes(tmp_path, serialize, name):
    path = tmp_path / name
    write_records(path, [serialize(id=[number]) for number in range(RECORDS)], "GZIP")
    found = ids_read(trainer_utils.iterate, str(path), processes=2)
    assert sorted(found) == list(range(RECORDS))
    told = run_python(
        f"from pipelines.tools.verification import verify_dataset as v; print(v({str(path)!r}))"
    )
    assert "good" in told.stdout, told.stderr


def test_record_with_a_length_like_gzip_is_read(tmp_path):
    data = b"".join(encode_example({"id": 7, "image": bytes(0x8B1F - 40)}))
    assert len(data) == 0x8B1F  # it begins with 1f 8b in little-endian order
    write_records(tmp_path / "train.tfrecord", [data])
    assert ids_read(trainer_utils.iterate, str(tmp_path)) == [7]


def test_files_of_two_buckets_are_one_input(tmp_path, serialize, subtests):
    places = [f"memory://{tmp_path.name}-{n}/x/data.tfrecord" for n in "ab"]
    local = tmp_path / "x/data.tfrecord"  # the folder's own name has the word "test"
    for number, place in enumerate(places):
        write_records(local, [serialize(id=[number])])
        write_anywhere(place, local.read_bytes())
    for files in (places, [places[0], str(local)]):
        with subtests.test(files=files):
            assert sorted(ids_read(trainer_utils.iterate, tuple(files))) == [0, 1]


def test_missing_vocabulary_of_the_manifest_raises(tmp_path):
    with DatasetWriter(tmp_path / "d", vocabulary=["cat"]) as writer:
        writer.write("train", {"x": 1, "label": "cat"})
    vocabulary = tmp_path / "d/vocab/label.txt"
    vocabulary.unlink()
    with pytest.raises(DatasetError, match=r"vocab/label\.txt"):
        trainer_utils.iterate(str(tmp_path / "d"), "train")
