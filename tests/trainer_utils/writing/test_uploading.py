"""Test concurrent writers at one place in an object store: at most one succeeds."""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.tools.verification import verify_dataset
from trainer_utils import ConfigError, DatasetWriter, storage
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.writing import uploading

_numbers = itertools.count()


@pytest.fixture(params=["memory", "s3"])
def uri(request, monkeypatch) -> str:
    place = f"uploading-{os.getpid()}-{next(_numbers)}/dataset"
    if request.param == "memory":
        return f"memory://{place}"
    pytest.importorskip("obstore")
    store = request.getfixturevalue("s3_store")
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"{store.base}/{place}"


def _writer(uri: str, number: int) -> DatasetWriter:
    writer = DatasetWriter(uri, num_shards=3)
    for _ in range(30):
        writer.write("train", {"writer": number})
    return writer


def _close_all(writers: list[DatasetWriter]) -> list[int]:
    """Close writers at the same time; return the numbers of the successful ones."""
    start = threading.Barrier(len(writers))

    def close(number: int) -> int | None:
        start.wait()
        try:
            writers[number].close()
        except ConfigError as error:
            assert error.setting == "uri"  # noqa: PT017 of a thread
            return None
        return number

    with ThreadPoolExecutor(len(writers)) as pool:
        found = pool.map(close, range(len(writers)))
        return [number for number in found if number is not None]


def _writers_in(uri: str) -> set[int]:
    from trainer_utils import iterate

    return {int(n) for b in iterate(uri, "train", batch_size=7) for n in b["writer"]}


def test_concurrent_writers_never_mix_their_datasets(uri):
    done = _close_all([_writer(uri, number) for number in range(5)])
    if not done:  # each saw another
        _writer(uri, 7).close()
        done = [7]
    assert len(done) == 1
    assert _writers_in(uri) == set(done)
    assert verify_dataset(uri).is_good
    assert not any(".tfx-shards" in file.path for file in storage.list_files(uri))


def test_second_writer_during_an_upload_raises(uri, monkeypatch):
    """A second writer tries at each file that the first writes, and the first continues."""
    first, seconds = _writer(uri, 1), [_writer(uri, 100 + number) for number in range(20)]
    monkeypatch.setattr(uploading, "check_is_free", lambda uri: None)
    refusals = []
    really = storage.copy_file

    def copy(source, path, **settings):
        second = seconds.pop()
        with pytest.raises(ConfigError, match=f"process {os.getpid()} on"):
            second.close()
        refusals.append(path)
        return really(source, path, **settings)

    monkeypatch.setattr(storage, "copy_file", copy)
    first.close()
    assert refusals[-1].endswith(MANIFEST_FILE)
    assert _writers_in(uri) == {1}
    assert verify_dataset(uri).is_good


def test_failed_upload_leaves_the_place_free(uri, monkeypatch):
    really = storage.copy_file

    def fail(source, path, **settings):
        if path.endswith(MANIFEST_FILE):
            raise OSError("no more")
        return really(source, path, **settings)

    writer = _writer(uri, 1)
    monkeypatch.setattr(storage, "copy_file", fail)
    with pytest.raises(OSError, match="no more"):
        writer.close()
    monkeypatch.setattr(storage, "copy_file", really)
    assert [file.path for file in storage.list_files(uri)] == []
    _writer(uri, 2).close()
    assert _writers_in(uri) == {2}


def test_claim_of_a_killed_writer_raises_before_writing(uri):
    claims = storage.join(uri, ".tfx-shards-tmp/writers")
    storage.make_folder(claims)
    storage.write_text(storage.join(claims, "0"), "process 7 on there", temporary_folder=claims)
    with pytest.raises(ConfigError, match=r"process 7 on there.*if that writer was killed, remove"):
        DatasetWriter(uri)
    storage.remove_tree(uri)
    _writer(uri, 3).close()
    assert _writers_in(uri) == {3}


def test_existing_file_or_full_folder_raises(tmp_path: Path, subtests: pytest.Subtests):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file"):
        with subtests.test(place=place):
            with pytest.raises(ConfigError, match="an empty or new folder"):
                uploading.check_is_free(str(place))
    uploading.check_is_free(str(tmp_path / "none"))
