"""Reads that fail: an error with path and offset, never the end of the process."""

import errno
import itertools
import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.make import run_python, write_rows
from trainer_utils import CorruptShardError
from trainer_utils.storage import MachineError, open_files
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder

ROWS = 3000


def write_small(folder: Path, **settings) -> str:
    return write_rows(folder, ({"id": n, "text": b"x" * 40} for n in range(ROWS)), **settings)


def write_large(folder: Path) -> str:
    draw = np.random.default_rng(1)
    return write_rows(folder, ({"id": n, "blob": draw.bytes(20_000)} for n in range(60)))


def shard_of(uri: str) -> Path:
    return next(Path(uri, "Split-train").iterdir())


CUT = """
import os, sys
import trainer_utils
from trainer_utils.reading.local_files import LocalFile
source = trainer_utils.iterate(sys.argv[1], "train", batch_size=1000, shuffle=False, prefetch=0)
source.batch(0, 0)
LocalFile.check = lambda file: os.truncate(sys.argv[2], 0)  # as soon as it was looked at
try:
    source.batch(0, 2)
except trainer_utils.CorruptShardError as error:
    print(error.path, error.offset)
"""


def test_a_small_shard_cut_while_it_is_read_is_an_error(tmp_path):
    uri = write_small(tmp_path / "small")
    shard = shard_of(uri)
    data, offset = shard.read_bytes(), 0
    for _ in range(2000):  # frames of a TFRecord: a length, its CRC, the payload and its CRC
        offset += 16 + int.from_bytes(data[offset : offset + 8], "little")
    run = run_python(CUT, uri, shard)
    assert run.returncode != -signal.SIGBUS
    assert (run.stdout.split(), run.stderr) == ([str(shard), str(offset)], "")


@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_small_records_are_the_same_without_the_system_call(tmp_path, monkeypatch, shuffle):
    uri = write_small(tmp_path / "small", num_shards=3)
    settings = {"batch_size": 100, "shuffle": shuffle, "features": "id"}
    mapped = [batch.tolist() for batch in trainer_utils.iterate(uri, "train", **settings)]
    monkeypatch.setattr(open_files, "_pwritev", lambda: None)
    open_files.can_copy_mapped.cache_clear()
    try:
        assert not open_files.can_copy_mapped()
        read = [batch.tolist() for batch in trainer_utils.iterate(uri, "train", **settings)]
    finally:
        open_files.can_copy_mapped.cache_clear()
    assert mapped == read
    assert sorted(itertools.chain.from_iterable(read)) == [*range(ROWS)]


def test_ranges_behind_the_end_of_a_mapped_file_are_not_copied(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 64)
    with path.open("rb") as stream:
        mapping = open_files.FileMapping(stream.fileno(), path.stat().st_size)
        os.truncate(path, 4096)
        begins = np.array([7, 300, 4090, 9000, 100])
        data, done = open_files.MappedReader().copy(mapping.address + begins, np.full(5, 6))
    assert done == 3
    assert [*data] == [*range(7, 13), *range(44, 50), *range(250, 256)]


def test_more_ranges_than_one_call_takes_are_copied(tmp_path, subtests):
    content = np.random.default_rng(1).bytes(1 << 20)
    path = tmp_path / "file"
    path.write_bytes(content)
    draw = np.random.default_rng(2)
    begins, lengths = draw.integers(0, 1 << 19, 5000), draw.integers(0, 900, 5000)
    reader = open_files.MappedReader()
    with path.open("rb") as stream:
        mapping = open_files.FileMapping(stream.fileno(), len(content))
        for count in (5000, 1024, 1, 0):
            with subtests.test(count=count):
                data, done = reader.copy(mapping.address + begins[:count], lengths[:count])
                pairs = zip(begins[:count].tolist(), lengths[:count].tolist(), strict=True)
                assert done == count
                assert data == b"".join(content[begin : begin + length] for begin, length in pairs)


@pytest.mark.parametrize("write", [write_small, write_large])
def test_eio_is_a_machine_error_with_path_and_offset(tmp_path, monkeypatch, write):
    uri = write(tmp_path / "rows")
    shard = shard_of(uri)
    source = trainer_utils.iterate(uri, "train", batch_size=4, shuffle=False, prefetch=0)
    source.batch(0, 0)
    asked = []

    def refuse(descriptor, buffers, offset):
        asked.append(offset)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", refuse)
    monkeypatch.setattr(os, "pread", refuse)
    monkeypatch.setattr(open_files.MappedReader, "copy", lambda *_: (b"", 0))
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(MachineError, match="EIO") as caught:
        source.batch(0, 1)
    error = caught.value
    assert (error.path, error.errno, error.offset) == (str(shard), errno.EIO, asked[0])
    assert len(asked) == 4
    assert f"(byte {asked[0]})" in str(error)


@pytest.mark.parametrize(("write", "name"), [(write_large, "blob"), (write_small, "text")])
def test_a_read_in_pieces_gives_all_bytes(tmp_path, monkeypatch, write, name):
    uri = write(tmp_path / "rows")
    settings = {"batch_size": 3000, "shuffle": False, "features": name}
    (whole,) = trainer_utils.iterate(uri, "train", **settings)
    pread, preadv = os.pread, os.preadv

    def short(descriptor, buffers, offset):  # like a read of more than 2 GiB
        return preadv(descriptor, [buffers[0][:30_000]], offset)

    monkeypatch.setattr(os, "preadv", short)
    monkeypatch.setattr(os, "pread", lambda descriptor, *more: pread(descriptor, 30_000, more[1]))
    (pieces,) = trainer_utils.iterate(uri, "train", **settings)
    assert pieces.tolist() == whole.tolist()


def test_full_disk_while_unpacking_names_the_folder(tmp_path, monkeypatch):
    uri = write_small(tmp_path / "packed", compression="gzip")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    settings = {"batch_size": 100, "cache": str(tmp_path / "cache")}
    with pytest.raises(MachineError, match="cannot be unpacked in") as caught:
        list(trainer_utils.iterate(uri, "train", **settings))
    assert str(tmp_path / "cache" / "shards") in str(caught.value)
    assert caught.value.path == str(shard_of(uri))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("opens", [True, False])
def test_full_temporary_folder_for_damaged_gzip_is_named(tmp_path, monkeypatch, opens):
    uri = write_small(tmp_path / "packed", compression="gzip")
    data = bytearray(shard_of(uri).read_bytes())
    data[len(data) // 2] ^= 255
    shard_of(uri).write_bytes(data)

    def full(**_):
        if not opens:
            raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    settings = {"batch_size": 100, "on_corrupt": "skip"}
    with pytest.raises(MachineError, match="cannot be unpacked in the temporary folder") as caught:
        list(trainer_utils.iterate(uri, "train", **settings))
    assert caught.value.path == str(shard_of(uri))
    assert caught.value.errno == (errno.ENOSPC if opens else errno.ENOENT)


def test_a_copy_cut_short_is_no_end_of_the_process(tmp_path):
    folder = CacheFolder(str(tmp_path / "cache"))
    copy = folder.open("0123456789abcdef-name", PART_BYTES)
    assert copy is not None
    assert copy.store(0, bytes(PART_BYTES))
    assert copy.parts().tolist() == [True]
    os.truncate(tmp_path / "cache" / "shards" / "0123456789abcdef-name", 10)
    assert copy.parts().tolist() == [False]
    assert not copy.holds(0, 10)


def test_a_shard_cut_while_it_is_read_is_never_skipped(tmp_path, monkeypatch):
    uri = write_large(tmp_path / "large")
    settings = {"batch_size": 4, "shuffle": False, "on_corrupt": "skip", "prefetch": 0}
    source = trainer_utils.iterate(uri, "train", **settings)
    source.batch(0, 0)
    monkeypatch.setattr("trainer_utils.reading.local_files.LocalFile.check", lambda file: None)
    os.truncate(shard_of(uri), 100_000)
    with pytest.raises(CorruptShardError, match="when its dataset was opened"):
        source.batch(0, 10)
