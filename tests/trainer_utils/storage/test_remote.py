"""Test object stores through fsspec."""

import os
import subprocess
import sys
import uuid

import fsspec
import pytest
from fsspec.spec import AbstractBufferedFile

from tests.hub import hub
from tests.make import REPOSITORY
from tests.make import write_anywhere as write
from tests.object_stores import faulty
from trainer_utils import storage
from trainer_utils.core.errors import ConfigError


def test_remote_changes_are_visible_at_once():
    folder = f"memory://{uuid.uuid4().hex}"
    write(f"{folder}/a", b"1")
    assert storage.list_names(folder) == ["a"]
    fsspec.filesystem("memory").pipe_file(folder.removeprefix("memory:/") + "/b", b"22")
    assert set(storage.list_names(folder)) == {"a", "b"}


def test_stores_set_by_environment_are_seen_by_others(subtests):
    for path in ("/data/photos", "s3://bucket/photos", "az://box/photos"):
        with subtests.test(path=path):
            assert storage.file_system_of(path).is_seen_by_others
    for path in ("memory://photos", "gs://bucket/photos"):  # gcsfs may have been given credentials
        with subtests.test(path=path):
            assert not storage.file_system_of(path).is_seen_by_others


def test_errors_of_a_store_are_os_errors(monkeypatch, subtests):
    class CredentialsError(Exception):
        pass

    def refuse(*arguments, **settings):
        raise CredentialsError("none found")

    memory = fsspec.filesystem("memory")
    for name in ("ls", "info", "exists", "isdir", "cat_file", "open", "find"):
        monkeypatch.setattr(memory, name, refuse)
    for act in (
        storage.list_names,
        storage.list_files,
        storage.file_size,
        storage.exists,
        storage.is_folder,
        storage.read_bytes,
        storage.open_for_reading,
    ):
        with subtests.test(act=act):
            with pytest.raises(OSError, match="'memory://bucket/x': CredentialsError: none found"):
                act("memory://bucket/x")


class _Memory(fsspec.AbstractFileSystem):
    """Files of `size` bytes; `come` returns the bytes of a range."""

    cachable = False
    size = 100

    def info(self, path, **_):
        return {"name": path, "size": self.size, "type": "file"}

    def _open(self, path, mode="rb", **settings):
        fetch = self.come

        class File(AbstractBufferedFile):
            def _fetch_range(self, start, end):
                return fetch(start, end)

        return File(self, path, mode, block_size=10, cache_type="none")


@pytest.fixture
def memory(monkeypatch) -> _Memory:
    from trainer_utils.storage import remote

    files = _Memory()
    monkeypatch.setattr(remote, "url_to_fs", lambda url, **_: (files, url.partition("://")[2]))
    return files


def test_stream_errors_are_os_errors_with_the_path(memory):
    class PayloadError(Exception):
        pass

    def come(start, end):
        if end > 100_000:
            raise PayloadError("cut")
        return bytes(end - start)

    memory.come, memory.size = come, 200_000
    with storage.open_for_reading("hub://b/x") as stream:
        assert stream.read(10) == bytes(10)
        with pytest.raises(OSError, match="'hub://b/x': PayloadError: cut"):
            stream.read()


@pytest.mark.parametrize("size", [-1, 40])
def test_stream_that_ends_early_raises(memory, size):
    """fsspec treats a truncated answer as complete."""
    memory.come = lambda start, end: bytes(max(min(end, 70) - start, 0))
    with storage.open_for_reading("hub://b/x") as stream:
        assert stream.seek(50) == 50
        with pytest.raises(storage.FileRefusedError, match=r"100 bytes .* got 70") as caught:
            stream.read(size)
    assert caught.value.code == "CHANGED_FILE"


@pytest.fixture
def at_gs(gs_store, monkeypatch):
    pytest.importorskip("gcsfs")
    for name, value in gs_store.environment.items():
        monkeypatch.setenv(name, value)
    return gs_store


@pytest.mark.parametrize("name", ["large.bin", "a b/large #1.bin"])
def test_gs_object_that_changes_during_a_read_raises(at_gs, name):
    path, data = f"{at_gs.base}/{name}", bytes(range(256)) * (48 << 10)
    write(path, data)
    with storage.open_for_reading(path) as stream:
        assert stream.read() == data
    with storage.open_for_reading(path) as stream:
        assert stream.read(10) == data[:10]
        write(path, data[::-1])
        if "#" in name:  # gcsfs would parse the rest as a generation
            assert len(stream.read()) == len(data) - 10
            return
        with pytest.raises(storage.FileRefusedError, match="no longer there") as caught:
            stream.read()
    assert caught.value.code == "CHANGED_FILE"


def test_stalled_gs_answer_is_requested_again(at_gs, monkeypatch):
    from trainer_utils.storage import remote

    monkeypatch.setattr(remote, "REQUEST_SECONDS", 0.5)
    path, data = f"{at_gs.base}/stalled.bin", bytes(range(256)) * 4096
    write(path, data)
    with faulty(at_gs, cut=1, stall=20, most=1) as proxy:
        monkeypatch.setenv(proxy.variable, proxy.environment[proxy.variable])
        assert storage.read_bytes(path) == data
        assert proxy.counts()["cut"] == 1


@pytest.mark.parametrize(
    ("scheme", "extra"), [("gs", "gcs"), ("minio", "s3"), ("az", "azure"), ("hf", "hf")]
)
def test_missing_package_raises_with_its_extra(monkeypatch, scheme, extra):
    from trainer_utils.storage import remote

    def find_none(url, **settings):
        raise (ValueError if scheme == "minio" else ImportError)("there is none")

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setattr(remote, "url_to_fs", find_none)
    with pytest.raises(ConfigError, match=rf"'{scheme}://b/x'.*tfx-shards\[{extra}\]"):
        storage.read_bytes(f"{scheme}://b/x")


# It runs in a new process, since huggingface_hub reads HF_ENDPOINT on import. The text of the last
# error depends on the release of huggingface_hub.
_READ_FROM_HUB = """
import sys
from trainer_utils import storage

base, data = "hf://datasets/team/photos", bytes(range(256)) * 400
path = base + "/train/a.bin"
sizes = {"README.md": 8, "train/a.bin": len(data), "train/deep/b ü.bin": 1}
before = storage.file_version(path)
assert {file.path: file.size for file in storage.list_files(base)} == sizes
assert sorted(storage.list_names(base + "/train")) == ["a.bin", "deep"]
assert storage.read_bytes(path) == data
assert storage.read_range(path, start=70_001, stop=70_009) == data[70_001:70_009]
assert storage.read_range(path, start=200_000, stop=200_009) == b""
with storage.open_for_reading(path) as stream:
    stream.seek(90_000)
    assert stream.read(20_000) == data[90_000:][:20_000]
places = [storage.is_folder(base + inner) for inner in ("/train", "/README.md", "/none")]
assert places == [True, False, False]
for gone, said in (
    (base + "/none", "datasets/team/photos/none"),
    ("hf://datasets/team/none/x", "team/none/x (repository not found)"),
):
    try:
        storage.read_bytes(gone)
    except FileNotFoundError as error:
        assert said in str(error), error
    else:
        raise AssertionError(gone)
print("read", flush=True)
sys.stdin.readline()
assert before != storage.file_version(path)
"""


def test_hub_dataset_is_listed_and_read(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra `hf` is not installed")
    data = bytes(range(256)) * 400
    files = {"train/a.bin": data, "train/deep/b ü.bin": b"b", "README.md": b"# photos"}
    with hub("team/photos", files) as endpoint:
        environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *sys.path])
        environment.pop("HF_TOKEN", None)
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", _READ_FROM_HUB], env=environment, stdin=pipe, stdout=pipe
        ) as reader:
            assert reader.stdout.readline() == b"read\n"
            files["train/a.bin"] = data[::-1]
            reader.communicate(b"go on\n", timeout=60)
    assert reader.returncode == 0
