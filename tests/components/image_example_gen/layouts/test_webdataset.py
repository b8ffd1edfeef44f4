"""Archives that Python's own tarfile wrote."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from trainer_utils.format import InputError


def write_tar(path: Path, files: dict[str, bytes | str], **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, options.pop("mode", "w"), **options) as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


SAMPLES = {
    "a/0.jpg": b"first image",
    "a/0.cls": "3",
    "a/0.json": json.dumps({"score": 0.5, "meta": {"tags": ["x", "y"]}}),
    "a/0.txt": "a caption",
    "a/1.left.png": b"?",
    "b.c.jpg": b"?",
    "2.png": b"third image, longer",
    "2.cls": "4\n",
    "2.json": json.dumps({"score": 1}),
    "2.npy": b"not used",
}


def values(listing) -> dict[str, dict]:
    names = [column.name for column in listing.columns]
    return {e.name: dict(zip(names, e.values, strict=True)) for e in listing.entries}


def test_files_of_one_key_make_one_example(tmp_path, read):
    write_tar(tmp_path / "train-000000.tar", SAMPLES)
    listing = read(tmp_path)
    assert values(listing) == {
        "train-000000.tar/a/0.jpg": {
            "score": 0.5,
            "meta.tags": ("x", "y"),
            "label": 3,
            "text": "a caption",
        },
        "train-000000.tar/2.png": {"score": 1.0, "meta.tags": (), "label": 4, "text": None},
    }
    kinds = {column.name: (column.kind, column.is_list) for column in listing.columns}
    assert kinds == {
        "score": ("float", False),
        "meta.tags": ("string", True),
        "label": ("int", False),
        "text": ("string", False),
    }


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_bytes_of_an_image_are_where_the_blob_says(tmp_path, read, form):
    long = "folder/" * 12 + "x" * 60 if form != tarfile.USTAR_FORMAT else "folder/x"
    path = write_tar(tmp_path / "x.tar", {f"{long}.jpg": b"the image", "y.cls": "1"}, format=form)
    (entry,) = read(tmp_path).entries
    (blob,) = entry.blobs
    data = path.read_bytes()
    assert data[blob.offset : blob.offset + blob.size] == b"the image"
    assert entry.name == f"x.tar/{long}.jpg"


@pytest.mark.parametrize(
    ("name", "split"),
    [("train-000.tar", "train"), ("val/000.tar", "eval"), ("shard-0.tar", None)],
)
def test_the_split_is_the_archives_name_or_folder(tmp_path, read, name, split):
    write_tar(tmp_path / name, {"1.jpg": b"x"})
    assert [entry.split for entry in read(tmp_path).entries] == [split]


def test_words_of_classes_are_labels(tmp_path, read):
    write_tar(tmp_path / "x.tar", {"1.jpg": b"x", "1.cls": "dog", "2.jpg": b"y", "2.cls": "7"})
    assert [(c.name, c.kind) for c in read(tmp_path).columns] == [("label", "label")]


def test_a_key_without_an_image_and_what_is_no_file_are_left_out(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {"1.jpg": b"x", "2.txt": "alone", "../3.jpg": b"up"})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("4.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    listing = read(tmp_path)
    assert [entry.name for entry in listing.entries] == ["x.tar/1.jpg"]
    assert {(left.name, left.code) for left in listing.left_out} == {
        ("x.tar/2", "NO_IMAGE"),
        ("x.tar/../3.jpg", "NOT_A_FILE"),
        ("x.tar/4.jpg", "NOT_A_FILE"),
    }


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"1.jpg": b"x", "1.png": b"y"}, ["x.tar", "one image", "'1'"]),
        ({"1.jpg": b"x", "1.json": "{"}, ["x.tar/1.json", "json"]),
        ({"1.jpg": b"x", "1.json": "[1]"}, ["x.tar/1.json", "list"]),
        ({"1.jpg": b"x", "1.txt": b"\xff\xfe"}, ["x.tar/1.txt", "UTF-8"]),
        ({"1.jpg": b"x", "1.json": '{"a": [{}]}'}, ["'a'", "x.tar/1"]),
    ],
)
def test_a_malformed_sample_is_refused_by_name(tmp_path, read, files, words):
    write_tar(tmp_path / "x.tar", files)
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert [word for word in words if word not in str(caught.value)] == []


def test_an_archive_cut_short_is_refused_wherever_it_is_cut(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {f"{n}.jpg": bytes([n]) * 700 for n in range(1, 4)})
    data = path.read_bytes()
    for size in range(1, 3 * 1536, 100):  # a header and two blocks each
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=r"'x.tar'"):
            read(tmp_path)


@pytest.mark.parametrize("mode", ["w:gz", "w:xz"])
def test_a_compressed_archive_is_refused_with_the_cure(tmp_path, read, mode):
    write_tar(tmp_path / f"x.tar.{mode[2:]}", {"1.jpg": b"x"}, mode=mode)
    with pytest.raises(InputError, match="not compressed"):
        read(tmp_path)


def test_a_single_archive_may_be_the_root(tmp_path, read):
    write_tar(tmp_path / "x.tar", {"1.jpg": b"x"})
    write_tar(tmp_path / "y.tar", {"2.jpg": b"x"})
    assert [entry.name for entry in read(tmp_path, root="y.tar").entries] == ["y.tar/2.jpg"]
