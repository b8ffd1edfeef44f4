"""Archives that Python's own tarfile wrote."""

import io
import json
import os
import tarfile

import pytest

from components.common.layout_inputs import LayoutInputs
from components.common.rejects import Reject, render_rejects
from tests.components.layouts.archives import in_archive, write_tar
from trainer_utils.format import InputError

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


def test_words_of_classes_are_labels(tmp_path, read):
    write_tar(tmp_path / "x.tar", {"1.jpg": b"x", "1.cls": "dog", "2.jpg": b"y", "2.cls": "7"})
    assert [(c.name, c.kind) for c in read(tmp_path).columns] == [("label", "label")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("2.json", "{", "expected json in UTF-8"),
        ("2.json", "[1]", "expected an object, got list"),
        ("2.txt", b"\xff\xfe", "expected txt in UTF-8"),
    ],
)
@pytest.mark.parametrize("comes_first", [False, True])
def test_what_cannot_be_read_beside_an_image_rejects_that_alone(
    tmp_path, read, name, content, words, comes_first
):
    second = [("2.jpg", b"y"), (name, content)]
    others = {"1.jpg": b"x", "1.cls": "5", "3.jpg": b"z", "3.cls": "6"}
    write_tar(tmp_path / "x.tar", dict(second[:: -1 if comes_first else 1]) | others)
    listing = read(tmp_path)
    assert values(listing) == {"x.tar/1.jpg": {"label": 5}, "x.tar/3.jpg": {"label": 6}}
    (left,) = listing.excluded
    assert (left.name, left.code) == ("x.tar/2.jpg", "BAD_ANNOTATION")
    assert words in left.detail
    assert f"x.tar/{name}" in left.detail


def test_an_archive_cut_short_is_refused_wherever_it_is_cut(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {f"{n}.jpg": bytes([n]) * 700 for n in range(1, 4)})
    data = path.read_bytes()
    for size in range(1, 3 * 1536, 100):  # a header and two blocks each
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=r"'x.tar'"):
            read(tmp_path)


def test_every_member_is_counted_and_every_reject_can_be_written(tmp_path, read):
    files = {
        "1.jpg": b"x",
        "2.npy": b"x",
        "3.left.png": b"x",
        "folder/README": b"x",
        ".hidden.jpg": b"x",
        "__MACOSX/._1.jpg": b"x",
        "__meta__": b"x",
        "../9.jpg": b"up",
        "5.cls": "3",  # beside a link
        os.fsdecode(b"\xff.txt"): b"x",
    }
    path = write_tar(tmp_path / "train-0.tar", files)
    with tarfile.open(path, "a") as archive:
        for name, kind in (
            ("folder", tarfile.DIRTYPE),
            ("4.jpg", tarfile.LNKTYPE),
            ("5.jpg", tarfile.SYMTYPE),
            ("6.jpg", tarfile.CHRTYPE),
            ("7.jpg", tarfile.FIFOTYPE),
            ("8.jpg", b"M"),  # a part of a volume
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "1.jpg"
            archive.addfile(member)
    listing = read(tmp_path)
    assert [entry.name for entry in listing.entries] == ["train-0.tar/1.jpg"]
    assert {
        os.fsencode(o.name).removeprefix(b"train-0.tar/"): o.code for o in listing.excluded
    } == {
        b"2": "NO_IMAGE",
        b"3": "NO_IMAGE",
        b"\xff": "NO_IMAGE",
        b"folder/README": None,
        b".hidden.jpg": None,
        b"__MACOSX/._1.jpg": None,
        b"__meta__": None,
        b"../9.jpg": "NOT_A_FILE",
        **{b"%d.jpg" % number: "NOT_A_FILE" for number in range(4, 9)},
    }
    assert {left.split for left in listing.excluded} == {"train"}
    rejects = [Reject("train", o.name, o.code, o.detail) for o in listing.excluded if o.code]
    assert len(render_rejects(rejects).encode().splitlines()) == 9


def test_images_are_never_read(tmp_path, read, monkeypatch):
    write_tar(tmp_path / "x.tar", {"a.jpg": bytes(8 << 20), "a.cls": "3"})
    bytes_read = []

    def counted(self: LayoutInputs, path: str):
        stream = open(os.path.join(self.base, path), "rb", buffering=0)  # noqa: SIM115

        class Counted(io.RawIOBase):
            seek, tell = stream.seek, stream.tell

            def read(self, size: int = -1) -> bytes:
                data = stream.read(size)
                bytes_read.append(len(data))
                return data

        return Counted()

    monkeypatch.setattr(LayoutInputs, "open", counted)
    assert len(read(tmp_path).entries) == 1
    assert sum(bytes_read) < 20_000  # headers, and the padding at the end


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("suffix", [True, False])
def test_a_compressed_archive_is_told_by_its_bytes_too(tmp_path, read, mode, suffix):
    name = f"x.tar.{mode}" if suffix else "x.tar"
    write_tar(tmp_path / name, {"1.jpg": b"x"}, mode=f"w:{mode}")
    with pytest.raises(InputError, match=rf"'{name}'.*not compressed.*gunzip"):
        read(tmp_path)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_archives_in_an_archive_are_classes(tmp_path, read, form):
    """As ImageNet's training images come: ILSVRC2012_img_train.tar, of n01440764.tar, …"""
    images = {
        name: {f"{name}_{n}.JPEG": f"{name} {n}".encode() * (n + 1) * 300 for n in range(3)}
        for name in ("n01440764", "n01443537")
    }
    inner = {
        f"{name}.tar": write_tar(tmp_path / f"tars/{name}.tar", files, format=form).read_bytes()
        for name, files in images.items()
    }
    base = tmp_path / "in"
    write_tar(base / "ILSVRC2012_img_train.tar", inner, format=form)
    listing = read(base)
    assert [column.name for column in listing.columns] == ["label"]
    found = {entry.name.rpartition("/")[2]: entry for entry in listing.entries}
    assert {name: in_archive(base, entry) for name, entry in found.items()} == {
        name: data for files in images.values() for name, data in files.items()
    }
    assert all(e.values == (name.split("_")[0],) for name, e in found.items())
    assert {entry.split for entry in listing.entries} == {"train"}
    whole = (base / "ILSVRC2012_img_train.tar").read_bytes()
    damaged = whole.replace(b"n01443537_1.JPEG", b"n01443537_1.JPEX", 1)
    (base / "ILSVRC2012_img_train.tar").write_bytes(damaged)
    with pytest.raises(InputError, match=r"n01443537\.tar"):
        read(base)
