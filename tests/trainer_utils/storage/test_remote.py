"""Stores of objects, by fsspec."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.spec import AbstractBufferedFile

from tests.hub import hub
from tests.object_stores import faulty
from tests.trainer_utils.storage.stores import write
from trainer_utils import storage
from trainer_utils.format import ConfigError


def test_what_others_change_remotely_is_seen_at_once():
    folder = f"memory://{uuid.uuid4().hex}"
    write(f"{folder}/a", b"1")
    assert storage.list_names(folder) == ["a"]
    fsspec.filesystem("memory").pipe_file(folder.removeprefix("memory:/") + "/b", b"22")
    assert set(storage.list_names(folder)) == {"a", "b"}


def test_other_processes_see_what_the_environment_alone_leads_to():
    for path in ("/data/photos", "s3://bucket/photos", "az://box/photos"):
        assert storage.file_system_of(path).is_seen_by_others
    for path in ("memory://photos", "gs://bucket/photos"):  # gcsfs may have been given credentials
        assert not storage.file_system_of(path).is_seen_by_others


def test_errors_of_a_store_are_os_errors(monkeypatch):
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
        with pytest.raises(OSError, match="'memory://bucket/x': CredentialsError: none found"):
            act("memory://bucket/x")


class _Memory(fsspec.AbstractFileSystem):
    """Files of `size` bytes, of which `come` gives a range."""

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


def test_errors_in_the_middle_of_a_stream_are_os_errors_that_name_it(memory):
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
def test_a_stream_that_ends_early_is_an_error(memory, size):
    """fsspec takes what comes for all that there is."""
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
def test_an_object_of_gs_that_changes_while_it_is_read_is_an_error(at_gs, name):
    path, data = f"{at_gs.base}/{name}", bytes(range(256)) * (48 << 10)
    write(path, data)
    with storage.open_for_reading(path) as stream:
        assert stream.read() == data
    with storage.open_for_reading(path) as stream:
        assert stream.read(10) == data[:10]
        write(path, data[::-1])
        if "#" in name:  # gcsfs would take what follows for a generation
            assert len(stream.read()) == len(data) - 10
            return
        with pytest.raises(storage.FileRefusedError, match="no longer there") as caught:
            stream.read()
    assert caught.value.code == "CHANGED_FILE"


def test_an_answer_of_gs_that_stalls_is_asked_for_again(at_gs, monkeypatch):
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
def test_a_missing_package_is_named_by_its_extra(monkeypatch, scheme, extra):
    from trainer_utils.storage import remote

    def find_none(url, **settings):
        raise (ValueError if scheme == "minio" else ImportError)("there is none")

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setattr(remote, "url_to_fs", find_none)
    with pytest.raises(ConfigError, match=rf"'{scheme}://b/x'.*tfx-shards\[{extra}\]"):
        storage.read_bytes(f"{scheme}://b/x")


# A process of its own: huggingface_hub reads HF_ENDPOINT as it is imported.
_READ_FROM_HUB = """
import json, sys
from trainer_utils import storage
base = "hf://datasets/team/photos"
def problem(act, path):
    try:
        return repr(act(path))
    except OSError as error:
        return type(error).__name__ + ": " + str(error)
before = storage.file_version(base + "/train/a.bin")
with storage.open_for_reading(base + "/train/a.bin") as stream:
    stream.seek(90_000)
    seeked = stream.read(20_000)
found = {
    "files": [[file.path, file.size] for file in storage.list_files(base)],
    "names": sorted(storage.list_names(base + "/train")),
    "whole": storage.read_bytes(base + "/train/a.bin").hex(),
    "range": storage.read_range(base + "/train/a.bin", start=70_001, stop=70_009).hex(),
    "past": storage.read_range(base + "/train/a.bin", start=200_000, stop=200_009).hex(),
    "seeked": seeked.hex(),
    "is_folder": [storage.is_folder(base + path) for path in ("/train", "/README.md", "/none")],
    "missing": [
        problem(storage.read_bytes, base + "/none"),
        problem(storage.read_bytes, "hf://datasets/team/none/x"),
    ],
}
print(json.dumps(found), flush=True)
sys.stdin.readline()
print(before != storage.file_version(base + "/train/a.bin"))
"""


def test_a_dataset_of_a_hub_is_listed_and_read(tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra `hf` is not installed")
    data = bytes(range(256)) * 400
    files = {"train/a.bin": data, "train/deep/b ü.bin": b"b", "README.md": b"# photos"}
    with hub("team/photos", files) as endpoint:
        environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])
        with subprocess.Popen(
            [sys.executable, "-c", _READ_FROM_HUB],
            env={name: value for name, value in environment.items() if name != "HF_TOKEN"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:
            assert reader.stdout is not None
            found = json.loads(reader.stdout.readline())
            files["train/a.bin"] = data[::-1]
            version_changed, _ = reader.communicate("go on\n", timeout=60)
    assert found["files"] == sorted([path, len(data)] for path, data in files.items())
    assert found["names"] == ["a.bin", "deep"]
    assert bytes.fromhex(found["whole"]) == data
    assert bytes.fromhex(found["range"]) == data[70_001:70_009]
    assert found["past"] == ""
    assert bytes.fromhex(found["seeked"]) == data[90_000:110_000]
    assert found["is_folder"] == [True, False, False]
    of_file, of_dataset = found["missing"]
    assert of_file == "FileNotFoundError: datasets/team/photos/none"
    # The words are those of huggingface_hub, which change with its releases.
    assert re.match(r"FileNotFoundError: .*team/none/x \(repository not found\)", of_dataset)
    assert version_changed == "True\n"
