"""Test reads that the system answers with fewer bytes than available."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from trainer_utils.storage import local, open_for_reading, read_bytes, read_range

DATA = bytes(range(256)) * 40

READS: dict[str, tuple[Callable[[Any], object], object]] = {
    "read": (lambda stream: stream.read(9000), DATA[:9000]),
    "read all": (lambda stream: stream.read(), DATA),
    "readall": (lambda stream: stream.readall(), DATA),
    "read past the end": (lambda stream: stream.read(20_000), DATA),
    "readinto": (lambda stream: bytes(_filled(stream, 9000)), DATA[:9000]),
    "readinto of wide items": (
        lambda stream: _filled(stream, 1000, np.int64).tobytes(),
        DATA[:8000],
    ),
    "Arrow": (lambda stream: pa.PythonFile(stream, mode="r").read(9000), DATA[:9000]),
}


def _filled(stream: io.RawIOBase, count: int, dtype: Any = np.uint8) -> Any:
    array = np.zeros(count, dtype)
    assert stream.readinto(array) == array.nbytes
    return array


@pytest.fixture
def file_of_short_reads(tmp_path) -> Iterator[Path]:
    """Yield a file with system calls that read 1,000 bytes at most."""

    class ShortReads(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(1000 if size is None or size < 0 else min(size, 1000)) or b""

        def readinto(self, buffer: Any, /) -> int:
            return super().readinto(memoryview(buffer).cast("B")[:1000]) or 0

    path = tmp_path / "data"
    path.write_bytes(DATA)
    local._LocalFile.__bases__ = (ShortReads,)
    yield path
    local._LocalFile.__bases__ = (io.FileIO,)


@pytest.mark.parametrize("name", READS)
def test_short_reads_are_continued(file_of_short_reads, name):
    read, expected = READS[name]
    with open_for_reading(str(file_of_short_reads)) as stream:
        assert read(stream) == expected


def test_whole_files_and_ranges_survive_short_reads(file_of_short_reads):
    path = str(file_of_short_reads)
    assert read_bytes(path) == DATA
    assert read_range(path, start=5, stop=7005) == DATA[5:7005]


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_parquet_is_read_through_short_reads(file_of_short_reads, compression):
    table = pa.table({"data": [DATA, DATA[::-1]], "n": [1, 2]})
    pa.parquet.write_table(table, file_of_short_reads, compression=compression)
    with open_for_reading(str(file_of_short_reads)) as stream:
        assert pa.parquet.ParquetFile(stream).read_row_group(0) == table


@pytest.mark.slow
def test_one_read_returns_more_than_linux_reads_at_once(tmp_path):
    path, size = tmp_path / "data", 0x7FFFF000 + 5000  # read(2) returns at most 0x7ffff000
    with open(path, "wb") as stream:
        stream.truncate(size)
    with open_for_reading(str(path)) as stream:
        assert len(stream.read(size)) == size
