"""Stores of objects, by fsspec."""

import sys
import uuid

import fsspec
import pytest

from tests.trainer_utils.storage.stores import write
from trainer_utils import storage
from trainer_utils.format import ConfigError


def test_what_others_change_remotely_is_seen_at_once():
    folder = f"memory://{uuid.uuid4().hex}"
    write(f"{folder}/a", b"1")
    assert storage.list_names(folder) == ["a"]
    fsspec.filesystem("memory").pipe_file(folder.removeprefix("memory:/") + "/b", b"22")
    assert set(storage.list_names(folder)) == {"a", "b"}


def test_a_store_of_ones_own_takes_the_place_of_fsspecs(monkeypatch):
    class Shout:
        def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
            return path.upper().encode()[start:stop]

    monkeypatch.setattr(storage.registry, "_registered", {})
    storage.register_file_system("shout", Shout())  # type: ignore[arg-type]
    assert storage.read_bytes("shout://a/b") == b"SHOUT://A/B"


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


def test_a_typo_makes_no_bucket(monkeypatch):
    """A store's `makedirs` would make one where there is none of that name."""
    from trainer_utils.storage import remote

    class Store(fsspec.AbstractFileSystem):
        def makedirs(self, path, exist_ok=False):
            raise AssertionError(path)

    monkeypatch.setattr(remote, "url_to_fs", lambda url, **_: (Store(), url.partition("://")[2]))
    for scheme in ("gs", "s3", "az"):
        storage.make_folder(f"{scheme}://bukcet/folder")


@pytest.mark.parametrize(
    ("scheme", "extra"),
    [
        ("gs", "gcs"),
        ("gcs", "gcs"),
        ("s3", "s3"),
        ("minio", "s3"),
        ("az", "azure"),
        ("hf", "hf"),
        ("https", "https"),
    ],
)
def test_a_missing_package_is_named_by_its_extra(monkeypatch, scheme, extra):
    from trainer_utils.storage import remote

    def find_none(url, **settings):
        raise (ValueError if scheme == "minio" else ImportError)("there is none")

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setattr(remote, "url_to_fs", find_none)
    with pytest.raises(ConfigError, match=rf"'{scheme}://b/x'.*tfx-shards\[{extra}\]"):
        storage.read_bytes(f"{scheme}://b/x")
