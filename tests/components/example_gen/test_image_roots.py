"""Lists of whole paths: the folders that hold their files."""

import uuid

import pytest

from components.common.entry import Blob, BlobReader
from components.common.layout_inputs import FilesElsewhere, ImageRoot, LayoutInputs
from components.example_gen.inputs import roots_of
from trainer_utils.storage import InputFile, file_system_of


def test_a_relative_root_is_meant_from_where_the_process_stands_now(tmp_path, monkeypatch):
    """Also where an earlier folder of the same process had a root of that name."""
    for name in ("one", "two"):
        folder = tmp_path / name / "photos"
        folder.mkdir(parents=True)
        (folder / "1.jpg").write_bytes(b"x")
        monkeypatch.chdir(tmp_path / name)
        roots = (ImageRoot("photos", {"1.jpg": InputFile("1.jpg", 1, "")}),)
        inputs = LayoutInputs(base="lists", root="", files={}, image_roots=roots)
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
    (root,) = roots_of(elsewhere.found)
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
    roots = roots_of(elsewhere.found)
    assert {root.base for root in roots} == {f"{tmp_path}/photos", f"{tmp_path}/photos/more"}
    reader = BlobReader("lists", [root.base for root in roots])
    for root in roots:
        for file in root.files.values():
            assert reader.read(Blob(f"{root.base}/{file.path}", file.size)) == b"x"
