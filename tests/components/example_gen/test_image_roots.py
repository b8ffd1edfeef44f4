"""Lists of whole paths: the folders that hold their files, or one short error that names these."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.example_gen.image_roots import suggest_roots


@pytest.mark.parametrize(
    ("uris", "roots"),
    [
        (["/data/photos/a/1.jpg", "/data/photos/b/2.jpg"], ["/data/photos"]),
        (["/data/a.jpg"], ["/data"]),
        (["/data/photos/1.jpg", "/data/photos2/1.jpg"], ["/data"]),
        (["/data/a/1.jpg", "/data/b/1.jpg", "/mnt/c/1.jpg"], ["/data", "/mnt/c"]),
        (["gs://bucket/photos/a/1.jpg", "gs://bucket/photos/b/1.jpg"], ["gs://bucket/photos"]),
        (["gs://one/a/1.jpg", "gs://two/b/1.jpg"], ["gs://one/a", "gs://two/b"]),
        (["file:///data/x/1.jpg"], ["/data/x"]),
        (["../photos/1.jpg"], ["/home/photos"]),
        (["cat/link.jpg", "link.jpg", "../photos/1.jpg"], ["/home/photos"]),
        (["cat/link.jpg"], []),
    ],
)
def test_the_roots_that_are_suggested_hold_every_file(uris, roots):
    assert suggest_roots(uris, base="/home/lists") == roots


PARTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)


@given(st.lists(PARTS, min_size=1, max_size=6))
def test_every_file_is_below_a_suggested_root_and_none_is_a_whole_disk(paths):
    uris = ["/" + "/".join([*parts, "x.jpg"]) for parts in paths]
    roots = suggest_roots(uris, base="/home")
    assert all(any(Path(root) in Path(uri).parents for root in roots) for uri in uris)
    assert os.sep not in roots
