"""Raw inputs in buckets give the batches of their conversion, in few requests."""

import concurrent.futures
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.raw_inputs.raw_folders import LAYOUTS, Layout, archives, classes
from tests.components.raw_inputs.raw_runs import (
    assert_equal,
    assert_same_batches,
    batches,
    convert,
)
from tests.make import jpeg, write_files
from tests.object_stores import Store, faulty
from trainer_utils import CorruptShardError, iterate, storage

pytest.importorskip("obstore")
pytestmark = pytest.mark.slow
ALL = {"splits": {"train": 1}}
SETTINGS: dict[str, Any] = {"batch_size": 4, "image_size": (16, 16), "shuffle": "global"}


def upload(folder: Path, uri: str) -> str:
    def copy(file: storage.InputFile) -> None:
        with storage.write_atomically(f"{uri}/{file.path}", temporary_folder=uri) as stream:
            stream.write((folder / file.path).read_bytes())

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(copy, storage.list_files(str(folder))))
    return uri


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A folder of a store, and a proxy that counts the requests."""

    uri: str
    proxy: Store

    def counts(self) -> dict[str, int]:
        return self.proxy.counts(reset=True)

    @property
    def requests(self) -> tuple[int, int]:
        """Number of files or ranges that were requested, and of pages of listings."""
        found = self.counts()
        return found.get("GET", 0) - found.get("LIST", 0), found.get("LIST", 0)


@pytest.fixture
def s3(s3_store, tmp_path, monkeypatch) -> Iterator[Bucket]:
    with faulty(s3_store) as proxy:
        for name, value in proxy.environment.items():
            monkeypatch.setenv(name, value)
        yield Bucket(f"{proxy.base}/{tmp_path.name}", proxy)


def own_settings(case: Layout) -> dict[str, Any]:
    if case.is_audio:
        return {}
    return {"image_size": (16, 16), "image": {"channels": case.channels}}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_in_s3_gives_the_batches_of_its_folder(layout, s3, tmp_path):
    case = LAYOUTS[layout]
    source = case.make(tmp_path / "in")
    remote = f"{upload(tmp_path / 'in', s3.uri)}/{case.below}".rstrip("/")
    settings = {"conversion": case.conversion, "batch_size": 3, "shuffle": "global"}
    found = batches(remote, **settings, **own_settings(case))
    expected = batches(str(source), **settings, **own_settings(case))
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("store", ["s3_store", "gs_store", "az_store"])
@pytest.mark.parametrize("write", [classes, archives])
def test_bucket_gives_the_batches_of_a_conversion(store, write, request, tmp_path, monkeypatch):
    running = request.getfixturevalue(store)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    write(tmp_path / "in")
    dataset = convert(tmp_path / "in", tmp_path / "out", **ALL)
    uri = upload(tmp_path / "in", f"{running.base}/{tmp_path.name}")
    assert_same_batches(uri, dataset, conversion=ALL, **SETTINGS)


def test_processes_read_from_a_bucket(s3, tmp_path):
    classes(tmp_path / "in")
    uri = upload(tmp_path / "in", s3.uri)
    s3.counts()
    assert_same_batches(
        uri, str(tmp_path / "in"), conversion=ALL, second=ALL, processes=2, **SETTINGS
    )


@pytest.mark.parametrize("write", [classes, archives])
def test_each_file_is_requested_once_an_epoch(write, s3, tmp_path):
    write(tmp_path / "in")
    uri = upload(tmp_path / "in", s3.uri)
    train = iterate(uri, "train", conversion=ALL, features="filename", **SETTINGS)
    s3.counts()
    for _ in range(2):
        names = [name for batch in train for name in batch]
        assert s3.requests == (len(names), 0)


def test_processes_that_take_turns_request_each_file_once(s3, tmp_path):
    write_files(tmp_path / "in", {f"{n}.jpg": jpeg(n % 7) for n in range(120)})
    uri = upload(tmp_path / "in", s3.uri)
    workers = [iterate(uri, "train", conversion=ALL, **SETTINGS) for _ in range(3)]
    for worker in workers:  # as each process of PyTorch's DataLoader reads
        worker.step_distance = len(workers)
    s3.counts()
    for step in range(workers[0].input_steps):
        workers[step % 3].batch(0, step)
    assert s3.requests == (120, 0)


@pytest.mark.parametrize("conversion", [None, ALL])
def test_open_lists_a_flat_folder_at_most_twice(conversion, s3, tmp_path):
    files = {f"{n:04d}.jpg": jpeg(n % 7) for n in range(1100)}
    write_files(tmp_path / "in", files)
    uri = upload(tmp_path / "in", s3.uri)
    s3.counts()
    iterate(uri, "train", conversion=conversion, features="filename", **SETTINGS)
    files_read, pages = s3.requests
    assert files_read <= 16  # the first files, for the features
    # Two pages for a list. Six pages of one name each ask whether the folder exists.
    assert pages <= 6 + (1 + (conversion is None)) * 2 + 1


def test_requests_of_small_batches_overlap(s3, tmp_path):
    write_files(tmp_path / "in", {f"{n}.jpg": jpeg(n % 7) for n in range(200)})
    uri = upload(tmp_path / "in", s3.uri)
    train = iterate(uri, "train", conversion=ALL, **SETTINGS)
    s3.counts()
    s3.proxy.ask("set?delay=0.05")
    list(train)
    # Several batches at once, and no more than the threads; a busy machine begins fewer than 64.
    assert 2 * SETTINGS["batch_size"] < s3.counts()["most_at_once"] <= 64


def test_files_ahead_take_bounded_memory(s3, tmp_path, monkeypatch):
    from components.raw_inputs import records

    monkeypatch.setattr(records, "_AHEAD_BYTES", 40_000)
    write_files(tmp_path / "in", {f"{n}.jpg": jpeg(n, size=(96, 96)) for n in range(60)})
    uri = upload(tmp_path / "in", s3.uri)
    train = iterate(uri, "train", conversion=ALL, features="filename", **SETTINGS)
    reader = train.sources[0].dataset.raw._files
    s3.counts()
    names = []
    for batch in train:
        names += batch.tolist()
        assert 0 <= reader._ahead_bytes <= 40_000
    assert len({*names}) == 60
    assert s3.requests == (60, 0)


def test_vanished_object_is_named(s3, tmp_path):
    write_files(tmp_path / "in", {f"{n}.jpg": jpeg(n) for n in range(8)})
    uri = upload(tmp_path / "in", s3.uri)
    train = iterate(uri, "train", conversion=ALL, **SETTINGS)
    storage.remove_file(f"{uri}/3.jpg")
    with pytest.raises(CorruptShardError, match=rf"{uri}/3\.jpg: VANISHED"):
        list(train)
