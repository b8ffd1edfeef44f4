"""Images whose bytes stand in a Parquet file."""

import pandas as pd

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


def test_structs_of_bytes_and_path_are_named_by_the_path(tmp_path):
    images = [{"bytes": b"abc", "path": "first.jpg"}, {"bytes": b"de", "path": "second.jpg"}]
    pd.DataFrame({"image": images, "label": [0, 1]}).to_parquet(tmp_path / "x.parquet")
    listing = listed(tmp_path)
    assert found(listing) == {"first.jpg": (None, 0), "second.jpg": (None, 1)}
    assert {entry.blobs[0].column for entry in listing.entries} == {"image.bytes"}
