"""The raw file of a record, among files that are there and that are not."""

import pytest

from pipelines.lineage.source_files import SourceFile, find_source


@pytest.fixture
def base(tmp_path):
    (tmp_path / "cat").mkdir()
    for name in ("cat/1.jpg", "reviews.csv", "photos.tar", "odd:7"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "path", "rest"),
    [
        ("cat/1.jpg", "cat/1.jpg", {}),
        ("reviews.csv:17", "reviews.csv", {"row": 17}),
        ("photos.tar/a/2.jpg", "photos.tar", {"member": "a/2.jpg"}),
        ("odd:7", "odd:7", {}),
    ],
)
def test_a_file_a_row_and_a_member_are_found(base, name, path, rest):
    found = find_source(name, bases=[str(base / "elsewhere"), str(base)])
    assert found == SourceFile(path=str(base / path), exists=True, **rest)


def test_the_base_may_be_the_file_itself(base):
    found = find_source("reviews.csv:3", bases=[str(base / "reviews.csv")])
    assert found == SourceFile(path=str(base / "reviews.csv"), exists=True, row=3)


def test_what_is_gone_is_named_where_it_was(base):
    found = find_source("gone.csv:3", bases=[str(base), "/other"])
    assert found == SourceFile(path=str(base / "gone.csv"), exists=False, row=3)


def test_a_bucket_is_not_looked_into_and_no_base_says_nothing():
    found = find_source("a/1.jpg", bases=["gs://bucket/raw"])
    assert found == SourceFile(path="gs://bucket/raw/a/1.jpg", exists=None)
    assert find_source("a/1.jpg", bases=[]) is None
