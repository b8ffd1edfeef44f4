"""Images whose bytes stand in a Parquet file."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from components.common.entry import Blob, BlobReader
from tests.components.example_gen.list_files import found, listed


def test_images_in_parquet_are_found_without_being_read(tmp_path):
    frame = pd.DataFrame(
        {"image": [b"x" * 1000, b"y" * 3000], "label": ["cat", "dog"], "split": ["train", "test"]}
    )
    frame.to_parquet(tmp_path / "list.parquet")
    listing = listed(tmp_path)
    assert found(listing) == {
        "list.parquet/00000000": ("train", "cat"),
        "list.parquet/00000001": ("test", "dog"),
    }
    blobs = [entry.blobs[0] for entry in listing.entries]
    assert [(blob.path, blob.row, blob.column) for blob in blobs] == [
        ("list.parquet", 0, "image"),
        ("list.parquet", 1, "image"),
    ]


def test_of_several_columns_each_row_group_is_read_once(tmp_path, monkeypatch):
    rows = {"image": [b"i%d" % n for n in range(30)], "map": [b"m%d" % n for n in range(30)]}
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "a.parquet", row_group_size=10)
    read, calls = pyarrow.parquet.ParquetFile.read_row_group, []

    def counted(self, number, **more):
        calls.append((number, *more["columns"]))
        return read(self, number, **more)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "read_row_group", counted)
    reader = BlobReader(str(tmp_path))
    for row in range(30):
        for name in rows:
            data = reader.read(Blob("a.parquet", 3, row=row, column=name))
            assert data == rows[name][row]
    assert sorted(calls) == [(group, name) for group in range(3) for name in rows]
