"""Cells of a large row group are streamed: bounded memory, and each byte is read once."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from components.inputs import blob_reader, parquet_cells
from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob
from components.inputs.parquet_cells import CellReader
from components.inputs.rejects import RejectedInputError

ROWS, PHOTO_BYTES = 400, 100_000


class CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        CountedFile.read_bytes += len(data)
        return data

    def readinto(self, buffer) -> int:
        count = super().readinto(buffer)
        CountedFile.read_bytes += count
        return count


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    random = np.random.default_rng(1)
    return [random.bytes(PHOTO_BYTES + row) for row in range(ROWS)]


@pytest.fixture(scope="module")
def table(photos, tmp_path_factory) -> Path:
    """Return a file with all photos in one row group, and 16 in a page."""
    path = tmp_path_factory.mktemp("table") / "photos.parquet"
    write_photos(path, photos, compression="snappy")
    return path


def write_photos(path: Path, photos: list[bytes], *, compression: str) -> None:
    images = pa.table({"image": [{"bytes": photo, "path": None} for photo in photos]})
    pa.parquet.write_table(
        images, path, row_group_size=ROWS, write_batch_size=16, compression=compression
    )


def test_large_row_group_is_streamed_once_in_bounded_memory(table, photos, monkeypatch):
    monkeypatch.setattr(
        blob_reader.storage, "open_for_reading", lambda path, root: CountedFile(path)
    )
    CountedFile.read_bytes = 0
    reader, before, peak = BlobReader(str(table.parent)), pa.total_allocated_bytes(), 0
    for row in range(0, ROWS, 2):
        blob = Blob(table.name, PHOTO_BYTES, row=row, column="image.bytes")
        assert reader.read(blob) == photos[row]
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert CountedFile.read_bytes < 1.1 * table.stat().st_size
    assert peak < 12_000_000  # of 40 MB


def test_rows_before_the_last_one_start_the_row_group_again(table, photos, subtests):
    with open(table, "rb") as stream:
        reader = CellReader(stream, "image.bytes")
        for row in (0, 399, 5, 4, 398):
            with subtests.test(row=row):
                assert reader.value(row) == {"bytes": photos[row]}
        with pytest.raises(IndexError):
            reader.value(ROWS)


@pytest.mark.parametrize("batch_bytes", [1, 300_000, 1 << 30])
def test_all_row_groups_are_read_for_any_size_of_batch(tmp_path, monkeypatch, batch_bytes):
    monkeypatch.setattr(parquet_cells, "BATCH_BYTES", batch_bytes)
    values = [None if row % 7 == 3 else b"%d" % row * 50 for row in range(1000)]
    pa.parquet.write_table(pa.table({"b": values}), tmp_path / "t", row_group_size=300)
    with open(tmp_path / "t", "rb") as stream:
        reader = CellReader(stream, "b")
        assert [reader.value(row) for row in range(1000)] == values


def test_repeated_value_is_not_unpacked_for_all_rows(tmp_path):
    """A megabyte that is repeated 5,000 times takes a megabyte in the file, and 5 GB unpacked."""
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, np.int32)), [b"x" * 1_000_000])
    pa.parquet.write_table(pa.table({"b": array.dictionary_decode()[:500]}), tmp_path / "t")
    before = pa.total_allocated_bytes()
    with open(tmp_path / "t", "rb") as stream:
        reader = CellReader(stream, "b")
        for row in range(0, 500, 50):
            assert len(reader.value(row)) == 1_000_000
            assert pa.total_allocated_bytes() - before < 2 * parquet_cells._MAX_REPEATED_BYTES


def test_rows_before_damage_are_kept_and_others_are_rejected(tmp_path, photos):
    path = tmp_path / "t.parquet"
    write_photos(path, photos, compression="gzip")
    data = bytearray(path.read_bytes())
    data[20_000_000:20_100_000] = bytes(100_000)
    path.write_bytes(data)
    reader, good, bad = BlobReader(str(tmp_path)), list[int](), list[int]()
    for row in range(ROWS):
        try:
            blob = Blob("t.parquet", PHOTO_BYTES, row=row, column="image.bytes")
            assert reader.read(blob) == photos[row]
            good.append(row)
        except RejectedInputError:
            bad.append(row)
    assert good == [*range(len(good))]
    assert bad == [*range(len(good), ROWS)]
    assert 100 < len(good) < 210
