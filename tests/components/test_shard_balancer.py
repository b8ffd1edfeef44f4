"""ShardBalancer against TensorFlow's own reader and writer."""

import collections
import gzip
import json
import random
from pathlib import Path

import pytest
import tensorflow as tf
from tfx.types import standard_artifacts

from components.shard_balancer.executor import Executor
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.format import ConfigError, CorruptShardError, DatasetError


def example(number: int, size: int) -> bytes:
    feature = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * size])),
    }
    made = tf.train.Example(features=tf.train.Features(feature=feature))
    return made.SerializeToString(deterministic=True)


def write_stock(folder: Path, split: str, shards: list[list[bytes]], suffix: str = ".gz") -> None:
    """A stock ExampleGen's artifact, by TensorFlow's own writer."""
    target = folder / f"Split-{split}"
    target.mkdir(parents=True)
    for index, records in enumerate(shards):
        path = target / f"data_tfrecord-{index:05d}-of-{len(shards):05d}{suffix}"
        options = tf.io.TFRecordOptions("GZIP" if suffix else "")
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for record in records:
                writer.write(record)


def balance(source: Path, target: Path, **properties: object) -> dict:
    given, artifact = standard_artifacts.Examples(), standard_artifacts.Examples()
    given.uri, artifact.uri = str(source), str(target)
    Executor().Do({"examples": [given]}, {"balanced_examples": [artifact]}, properties)
    return json.loads((target / "manifest.json").read_text())


def read(folder: Path, split: str) -> list[list[bytes]]:
    """Each shard's records, by TensorFlow's own reader."""
    return [
        [
            record.numpy()
            for record in tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix else "")
        ]
        for path in sorted((folder / f"Split-{split}").iterdir())
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> tuple[Path, list[bytes]]:
    """3,000 records of very different sizes in three uneven shards, and an eval split of one."""
    folder = tmp_path_factory.mktemp("stock")
    sizes = random.Random(0)
    records = [example(number, int(2 ** sizes.uniform(0, 14))) for number in range(3000)]
    write_stock(folder, "train", [records[:7], records[7:2500], records[2500:]])
    write_stock(folder, "eval", [[example(0, 5)]])
    return folder, records


def test_shards_differ_by_one_record_and_hold_all_of_them(stock, tmp_path):
    folder, records = stock
    manifest = balance(folder, tmp_path, num_shards="7")
    shards = read(tmp_path, "train")
    assert sorted(map(len, shards)) == [428, 428, 428, 429, 429, 429, 429]
    assert collections.Counter(r for s in shards for r in s) == collections.Counter(records)
    assert manifest["splits"]["train"]["written"] == 3000


def test_one_record_makes_one_shard(stock, tmp_path):
    balance(stock[0], tmp_path, num_shards="7")
    assert read(tmp_path, "eval") == [[example(0, 5)]]


def test_two_passes_give_the_same_bytes_as_one(stock, tmp_path):
    settings = {"num_shards": "16", "seed": 3}
    balance(stock[0], tmp_path / "one", **settings)
    balance(stock[0], tmp_path / "two", memory_bytes=1 << 20, **settings)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_the_order_is_global_and_the_seeds_own(stock, tmp_path):
    orders = []
    for seed in (0, 1):
        balance(stock[0], tmp_path / str(seed), num_shards="4", seed=seed)
        orders.append([r for shard in read(tmp_path / str(seed), "train") for r in shard])
    assert orders[0] != orders[1]
    place = {record: number for number, record in enumerate(stock[1])}
    halves = [sum(place[record] < 1500 for record in order[:1500]) for order in orders]
    # Hypergeometric: 750 expected, standard deviation 13.7; five of these either side.
    assert all(680 < half < 820 for half in halves)


@pytest.mark.parametrize("memory_bytes", [1 << 20, 1 << 30])
def test_without_shuffle_the_order_stays(stock, tmp_path, memory_bytes):
    balance(stock[0], tmp_path, num_shards="4", shuffle=0, memory_bytes=memory_bytes)
    assert [r for shard in read(tmp_path, "train") for r in shard] == stock[1]


def test_gzip_output_is_read_by_others(stock, tmp_path):
    balance(stock[0], tmp_path, num_shards="2", compression="gzip", shuffle=0)
    path = tmp_path / "Split-train" / "data_tfrecord-00000-of-00002.gz"
    assert gzip.decompress(path.read_bytes())
    assert [r for shard in read(tmp_path, "train") for r in shard] == stock[1]


def test_features_of_a_stock_dataset_are_worked_out(stock, tmp_path):
    balance(stock[0], tmp_path)
    features = json.loads((tmp_path / "datum_to_type_and_shape_mapping.json").read_text())
    assert features == {
        "id": {"type": "int", "shape": [], "dense": True},
        "text": {"type": "string", "shape": [], "dense": True},
    }


def test_a_flipped_bit_fails_with_file_record_and_byte(tmp_path):
    records = [example(number, 50) for number in range(1, 11)]
    write_stock(tmp_path / "in", "train", [records], suffix="")
    path = tmp_path / "in/Split-train/data_tfrecord-00000-of-00001"
    frame_bytes = len(records[0]) + 16
    data = bytearray(path.read_bytes())
    data[4 * frame_bytes + 30] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptShardError, match=rf"record 4, byte {4 * frame_bytes}\)") as caught:
        balance(tmp_path / "in", tmp_path / "out")
    assert str(path) in str(caught.value)
    assert not (tmp_path / "out/manifest.json").exists()


def test_damage_after_counting_is_found_too(stock, tmp_path):
    balance(stock[0], tmp_path / "ours", num_shards="2")
    path = tmp_path / "ours/Split-train/data_tfrecord-00001-of-00002"
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError, match="00001-of-00002"):
        balance(tmp_path / "ours", tmp_path / "again")


def test_a_shard_cut_short_is_refused(stock, tmp_path):
    balance(stock[0], tmp_path / "ours", num_shards="2")
    path = tmp_path / "ours/Split-train/data_tfrecord-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DatasetError, match="00001-of-00002"):
        balance(tmp_path / "ours", tmp_path / "again")


def test_no_dataset_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="nothing-here"):
        balance(tmp_path / "nothing-here", tmp_path / "out")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num_shards", 0),
        ("num_shards", {"train": -1}),
        ("target_shard_bytes", 0),
        ("shard_multiple", 0),
        ("seed", 1.5),
        ("compression", "zip"),
        ("memory_bytes", 10),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(setting, value):
    with pytest.raises(ConfigError, match=setting):
        BalancerSettings(**{setting: value})


@pytest.mark.parametrize(
    ("settings", "records", "expected"),
    [
        ({"num_shards": 8}, 3, 3),
        ({"num_shards": {"train": 5}}, 100, 5),
        ({"target_shard_bytes": 1000}, 100, 10),
        ({"target_shard_bytes": 1000, "shard_multiple": 4}, 100, 12),
        ({}, 0, 1),
    ],
)
def test_the_number_of_shards(settings, records, expected):
    made = BalancerSettings(**settings)
    assert made.shards_of("train", num_records=records, num_bytes=10_000) == expected
