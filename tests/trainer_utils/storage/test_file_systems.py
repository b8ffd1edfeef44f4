"""Test every operation of `storage` on the local disk, in object stores and through fsspec."""

import os
import uuid

import pytest

from tests.make import write_anywhere as write
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError

NAMES = ["a.bin", "b/c.txt", "b/d e.txt", "b/[x]*?.txt", "b/ü/deep.bin"]


@pytest.fixture(params=["local", "memory", "s3", "gs", "az"])
def base(request, tmp_path, monkeypatch) -> str:
    """Return an empty folder."""
    if request.param == "local":
        return str(tmp_path / "base[1]")
    if request.param in ("s3", "gs", "az"):
        store = request.getfixturevalue(f"{request.param}_store")
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        return f"{store.base}/{uuid.uuid4().hex}/base[1]"
    return f"memory://{uuid.uuid4().hex}/base[1]"


@pytest.fixture
def filled(base) -> str:
    for name in NAMES:
        write(storage.join(base, name), name.encode())
    return base


def test_written_files_are_listed_and_read(filled, subtests):
    files = storage.list_files(filled)
    assert [file.path for file in files] == sorted(NAMES, key=os.fsencode)
    assert [file.size for file in files] == [len(file.path.encode()) for file in files]
    assert all(file.version and file.problem is None for file in files)
    for name in NAMES:
        with subtests.test(name=name):
            path = storage.join(filled, name)
            data = name.encode()
            assert storage.read_bytes(path) == storage.read_bytes_of_size(path, len(data)) == data
            assert storage.file_size(path) == len(data)
            with storage.open_for_reading(path) as stream:
                assert stream.seek(1) == 1
                assert stream.read(2) == data[1:3]
            for start in range(len(data) + 2):
                for stop in range(start, len(data) + 2):
                    assert storage.read_range(path, start=start, stop=stop) == data[start:stop]
    assert storage.read_text(storage.join(filled, "b/c.txt")) == "b/c.txt"


def test_folder_listing_is_not_recursive(filled):
    found = {(e.name, e.size, e.is_folder) for e in storage.list_folder(filled)}
    assert found == {("a.bin", 5, False), ("b", None, True)}
    inner = storage.join(filled, "b")
    assert set(storage.list_names(inner)) == {"c.txt", "d e.txt", "[x]*?.txt", "ü"}
    assert storage.is_folder(inner)
    assert storage.exists(inner)
    assert not storage.is_folder(storage.join(filled, "a.bin"))
    found_file = storage.find_file(filled, "a.bin")
    assert (found_file.path, found_file.size) == ("a.bin", 5)


def test_missing_file_raises_the_same_error_everywhere(filled, subtests):
    gone = storage.join(filled, "gone")
    assert not storage.exists(gone)
    assert not storage.is_folder(gone)
    storage.remove_tree(gone)
    for read in (
        storage.read_bytes,
        storage.open_for_reading,
        storage.file_size,
        storage.file_version,
        storage.remove_file,
        storage.list_folder,
        lambda path: storage.read_range(path, start=0, stop=1),
        lambda path: storage.find_file(filled, "gone"),
    ):
        with subtests.test(read=read), pytest.raises(FileNotFoundError):
            read(gone)


def test_file_of_another_size_than_listed_raises(filled, subtests):
    path = storage.join(filled, "a.bin")
    for size in (1, 4, 6, 100):
        with subtests.test(size=size):
            with pytest.raises(storage.FileRefusedError, match=f"expected {size} bytes") as caught:
                storage.read_bytes_of_size(path, size)
            assert caught.value.code == "CHANGED_FILE"
    write(path, b"")
    assert storage.read_bytes_of_size(path, 5) == b""


def test_changed_file_has_another_version(filled):
    path = storage.join(filled, "a.bin")

    def listed() -> str:  # may be empty
        return next(entry.version for entry in storage.list_folder(filled) if entry.name == "a.bin")

    before, before_listed = storage.file_version(path), listed()
    assert (storage.file_version(path), listed()) == (before, before_listed)
    write(path, b"other")
    assert storage.file_version(path) != before
    assert (listed() != before_listed) is bool(before_listed)


def test_atomic_write_leaves_no_partial_file(filled):
    path = storage.join(filled, "a.bin")

    def fail() -> None:
        with storage.write_atomically(path, temporary_folder=filled, is_durable=True) as stream:
            stream.write(b"half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert storage.read_bytes(path) == b"a.bin"
    assert set(storage.list_names(filled)) == {"a.bin", "b"}


def test_files_and_trees_are_renamed_and_removed(filled):
    old, new = storage.join(filled, "b/[x]*?.txt"), storage.join(filled, "a.bin")
    storage.rename(old, new)
    assert storage.read_bytes(new) == b"b/[x]*?.txt"
    assert not storage.exists(old)
    assert storage.exists(storage.join(filled, "b/c.txt"))
    storage.remove_file(new)
    assert storage.list_names(filled) == ["b"]
    storage.remove_tree(filled)
    assert not storage.exists(filled)


def test_writers_take_any_buffer_and_invalid_utf_8_raises(base):
    path = storage.join(base, "x.txt")
    storage.make_folder(base)
    with storage.write_atomically(path, temporary_folder=base) as stream:
        for part in (b"a", bytearray(b"b"), memoryview(b"\xffd")[:1]):
            stream.write(part)
    assert storage.read_bytes(path) == b"ab\xff"
    with pytest.raises(DatasetError, match=r"x\.txt'.*\(byte 2\)"):
        storage.read_text(path)
