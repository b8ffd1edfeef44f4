"""Archives that Python's tarfile wrote."""

import io
import json
import os
import random
import subprocess
import tarfile

import pytest

from components.inputs.input_table import Column
from components.inputs.listing import LayoutInputs
from components.layouts.webdataset import read_headers
from tests.components.layouts.layout_files import in_archive, read, values, write_tar
from tests.make import archive
from trainer_utils.core.errors import InputError

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


def test_files_with_one_key_are_one_example(tmp_path):
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
def test_blob_points_to_the_bytes_of_the_image(tmp_path, form):
    long = "folder/" * 12 + "x" * 60 if form != tarfile.USTAR_FORMAT else "folder/x"
    write_tar(tmp_path / "x.tar", {f"{long}.jpg": b"the image", "y.cls": "1"}, format=form)
    (entry,) = read(tmp_path).entries
    assert in_archive(tmp_path, entry) == b"the image"
    assert entry.name == f"x.tar/{long}.jpg"


def test_unreadable_sidecar_rejects_only_its_image(tmp_path, subtests):
    others = {"1.jpg": b"x", "1.cls": "5", "3.jpg": b"z", "3.cls": "6"}
    for name, content in (("2.json", "{"), ("2.json", "[1]"), ("2.txt", b"\xff\xfe")):
        for step in (1, -1):  # before the image or after it
            with subtests.test(step=step):
                second = [("2.jpg", b"y"), (name, content)]
                write_tar(tmp_path / "x.tar", dict(second[::step]) | others)
                listing = read(tmp_path)
                assert values(listing) == {"x.tar/1.jpg": {"label": 5}, "x.tar/3.jpg": {"label": 6}}
                (left,) = listing.excluded
                assert (left.name, left.code) == ("x.tar/2.jpg", "BAD_ANNOTATION")
                assert f"x.tar/{name}" in left.detail


def test_every_member_is_counted(tmp_path):
    files = {
        "1.jpg": b"x",
        "2.npy": b"x",
        "3.left.png": b"x",
        "folder/README": b"x",
        ".hidden.jpg": b"x",
        "__MACOSX/._1.jpg": b"x",
        "__meta__": b"x",
        "../9.jpg": b"up",
        "5.cls": "3",  # next to a link
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


def test_images_are_never_read(tmp_path, monkeypatch):
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
    assert sum(bytes_read) < 20_000  # only headers, and the padding at the end


@pytest.mark.parametrize(("name", "mode"), [("x.tar.gz", "gz"), ("x.tar", "bz2"), ("x.tar", "xz")])
def test_compressed_archive_is_detected_by_its_bytes(tmp_path, name, mode):
    write_tar(tmp_path / name, {"1.jpg": b"x"}, mode=f"w:{mode}")
    with pytest.raises(InputError, match=rf"'{name}'.*an uncompressed archive.*gunzip"):
        read(tmp_path)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_in_an_archive_are_classes(tmp_path, form):
    """Read archives like ImageNet's training images: n01440764.tar, … in one archive."""
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


# Keys, splits and several files of a key ---------------------------------------------------------


def test_keys_may_restart_in_each_archive(tmp_path):
    for shard in range(2):
        files = {f"{k:03d}.jpg": f"{shard} {k}" for k in range(3)} | {"000.cls": str(shard)}
        write_tar(tmp_path / f"train-{shard}.tar", files)
    listing = read(tmp_path)
    assert {entry.name: in_archive(tmp_path, entry).decode() for entry in listing.entries} == {
        f"train-{shard}.tar/{k:03d}.jpg": f"{shard} {k}" for shard in range(2) for k in range(3)
    }
    assert not listing.excluded


SPLIT_OF = {
    "imagenet1k-train-0000.tar": "train",
    "imagenet1k-validation-00.tar": "eval",
    "my_test_0.tar": "test",
    "val{000}.tar": "eval",
    "cc12m-train-0000.tar": "train",
    "Testing/000.tar": "test",
    "dev/shard-0.tar": "eval",
    "constrained-0.tar": None,
    "train-test-0.tar": None,
}


@pytest.mark.parametrize(("name", "split"), SPLIT_OF.items())
def test_split_is_any_word_of_the_archive_name(tmp_path, name, split):
    write_tar(tmp_path / name, {"0.jpg": b"x"})
    assert [entry.split for entry in read(tmp_path).entries] == [split]


def test_split_names_in_only_some_archives_are_refused(tmp_path):
    for name in ("train-0.tar", "extra.tar"):
        write_tar(tmp_path / name, {"0.jpg": b"x"})
    with pytest.raises(InputError, match=r"'extra\.tar'.*every archive, as in 'train-0\.tar'"):
        read(tmp_path)


PAIRS = {
    f"{key}.{ending}": f"{key} {ending}"
    for key in ("0", "1")
    for ending in ("jpg", "seg.png", "png", "flac", "npy", "cls")
}


def test_several_files_of_a_key_are_named_by_suffix(tmp_path):
    """Compare with webdataset's reader: a key, and a value for each suffix."""
    write_tar(tmp_path / "x.tar", PAIRS)
    listing = read(tmp_path)
    kinds = {"image": "image", "flac": "audio", "npy": "bytes", "png": "image", "seg.png": "image"}
    assert {blob.name: blob.kind for blob in listing.blobs} == kinds
    data = (tmp_path / "x.tar").read_bytes()
    for entry in listing.entries:
        key = entry.name.removeprefix("x.tar/").partition(".")[0]
        for column, blob in zip(listing.blobs, entry.blobs, strict=True):
            ending = "jpg" if column.name == "image" else column.name
            assert data[blob.offset : blob.offset + blob.size].decode() == f"{key} {ending}"
    assert [entry.values for entry in listing.entries] == [("0 cls",), ("1 cls",)]


def test_archives_without_plain_images_name_files_by_suffix(tmp_path):
    files = {f"{k}.{e}": b"x" for k in range(2) for e in ("left.png", "right.png", "json")}
    write_tar(tmp_path / "x.tar", files | {"0.json": "{}", "1.json": '{"left.png": 3}'})
    listing = read(tmp_path)
    assert [blob.name for blob in listing.blobs] == ["left.png", "right.png"]
    assert [column.name for column in listing.columns] == ["json.left.png"]


def test_a_file_that_some_keys_lack_is_left_out_with_a_warning(tmp_path, caplog):
    write_tar(tmp_path / "x.tar", {"0.jpg": b"x", "1.jpg": b"y", "1.npy": b"z"})
    assert [blob.name for blob in read(tmp_path).blobs] == ["image"]
    assert "1 files '.npy' in archives are left out, since 1 of 2 keys have none" in caplog.text


def test_an_image_that_some_keys_lack_is_refused_with_a_cure(tmp_path):
    write_tar(tmp_path / "x.tar", {"0.jpg": b"x", "1.jpg": b"y", "1.png": b"z"})
    with pytest.raises(InputError, match=r"columns=\{'png': 'ignore'\}"):
        read(tmp_path)
    listing = read(tmp_path, columns={"png": "ignore"})
    assert len(listing.entries) == 2
    assert [blob.name for blob in listing.blobs] == ["image"]


def test_extended_headers_are_read(tmp_path):
    path = tmp_path / "train.tar"
    general = {"comment": "of git archive", "mtime": "1.5"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=general) as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{'ordner/' * 20}bild-ä{number}.jpg")
            member.size = len(b"image")
            member.pax_headers = {"SCHILY.xattr.user.tag": "x" * 100_000, "mtime": "2.25"}
            archive.addfile(member, io.BytesIO(b"image"))
    entries = read(tmp_path).entries
    assert [in_archive(tmp_path, entry) for entry in entries] == [b"image"] * 3
    assert entries[2].name == f"train.tar/{'ordner/' * 20}bild-ä2.jpg"


# Columns from the files next to images ------------------------------------------------------------

COLUMNS = {
    "ints": ({"a.cls": " 3\n", "b.cls": "-4"}, [Column("label", "int")], [(3,), (-4,)]),
    "words": ({"a.cls": "cat", "b.cls": "4"}, [Column("label", "label")], [("cat",), ("4",)]),
    "an empty one": ({"a.cls": "3", "b.cls": ""}, [Column("label", "int")], [(3,), (None,)]),
    "text stays text": (
        {"a.txt": "3", "b.txt": "\ufeffé\n"},
        [Column("text", "string")],
        [("3",), ("é\n",)],
    ),
    "vectors": (
        {"a.json": '{"x": [1, 2]}', "b.json": '{"x": [3, 4.5]}'},
        [Column("x", "float", is_list=True, length=2)],
        [((1.0, 2.0),), ((3.0, 4.5),)],
    ),
    "label twice": (
        {"a.cls": "3", "a.json": '{"label": "cat", "n": 1}', "b.json": '{"n": 2}'},
        [Column("json.label", "string"), Column("n", "int"), Column("label", "int")],
        [("cat", 1, 3), (None, 2, None)],
    ),
    "of a key without image": (
        {"a.cls": "3", "c.cls": "cat", "c.json": '{"x": 1}'},
        [Column("label", "int")],
        [(3,), (None,)],
    ),
}


def test_types_of_sidecar_columns_fit_all_examples(tmp_path, subtests):
    for case, (files, columns, rows) in COLUMNS.items():
        with subtests.test(case=case):
            write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "b.jpg": b"y", **files})
            listing = read(tmp_path)
            assert list(listing.columns) == columns, case
            assert [entry.values for entry in listing.entries] == rows, case


def test_a_hostile_json_is_rejected_by_name(tmp_path, subtests):
    for content in (
        '{"x": 1' + "0" * 5000 + "}",
        "[" * 100_000,
        '"text"',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1}, "a.b": 2}',
    ):
        with subtests.test(content=content):
            write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "a.json": content})
            (left,) = read(tmp_path).excluded
            assert (left.name, left.code) == ("x.tar/a.jpg", "BAD_ANNOTATION")
            assert "x.tar/a.json'" in left.detail


# False, damaged, sparse or truncated headers ------------------------------------------------------


def test_sparse_image_is_left_out_and_others_are_read(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for name in ("1.jpg", "3.jpg"):
        (files / name).write_text(name)
    with open(files / "2.bmp", "wb") as hollow:
        hollow.seek(1 << 30)
        hollow.write(b"end")
    command = ["tar", "-cSf", tmp_path / "x.tar", "--format=posix", "1.jpg", "2.bmp", "3.jpg"]
    subprocess.run(command, cwd=files, check=True)
    with tarfile.open(tmp_path / "x.tar") as archive:  # tarfile agrees that it is sparse
        assert archive.getmember("2.bmp").issparse()
    base = tmp_path / "in"
    base.mkdir()
    (tmp_path / "x.tar").rename(base / "x.tar")
    listing = read(base)
    assert [in_archive(base, entry) for entry in listing.entries] == [b"1.jpg", b"3.jpg"]
    ((name, code, detail),) = [(o.name, o.code, o.detail) for o in listing.excluded]
    assert (name, code) == ("x.tar/2.bmp", "SPARSE_MEMBER")
    assert "without -S" in detail


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a member's header with a claimed size and a correct checksum."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    block[156:157] = kind
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)
BY_TARFILE = "invalid offset|a damaged header"  # newer versions refuse negative sizes
LIES = {
    "a negative size": (header("a.jpg", -512), f"('a.jpg' of -512 bytes|{BY_TARFILE})"),
    "a size back to the start": (
        header("a.jpg", -1024) * 2,
        f"('a.jpg' of -1024 bytes|{BY_TARFILE})",
    ),
    "a size past the end": (header("a.jpg", 1 << 40), "'a.jpg', which ends at byte 1099511628288"),
    "a name of a terabyte": (
        header("././@LongLink", 1 << 40, tarfile.GNUTYPE_LONGNAME),
        "claims 1099511627776 bytes, of at most 1048576",
    ),
    "a name of less than nothing": (
        header("././@LongLink", -1024, tarfile.GNUTYPE_LONGNAME),
        f"(claims -1024 bytes|{BY_TARFILE})",
    ),
    "names of names": (
        (header("././@LongLink", 1, tarfile.GNUTYPE_LONGNAME) + bytes(512)) * 5000,
        "recursion",
    ),
    "a negative size by pax": (
        header("p", 11, tarfile.XHDTYPE) + b"11 size=-9\n".ljust(512, b"\0") + header("a.jpg", 0),
        f"('a.jpg' of -9 bytes|{BY_TARFILE})",
    ),
}


def test_false_header_is_refused_with_its_offset(tmp_path, subtests):
    for data, match in LIES.values():
        with subtests.test(data=data):
            (tmp_path / "x.tar").write_bytes(data + END)
            with pytest.raises(InputError, match=rf"(?s)'x.tar'.*{match}.*\(byte \d+\)"):
                read(tmp_path)


def test_truncation_at_any_byte_is_reported(tmp_path, subtests):
    path = write_tar(tmp_path / "x.tar", {"1.jpg": b"a" * 700, "2.jpg": bytes(512)})
    data = path.read_bytes()
    end = 512 + 1024 + 512 + 512  # the end of the last member
    for size in [*range(1, end + 512, 37), 512, 1536, 2048, end, end + 511]:
        with subtests.test(size=size):
            path.write_bytes(data[:size])
            with pytest.raises(InputError, match=r"'x.tar': expected a complete tar.*\(byte \d+\)"):
                read(tmp_path)
    path.write_bytes(data[: end + 512])  # one block of zeros is an end
    assert len(read(tmp_path).entries) == 2


def test_thousands_of_hostile_headers_list_or_raise():
    """Change real archives at random: no other error, no hang, no blob outside the archive."""
    rng = random.Random(0)
    originals = [
        archive(dict.fromkeys(("a.jpg", "b.json", "c" * length), b"{}"), format=form)
        for form, length in (
            (tarfile.USTAR_FORMAT, 99),
            (tarfile.GNU_FORMAT, 120),
            (tarfile.PAX_FORMAT, 120),
        )
    ]
    outcomes = set()
    for _ in range(3000):
        data = bytearray(rng.choice(originals))
        start = rng.randrange(8) * 512
        change = rng.randrange(3)
        if change == 0:
            data[start + 156] = rng.choice(b"0125LKxgSDV")
        elif change == 1:
            size = rng.choice([-(2**62), -513, -1, 511, 2**20, 2**40, 2**62])
            data[start + 124 : start + 136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if data[start + 257 : start + 262] == b"ustar":
            data[start + 148 : start + 156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
        try:
            members = list(read_headers(io.BytesIO(data), path="x.tar", size=len(data)))
        except InputError:
            outcomes.add("refused")
            continue
        outcomes.add("read")
        assert all(
            member.offset_data >= 0 and member.offset_data + member.size <= len(data)
            for member in members
            if member.isreg() and not member.issparse()
        )
    assert outcomes == {"read", "refused"}
