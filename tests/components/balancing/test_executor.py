"""Test ShardBalancer against TensorFlow's own reader and writer."""

import collections
import gzip
import json
import random
from pathlib import Path

import pytest
import tensorflow as tf
from tfx.dsl.components.base import base_beam_executor
from tfx.types import standard_artifacts

from components.balancing.settings import BalancerSettings
from components.shard_balancer import Executor, plan
from pipelines.tools.verification import verify_dataset
from tests.components.runs import records_of
from tests.make import everything as contents
from tests.make import run_python, write_records
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError, TfxShardsError


def example(number: int, size: int) -> bytes:
    made = tf.train.Example()
    made.features.feature["text"].bytes_list.value.append(b"x" * size)
    made.features.feature["id"].int64_list.value.append(number)
    return made.SerializeToString(deterministic=True)


def write_stock(folder: Path, split: str, shards: list[list[bytes]], suffix: str = ".gz") -> None:
    """Write the artifact of a stock ExampleGen with TensorFlow's own writer."""
    for index, records in enumerate(shards):
        name = f"Split-{split}/data_tfrecord-{index:05d}-of-{len(shards):05d}{suffix}"
        write_records(folder / name, records, "GZIP" if suffix else "")


def balance(source: Path | list[Path], target: Path, *beam: str, **properties: object) -> dict:
    run(source, target, *beam, **properties)
    return json.loads((target / "manifest.json").read_text())


def run(
    source: Path | list[Path], target: Path, *beam: str, **properties: object
) -> standard_artifacts.Examples:
    artifact = standard_artifacts.Examples()
    artifact.uri = str(target)
    given = []
    for folder in source if isinstance(source, list) else [source]:
        given.append(standard_artifacts.Examples())
        given[-1].uri = str(folder)
    context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=list(beam))
    Executor(context).Do({"examples": given}, {"balanced_examples": [artifact]}, properties)
    return artifact


def read(folder: Path, split: str) -> list[list[bytes]]:
    """Return each shard's records, read with TensorFlow's own reader."""
    return [[*records_of(path)] for path in sorted((folder / f"Split-{split}").iterdir())]


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> tuple[Path, list[bytes]]:
    """Write 3,000 records of up to 16 KiB in three uneven shards, and an eval split with one."""
    folder = tmp_path_factory.mktemp("stock")
    sizes = random.Random(0)
    records = [example(number, int(2 ** sizes.uniform(0, 14))) for number in range(3000)]
    write_stock(folder, "train", [records[:7], records[7:2500], records[2500:]])
    write_stock(folder, "eval", [[example(0, 5)]])
    return folder, records


def test_shards_differ_by_one_record_and_hold_all_inputs(stock, tmp_path):
    folder, records = stock
    more = [example(number, 30) for number in range(5000, 5100)]
    write_stock(tmp_path / "more", "train", [more], suffix="")
    write_stock(tmp_path / "more", "test", [more[:7]], suffix="")
    artifact = run(
        [folder, tmp_path / "more"], tmp_path / "out", num_shards='{"train": 7, "eval": 3}'
    )
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    shards = read(tmp_path / "out", "train")
    assert sorted(map(len, shards)) == [442] + [443] * 6
    moved = [record for shard in shards for record in shard]
    assert collections.Counter(moved) == collections.Counter(records + more)
    # The inputs are mixed: the later input's records are not all at the end.
    assert sum(record in set(more) for record in moved[:1550]) > 20
    assert read(tmp_path / "out", "eval") == [[example(0, 5)]]
    assert sorted(r for shard in read(tmp_path / "out", "test") for r in shard) == sorted(more[:7])
    written = {split: entry["written"] for split, entry in manifest["splits"].items()}
    assert written == {"eval": 1, "train": 3100, "test": 7}
    said = artifact.get_string_custom_property("input_fingerprint")
    assert said == manifest["input_fingerprint"]
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {
        *("Split-eval", "Split-test", "Split-train", "index")
    }


@pytest.mark.parametrize(
    ("settings", "beam"),
    [
        ({"num_shards": "16", "seed": 3}, []),
        ({"num_shards": "1", "seed": 3}, []),  # one shard that is larger than memory
        ({"num_shards": "8", "balance": "bytes"}, ["--direct_running_mode=multi_processing"]),
    ],
    ids=str,
)
def test_bytes_do_not_depend_on_memory_and_runner(stock, tmp_path, settings, beam):
    balance(stock[0], tmp_path / "one", **settings)
    beam = [*beam, "--direct_num_workers=2"] if beam else []
    balance(stock[0], tmp_path / "two", *beam, memory_bytes=1 << 20, **settings)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("memory_bytes", [1 << 20, 1 << 30])
def test_order_is_kept_without_shuffle_and_gzip_is_readable(stock, tmp_path, memory_bytes):
    settings = {"shuffle": 0, "compression": "gzip", "memory_bytes": memory_bytes}
    balance(stock[0], tmp_path, num_shards="4", **settings)
    path = tmp_path / "Split-train" / "data_tfrecord-00000-of-00004.gz"
    assert gzip.decompress(path.read_bytes())
    assert [r for shard in read(tmp_path, "train") for r in shard] == stock[1]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_damage_anywhere_raises_with_file_and_offset(tmp_path, suffix):
    records = [example(number, 40) for number in range(5)]
    write_stock(tmp_path / "in", "train", [records, records], suffix=suffix)
    path = tmp_path / f"in/Split-train/data_tfrecord-00001-of-00002{suffix}"
    good, source = path.read_bytes(), random.Random(0)
    # The header of a gzip file has a time and flags that do not affect the records.
    for place in source.sample(range(10 if suffix else 0, len(good)), 12):
        bad = bytearray(good)
        bad[place] ^= 1 << source.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(CorruptShardError) as caught:
            balance(tmp_path / "in", tmp_path / "out")
        assert caught.value.path == str(path)
        if not suffix:
            frame_bytes = len(records[0]) + 16
            assert caught.value.record == place // frame_bytes
            assert caught.value.offset == place // frame_bytes * frame_bytes
        assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"no index")])
def test_lost_index_is_rebuilt(stock, tmp_path, damage):
    given = balance(stock[0], tmp_path / "given", num_shards={"train": 3})
    damage(next((tmp_path / "given/index").glob("train-*")))
    again = balance(tmp_path / "given", tmp_path / "again", num_shards={"train": 2})
    assert again["splits"]["train"]["written"] == given["splits"]["train"]["written"]
    assert verify_dataset(str(tmp_path / "again")).is_good


def test_refused_run_keeps_the_previous_dataset(stock, tmp_path, subtests):
    balance(stock[0], tmp_path / "out")
    before = contents(tmp_path / "out")
    for settings in (
        {"where": "nope > 3"},
        {"where": "id > 3000"},
        {"exclude": "/nowhere.txt"},
        {"num_shards": '{"trian": 3}'},
        {"keep_shards": True, "num_shards": "2"},
    ):
        with subtests.test(settings=settings):
            with pytest.raises(TfxShardsError):
                balance(stock[0], tmp_path / "out", **settings)
            assert contents(tmp_path / "out") == before, settings


def test_missing_or_inconsistent_inputs_raise(stock, tmp_path, serialize, subtests):
    write_stock(tmp_path / "words", "train", [[serialize(id=[b"word"], text=[b"x"])]])
    balance(stock[0], tmp_path / "cut", num_shards="2")
    path = tmp_path / "cut/Split-train/data_tfrecord-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/a.tfrecord").write_bytes(b"")
    for name, values in (("a", "cat\ndog\n"), ("b", "dog\ncat\n")):
        balance(stock[0], tmp_path / name)
        (tmp_path / name / "vocab").mkdir()
        (tmp_path / name / "vocab/label.txt").write_text(values)
    for given, message in (
        (tmp_path / "nothing-here", "nothing-here"),
        (tmp_path / "cut", "00001-of-00002"),
        (tmp_path / "empty", "at least one record"),
        ([stock[0], tmp_path / "words"], "feature 'id'.*type='int'.*and .*type='string'"),
        ([tmp_path / "a", tmp_path / "b"], "vocabulary of feature 'label'.*cat, dog.*dog, cat"),
    ):
        with subtests.test(given=given), pytest.raises(DatasetError, match=message):
            balance(given, tmp_path / "out")


def test_output_that_overlaps_the_input_raises(tmp_path, subtests):
    write_stock(tmp_path / "in", "train", [[example(0, 5)]])
    (tmp_path / "link").symlink_to(tmp_path / "in")
    before = contents(tmp_path / "in")
    for output in ("in/", "./in", "link", "."):
        with subtests.test(output=output):
            with pytest.raises(ConfigError, match="expected a folder other than the input"):
                balance(tmp_path / "in", Path(f"{tmp_path}/{output}"))
            assert contents(tmp_path / "in") == before


def test_changed_records_with_valid_checksums_raise(stock, tmp_path):
    """Test that a manifest's checksum of its records detects a shard that was rewritten."""
    balance(stock[0], tmp_path / "ours", num_shards="2")
    path = tmp_path / "ours/Split-train/data_tfrecord-00001-of-00002"
    records = list(read(tmp_path / "ours", "train")[1])
    records[3] = records[3][:-1] + b"y"
    write_records(path, records)
    with pytest.raises(DatasetError, match="split 'train': expected records with checksum"):
        balance(tmp_path / "ours", tmp_path / "again")


_MEASURE = """
import resource, sys
from tests.components.balancing.test_executor import Executor, balance, Path
source, target, memory = sys.argv[1:]
warm = Path(target + "-warm")
balance(Path(source + "-tiny"), warm)          # what imports and Beam themselves take
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
balance(Path(source), Path(target), memory_bytes=int(memory), num_shards="3")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_limit_holds_for_three_times_larger_input(tmp_path, serialize):
    memory_bytes, source, record_bytes = 64 << 20, random.Random(0), 100_000
    count = 3 * memory_bytes // (record_bytes + 40)
    block = source.randbytes(record_bytes * 2)
    places = (source.randrange(record_bytes) for _ in range(count))
    records = (serialize(text=[block[place : place + record_bytes]]) for place in places)
    write_stock(tmp_path / "in", "train", [records], suffix="")
    write_stock(tmp_path / "in-tiny", "train", [[example(0, 5)]], suffix="")
    done = run_python(_MEASURE, tmp_path / "in", tmp_path / "out", memory_bytes)
    assert int(done.stdout.splitlines()[-1]) << 10 < memory_bytes
    assert sum(map(len, read(tmp_path / "out", "train"))) == count


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"target_shard_bytes": 1 << 20, "shard_multiple": 4},
        {"num_shards": 5, "balance": "bytes", "memory_bytes": 1 << 20},
        {"num_shards": {"train": 6}, "stratify_by": "id", "shuffle": False},
    ],
)
def test_plan_matches_the_balanced_dataset(stock, tmp_path, settings):
    before = contents(stock[0])
    planned = plan(str(stock[0]), **settings)
    assert contents(stock[0]) == before
    given = {k: json.dumps(v) if k == "num_shards" else v for k, v in settings.items()}
    manifest = balance(stock[0], tmp_path, **given)
    for split in planned.splits:
        shards = [entry for entry in manifest["shards"] if entry["split"] == split.split]
        assert [entry["records"] for entry in shards] == list(split.shard_records)
        assert [entry["bytes"] for entry in shards] == list(split.shard_bytes)
        assert sum(split.shard_bytes) == split.bytes
    assert {s.split: s.passes for s in planned.splits} == {
        "train": 3 if "memory_bytes" in settings else 1,
        "eval": 1,
    }
    assert len(str(planned).splitlines()) == 3
    assert planned.to_dict()["splits"][0]["split"] == planned.splits[0].split


def test_number_of_shards_follows_the_settings(subtests):
    for settings, records, expected in (
        ({"num_shards": 8}, 3, 3),
        ({"num_shards": {"train": 5}}, 100, 5),
        ({"target_shard_bytes": 1000}, 100, 10),
        ({"target_shard_bytes": 1000, "shard_multiple": 4}, 100, 12),
        ({"target_shard_bytes": 1000, "shard_multiple": 4}, 11, 8),
        ({"num_shards": 9, "shard_multiple": 4}, 100, 12),
        ({"num_shards": 8, "shard_multiple": 4}, 3, 3),
        ({}, 0, 1),
    ):
        with subtests.test(settings=settings):
            made = BalancerSettings(**settings)
            assert made.shards_of("train", num_records=records, num_bytes=10_000) == expected
