"""Lists of whole paths: the folders that hold their files, or one short error that names these."""

import os
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.common.blobs import BlobReader
from components.common.entry import Blob, ExcludedInput
from components.common.file_table import FileTable
from components.common.input_table import InputTable
from components.common.layout_inputs import FilesElsewhere, ImageRoot, LayoutInputs
from components.example_gen.image_roots import check_image_roots, roots_of, suggest_roots
from components.example_gen.settings import ImageSettings
from trainer_utils.format import InputError
from trainer_utils.storage import InputFile, file_system_of


def listing_of(*uris: str, inside: int = 0) -> InputTable:
    outside = (
        ExcludedInput(u, None, "OUTSIDE_INPUT_BASE", f"line {n}: no") for n, u in enumerate(uris)
    )
    others = (ExcludedInput(f"{n}.jpg", None, None, "skipped") for n in range(inside))
    return InputTable.of((), (*outside, *others))


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


def test_a_thousand_files_outside_are_one_line():
    uris = [f"/data/photos/{number}.jpg" for number in range(1000)]
    with pytest.raises(InputError) as error:
        check_image_roots(listing_of(*uris), ImageSettings(), base="lists")
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 400
    assert "1,000 of 1,000 outside" in message
    assert "image_roots=['/data/photos']" in message
    assert "--image-root /data/photos" in message


def test_as_many_as_may_be_rejected_are_no_error():
    listing = listing_of("/data/1.jpg", inside=9)
    check_image_roots(listing, ImageSettings(max_reject_fraction=0.1), base="lists")
    with pytest.raises(InputError, match="1 of 10 outside"):
        check_image_roots(listing, ImageSettings(max_reject_fraction=0.09), base="lists")


def test_a_relative_root_is_meant_from_where_the_process_stands_now(tmp_path, monkeypatch):
    """Also where an earlier folder of the same process had a root of that name."""
    for name in ("one", "two"):
        folder = tmp_path / name / "photos"
        folder.mkdir(parents=True)
        (folder / "1.jpg").write_bytes(b"x")
        monkeypatch.chdir(tmp_path / name)
        roots = (ImageRoot("photos", {"1.jpg": InputFile("1.jpg", 1, "")}),)
        inputs = LayoutInputs(base="lists", root="", files=FileTable.of([]), image_roots=roots)
        path, blob = inputs.resolve(str(folder / "1.jpg"), folder="")
        assert (path, blob.path) == ("1.jpg", str(folder / "1.jpg"))


@pytest.mark.parametrize("store", [True, False])
def test_files_elsewhere_are_found_and_have_few_roots(tmp_path, store):
    base = f"memory://{uuid.uuid4().hex}" if store else str(tmp_path)
    names = ["photos/cat/1.jpg", "photos/cat/2.jpg", "photos/dog/1.jpg"]
    for name in [*names, "photos/dog/unnamed.jpg"]:
        if not store:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with file_system_of(base).create(f"{base}/{name}") as stream:
            stream.write(name.encode())
    elsewhere = FilesElsewhere()
    for name in names:
        found = elsewhere.find(f"{base}/{name}")
        assert found is not None
        assert found.size == len(name)
    for gone in ("photos/cat/3.jpg", "nowhere/1.jpg"):
        assert elsewhere.find(f"{base}/{gone}") is None
    (root,) = roots_of(elsewhere.found, base=f"{base}/lists")
    assert root.base == f"{base}/photos"
    assert list(root.files) == ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"]
    assert all(file.path == path for path, file in root.files.items())


def test_a_folder_behind_a_link_is_a_root_of_its_own(tmp_path):
    for folder in ("photos", "disk"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.jpg").write_bytes(b"x")
    (tmp_path / "photos/more").symlink_to(tmp_path / "disk")
    elsewhere = FilesElsewhere()
    for name in ("photos/1.jpg", "photos/more/1.jpg"):
        assert elsewhere.find(str(tmp_path / name)) is not None
    roots = roots_of(elsewhere.found, base=str(tmp_path / "lists"))
    assert {root.base for root in roots} == {f"{tmp_path}/photos", f"{tmp_path}/photos/more"}
    reader = BlobReader("lists", [root.base for root in roots])
    for root in roots:
        for file in root.files.values():
            assert reader.read(Blob(f"{root.base}/{file.path}", file.size)) == b"x"
