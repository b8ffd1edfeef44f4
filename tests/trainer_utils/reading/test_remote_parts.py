"""Datasets in a bucket give the same batches as on disk, with few bytes fetched, all checked."""

import collections
import gzip
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.make import REPOSITORY, write_rows
from tests.object_stores import faulty
from trainer_utils import CacheOptions, CorruptShardError, iterate, storage

pytest.importorskip("obstore")
pytestmark = pytest.mark.slow
SHARDS, RECORDS = 4, 300  # each; of 4 to 12 kB: three parts a shard


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """Write a dataset with indexes to the local disk."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4000, 12000, SHARDS * RECORDS).tolist()
    rows = ({"id": number, "x": rng.bytes(size)} for number, size in enumerate(sizes))
    return Path(write_rows(tmp_path_factory.mktemp("cached") / "set", rows, num_shards=SHARDS))


@pytest.fixture
def total(dataset) -> int:
    return sum(file.stat().st_size for file in dataset.glob("Split-train/*"))


@pytest.fixture
def at(s3_store, monkeypatch):
    """Select a store by environment variables."""

    def lead(store):
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        return f"{store.base}/cached"

    return lead


@pytest.fixture
def remote(dataset, at, s3_store) -> str:
    """Copy the dataset to a bucket."""
    uri = at(s3_store)
    for file in dataset.rglob("*"):
        if file.is_file():
            path = f"{uri}/{file.relative_to(dataset)}"
            with storage.write_atomically(path, temporary_folder=uri) as stream:
                stream.write(file.read_bytes())
    return uri


def ids(uri, **settings) -> list[int]:
    settings = {"features": "id", "batch_size": 32, **settings}
    split = settings.pop("split", None)
    return [int(one) for batch in iterate(str(uri), split, **settings) for one in batch]


def cache(folder, most=None) -> CacheOptions:
    return CacheOptions(folder=str(folder), max_bytes=most)


def taken(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(("shuffle", "most"), [(False, None), (True, 3 << 20), ("global", 3 << 20)])
def test_batches_equal_those_from_the_local_disk(dataset, remote, tmp_path, shuffle, most):
    settings = {"shuffle": shuffle, "repeat": 2}
    found = ids(remote, cache=cache(tmp_path, most), **settings)
    assert found == ids(dataset, **settings)
    assert taken(tmp_path) <= (most if most else 64 << 20)


def test_slices_and_resumed_epochs_fetch_only_their_records(
    remote, at, s3_store, tmp_path, total, subtests
):
    with faulty(s3_store) as proxy:
        at(proxy)
        for number, settings in enumerate([{"split": "train[40%:50%]"}, {"state": 34}]):
            with subtests.test(number=number):
                proxy.counts(reset=True)
                found = ids(remote, shuffle=False, cache=cache(tmp_path / str(number)), **settings)
                assert len(found) <= 120
                assert proxy.counts()["bytes_down"] < 0.1 * total + (3 << 20)


def test_the_first_batch_fetches_no_whole_shard(remote, at, s3_store, tmp_path, total):
    """Fetch at most the parts read ahead: for 4 MiB of space, two parts of a MiB."""
    with faulty(s3_store, delay=0.05) as proxy:
        at(proxy)
        batches = iter(
            iterate(
                remote,
                features="id",
                batch_size=4,
                shuffle=False,
                prefetch=0,
                cache=cache(tmp_path, 4 << 20),
            )
        )
        next(batches)
        assert proxy.counts()["bytes_down"] < 4.5 * (1 << 20) < total / 2


def test_epochs_with_enough_space_fetch_the_data_once(remote, at, s3_store, tmp_path, total):
    with faulty(s3_store) as proxy:
        at(proxy)
        for _ in range(2):  # the second process finds the first one's copies
            found = ids(remote, repeat=3, cache=cache(tmp_path))
            assert set(collections.Counter(found).values()) == {3}
        assert proxy.counts()["bytes_down"] < 1.02 * total


def test_faults_change_nothing(dataset, remote, at, s3_store, tmp_path):
    settings = {"features": "id", "batch_size": 32, "cache": cache(tmp_path, 3 << 20)}
    found = {shuffle: iterate(remote, shuffle=shuffle, **settings) for shuffle in (True, "global")}
    with faulty(s3_store, drop=0.05, busy=0.05, cut=0.05) as proxy:
        at(proxy)
        for shuffle, batches in found.items():
            read = [int(one) for batch in batches for one in batch]
            assert read == ids(dataset, shuffle=shuffle)
        counts = proxy.counts()
        assert min(counts["dropped"], counts["busy"], counts["cut"]) > 0


def test_damage_in_the_bucket_is_named_and_in_the_cache_fixed(
    dataset, remote, tmp_path, s3_store, subtests
):
    want = ids(dataset)
    assert ids(remote, cache=cache(tmp_path)) == want
    for copy in (tmp_path / "shards").glob("*-data_tfrecord-*"):
        data = bytearray(copy.read_bytes())
        data[len(data) // 2] ^= 1
        copy.write_bytes(data)
    assert ids(remote, cache=cache(tmp_path)) == want

    shard = sorted(dataset.glob("Split-train/*"))[1]
    data = bytearray(shard.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path = f"{remote}/Split-train/{shard.name}"
    with storage.write_atomically(path, temporary_folder=remote) as stream:
        stream.write(data)
    for shuffle in (True, "global"):
        with subtests.test(shuffle=shuffle):
            folder = cache(tmp_path / f"other-{shuffle}")
            with pytest.raises(CorruptShardError, match=rf"{path}.*record 2\d\d, byte 1\d{{6}}"):
                ids(remote, shuffle=shuffle, cache=folder)
            found = iterate(
                remote,
                features="id",
                batch_size=32,
                shuffle=shuffle,
                cache=folder,
                on_corrupt="skip",
            )
            assert sum(map(len, found)) == len(want)
            assert [path for path, _ in found.unreadable] == [path]


def test_shards_without_indexes_and_gzip_are_cached(dataset, at, s3_store, tmp_path, subtests):
    """Cache third-party datasets without indexes, and gzip files."""
    uri = f"{at(s3_store)}-bare"
    for number, file in enumerate(dataset.glob("Split-train/*")):
        data, name = file.read_bytes(), f"train-{number}.tfrecord"
        if number == 0:
            data, name = gzip.compress(data), f"{name}.gz"
        with storage.write_atomically(f"{uri}/{name}", temporary_folder=uri) as stream:
            stream.write(data)
    want = sorted(ids(dataset))
    for most in (None, 4 << 20):
        with subtests.test(most=most):
            assert sorted(ids(uri, cache=cache(tmp_path / str(most), most))) == want
    assert taken(tmp_path / str(most)) <= most


def test_local_shards_are_copied_on_request(dataset, tmp_path):
    """Simulate a slow disk: a second process no longer needs the shards."""
    folder = tmp_path / "slow"
    shutil.copytree(dataset, folder)
    want = ids(dataset)
    found = iterate(str(folder), features="id", batch_size=32, cache=str(tmp_path / "fast"))
    assert [int(one) for batch in found for one in batch] == want
    assert taken(tmp_path / "fast") > 0.9 * taken(folder / "Split-train")


def test_readers_share_a_cache_while_one_is_killed(dataset, remote, tmp_path):
    """Run two readers; one is killed, and resumes from its step."""
    code = """
import sys
from trainer_utils import CacheOptions, iterate
uri, folder, start = sys.argv[1:]
batches = iterate(
    uri, features="id", batch_size=32, seed=7, state=int(start),
    cache=CacheOptions(folder=folder, max_bytes=4 << 20),
)
for batch in batches:
    print(*batch.tolist(), flush=True)
"""

    def start(step: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, remote, str(tmp_path), str(step)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    first, second = start(0), start(0)
    batches = [first.stdout.readline() for _ in range(7)]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    rest, _ = start(7).communicate(timeout=600)
    other, _ = second.communicate(timeout=600)
    want = ids(dataset, seed=7)
    assert [int(n) for line in (*batches, rest) for n in line.split()] == want
    assert [int(n) for n in other.split()] == want
    assert taken(tmp_path) <= 4 << 20
