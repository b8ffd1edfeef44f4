"""Archives that Python's own tarfile wrote."""

import io
import json
import os
import random
import tarfile
from pathlib import Path

import pytest

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Column
from components.common.rejects import Reject, render_rejects
from components.image_example_gen.layouts import read_layout
from components.image_example_gen.layouts.tar_headers import holes, read_headers
from trainer_utils.format import ConfigError, InputError
from trainer_utils.storage import list_files


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
    assert {(left.name, left.code) for left in listing.excluded} == {
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


# From here on: names, accounting, columns, and archives that lie.


def in_archive(tmp_path: Path, entry) -> bytes:
    (blob,) = entry.blobs
    return (tmp_path / blob.path).read_bytes()[blob.offset : blob.offset + blob.size]


KEYS = {  # WebDataset: up to the first dot after the last slash; the extension in lower case
    "a.jpg": "a.jpg",
    "a.JPG": "a.JPG",
    "./a.jpg": "a.jpg",
    "/a/b.jpg": "a/b.jpg",
    "v1.0/a.jpg": "v1.0/a.jpg",
    "a [b] *?\n.jpg": "a [b] *?\n.jpg",
    "\U0001f415.jpg": "\U0001f415.jpg",
    os.fsdecode(b"\xff.jpg"): os.fsdecode(b"\xff.jpg"),
}


@pytest.mark.parametrize(("name", "shown"), KEYS.items())
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_entry_is_called_as_its_archive_and_member(tmp_path, read, form, name, shown):
    files = {name: b"an image", os.path.splitext(name)[0] + ".cls": "3"}
    write_tar(tmp_path / "x.tar", files, format=form)
    (entry,) = read(tmp_path).entries
    assert (entry.name, entry.values) == (f"x.tar/{shown}", (3,))
    assert in_archive(tmp_path, entry) == b"an image"


@pytest.mark.parametrize("extension", ["jpeg", "png", "gif", "bmp", "webp", "tif", "tiff", "ppm"])
def test_an_image_has_one_of_many_extensions(tmp_path, read, extension):
    write_tar(tmp_path / "x.tar", {f"a.{extension}": b"image"})
    assert [entry.name for entry in read(tmp_path).entries] == [f"x.tar/a.{extension}"]


def test_every_member_is_counted_and_every_reject_can_be_written(tmp_path, read):
    files = {
        "1.jpg": b"x",
        "2.npy": b"x",
        "3.left.png": b"x",
        "folder/README": b"x",
        ".hidden.jpg": b"x",
        "__MACOSX/._1.jpg": b"x",
        "__meta__": b"x",
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
        **{b"%d.jpg" % number: "NOT_A_FILE" for number in range(4, 9)},
    }
    assert {left.split for left in listing.excluded} == {"train"}
    rejects = [Reject("train", o.name, o.code, o.detail) for o in listing.excluded if o.code]
    assert len(render_rejects(rejects).encode().splitlines()) == 8


def test_an_image_that_is_a_link_is_one_reject_whatever_lies_beside_it(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {"1.jpg": b"x", "2.cls": "3", "2.json": "{}"})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("2.jpg")
        link.type, link.linkname = tarfile.LNKTYPE, "1.jpg"
        archive.addfile(link)
    assert [(o.name, o.code) for o in read(tmp_path).excluded] == [("x.tar/2.jpg", "NOT_A_FILE")]


def test_files_that_are_not_used_are_logged_once_an_extension(tmp_path, read, caplog):
    files = {f"{n}.{e}": b"x" for n in range(3) for e in ("jpg", "npy", "left.png")}
    write_tar(tmp_path / "x.tar", {**files, "0.mp4": b"x"})
    with caplog.at_level("INFO", logger="absl"):
        read(tmp_path)
    assert [r.getMessage() for r in caplog.records if "not used" in r.getMessage()] == [
        "3 files '.left.png' in archives are not used",
        "1 files '.mp4' in archives are not used",
        "3 files '.npy' in archives are not used",
    ]


@pytest.mark.parametrize(
    ("archives", "match"),
    [
        (
            {"a.tar": ["k/1.jpg"], "b.tar": ["k/1.jpg"]},
            r"key 'k/1'.*in one archive, got it in 'a.tar' and 'b.tar'",
        ),
        (
            {"train-0.tar": ["1.jpg"], "train/1.tar": ["1.png"]},
            r"key '1'.*of split 'train', got it in 'train-0.tar' and 'train/1.tar'",
        ),
        (
            {"a.tar": ["1.jpg", "2.jpg", "1.jpg"]},
            r"'a.tar'.*image of key '1', got '1.jpg' and '1.j",
        ),
        (
            {"a.tar": ["1.jpg", "1.PNG"]},
            r"one image of key '1', got '1.jpg' and '1.PNG' .byte 1024",
        ),
        ({"a.tar": ["1.jpg", "./1.jpg"]}, r"one image of key '1', got '1.jpg' and '1.jpg'"),
        ({"a.tar": ["1.jpg", "1.cls", "1.CLS"]}, r"one cls of key '1', got '1.cls' and '1.CLS'"),
    ],
)
def test_what_is_twice_is_refused_by_both_names(tmp_path, read, archives, match):
    for path, names in archives.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        with tarfile.open(tmp_path / path, "w") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 1
                archive.addfile(member, io.BytesIO(b"3"))
    with pytest.raises(InputError, match=match):
        read(tmp_path)


def test_one_key_may_be_in_two_splits(tmp_path, read):
    for split in ("train", "val"):
        write_tar(tmp_path / f"{split}-0.tar", {"1.jpg": b"x"})
    assert {e.name: e.split for e in read(tmp_path).entries} == {
        "train-0.tar/1.jpg": "train",
        "val-0.tar/1.jpg": "eval",
    }


def test_a_key_may_come_in_pieces(tmp_path, read):
    write_tar(tmp_path / "x.tar", {"1.cls": "3", "2.jpg": b"x", "2.cls": "4", "1.jpg": b"y"})
    assert {e.name: e.values for e in read(tmp_path).entries} == {
        "x.tar/1.jpg": (3,),
        "x.tar/2.jpg": (4,),
    }


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("validation_00.tar", "eval"),
        ("TEST.tar", "test"),
        ("dev000.tar", "eval"),
        ("shards/train-0.tar", "train"),
        ("train/val-0.tar", "eval"),
        ("trainer-0.tar", None),
        ("a-train-0.tar", None),
    ],
)
def test_the_leading_word_of_a_name_comes_before_the_folder(tmp_path, read, name, split):
    write_tar(tmp_path / name, {"1.jpg": b"x"})
    assert [entry.split for entry in read(tmp_path).entries] == [split]


@pytest.mark.parametrize("photo", ["cat/1.jpg", "2.PNG"])
def test_an_archive_among_photos_does_not_hide_them(tmp_path, read, write, photo):
    write_tar(tmp_path / "cat/backup.tar", {"old.jpg": b"x"})
    write(tmp_path, **{photo: b"x"})
    listing = read(tmp_path)
    assert photo in {each.name for each in (*listing.entries, *listing.excluded)}
    assert [e.name for e in read(tmp_path, "tar").entries] == ["cat/backup.tar/old.jpg"]


COLUMNS = {
    "ints": ({"a.cls": " 3\n", "b.cls": "-4"}, [Column("label", "int")], [(3,), (-4,)]),
    "words": ({"a.cls": "cat", "b.cls": "4"}, [Column("label", "label")], [("cat",), ("4",)]),
    "one without": ({"a.cls": "3"}, [Column("label", "int")], [(3,), (None,)]),
    "an empty one": ({"a.cls": "3", "b.cls": ""}, [Column("label", "int")], [(3,), (None,)]),
    "text stays text": (
        {"a.txt": "3", "b.txt": "\ufeffé\n"},
        [Column("text", "string")],
        [("3",), ("é\n",)],
    ),
    "ints and floats": (
        {"a.json": '{"x": 1}', "b.json": '{"x": 0.5}'},
        [Column("x", "float")],
        [(1.0,), (0.5,)],
    ),
    "ints and texts": (
        {"a.json": '{"x": 1}', "b.json": '{"x": "b"}'},
        [Column("x", "string")],
        [("1",), ("b",)],
    ),
    "booleans": (
        {"a.json": '{"x": true}', "b.json": '{"x": false}'},
        [Column("x", "int")],
        [(1,), (0,)],
    ),
    "null": (
        {"a.json": '{"x": null}', "b.json": '{"x": 2}'},
        [Column("x", "int")],
        [(None,), (2,)],
    ),
    "nested": ({"a.json": '{"x": {"y": {"z": 1}}}'}, [Column("x.y.z", "int")], [(1,), (None,)]),
    "lists": (
        {"a.json": '{"x": [1, 2]}', "b.json": '{"x": []}'},
        [Column("x", "int", is_list=True)],
        [((1, 2),), ((),)],
    ),
    "vectors": (
        {"a.json": '{"x": [1, 2]}', "b.json": '{"x": [3, 4.5]}'},
        [Column("x", "float", is_list=True, length=2)],
        [((1.0, 2.0),), ((3.0, 4.5),)],
    ),
    "label in the JSON alone": (
        {"a.json": '{"label": "cat"}'},
        [Column("label", "label")],
        [("cat",), (None,)],
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
    "none": ({}, [], [(), ()]),
}


@pytest.mark.parametrize(("files", "columns", "rows"), COLUMNS.values(), ids=COLUMNS)
def test_sidecars_make_columns_typed_by_all_examples(tmp_path, read, files, columns, rows):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "b.jpg": b"y", **files})
    listing = read(tmp_path)
    assert list(listing.columns) == columns
    assert [entry.values for entry in listing.entries] == rows


def with_columns(tmp_path: Path, **columns: str):
    files = {file.path: file for file in list_files(str(tmp_path))}
    inputs = LayoutInputs(base=str(tmp_path), root="", files=files, columns=columns)
    return read_layout(inputs, layout="tar")


def test_the_user_may_say_what_a_column_is(tmp_path):
    files = {"a.jpg": b"x", "a.cls": "3", "a.json": '{"breed": "cat", "n": 1, "note": "?"}'}
    write_tar(tmp_path / "x.tar", files)
    listing = with_columns(tmp_path, breed="label", n="float", note="ignore", label="label")
    kinds = {column.name: column.kind for column in listing.columns}
    assert kinds == {"breed": "label", "n": "float", "label": "label"}


@pytest.mark.parametrize(
    ("columns", "match"),
    [({"size": "int"}, r"\(n\), got 'size'"), ({"n": "double"}, "columns.'n'.*got 'double'")],
)
def test_a_column_that_cannot_be_is_refused(tmp_path, columns, match):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "a.json": '{"n": 1}'})
    with pytest.raises(ConfigError, match=match):
        with_columns(tmp_path, **columns)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('{"x": 1' + "0" * 400 + "}", "column 'x': expected numbers of 64 bits"),
        ('{"x": 1' + "0" * 5000 + "}", "x.tar/a.json': expected json"),
        ('{"x": "\\ud800"}', "x.tar/a.json': expected json in UTF-8"),
        ('{"x": ' * 990 + "1" + "}" * 990, "x.tar/a.json': expected json"),
        ("[" * 100_000, "x.tar/a.json': expected json"),
        ('"text"', "x.tar/a.json': expected a JSON object, got str"),
    ],
    ids=["401 digits", "5,001 digits", "half a character", "deep", "without end", "no object"],
)
def test_a_hostile_json_is_refused_by_name(tmp_path, read, content, match):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "a.json": content})
    with pytest.raises(InputError, match=match):
        read(tmp_path)


def test_a_large_sidecar_is_not_read(tmp_path, read):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "a.txt": bytes((16 << 20) + 1)})
    with pytest.raises(InputError, match=r"'a.txt' of at most 16777216 bytes, got 16777217"):
        read(tmp_path)


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


def sparse_tar(path: Path, pieces: list[tuple[int, bytes]], size: int) -> None:
    """An archive with a sparse member as `tar -S --format=posix` writes it (pax sparse 1.0)."""
    numbers = [len(pieces), *(n for offset, data in pieces for n in (offset, len(data)))]
    table = "".join(f"{number}\n" for number in numbers).encode()
    content = table.ljust(-(-len(table) // 512) * 512, b"\0") + b"".join(d for _, d in pieces)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, headers in (
            ("1.jpg", b"before", {}),
            (
                "GNUSparseFile.0/2.bmp",
                content,
                {
                    "GNU.sparse.major": "1",
                    "GNU.sparse.minor": "0",
                    "GNU.sparse.name": "2.bmp",
                    "GNU.sparse.realsize": str(size),
                },
            ),
            ("3.jpg", b"after", {}),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), headers
            archive.addfile(member, io.BytesIO(data))


def test_a_sparse_image_is_left_out_and_those_beside_it_are_read(tmp_path, read):
    sparse_tar(tmp_path / "x.tar", [(0, b"BM"), (1 << 30, b"end")], (1 << 30) + 3)
    with tarfile.open(tmp_path / "x.tar") as archive:  # tarfile itself agrees that it is one
        assert archive.getmember("2.bmp").issparse()
    listing = read(tmp_path)
    assert [in_archive(tmp_path, entry) for entry in listing.entries] == [b"before", b"after"]
    ((name, code, detail),) = [(o.name, o.code, o.detail) for o in listing.excluded]
    assert (name, code) == ("x.tar/2.bmp", "SPARSE_MEMBER")
    assert "without -S" in detail


def test_a_sparse_image_without_holes_is_read(tmp_path, read):
    sparse_tar(tmp_path / "x.tar", [(0, b"BM and more")], 11)
    listing = read(tmp_path)
    assert [in_archive(tmp_path, entry) for entry in listing.entries] == [
        b"before",
        b"BM and more",
        b"after",
    ]


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A member's header that claims a size, with the right checksum."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    block[156:157] = kind
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)
BY_TARFILE = "invalid offset|a damaged header"  # newer ones refuse negative sizes
LIES = {
    "a negative size": (header("a.jpg", -512), f"('a.jpg' of -512 bytes|{BY_TARFILE})"),
    "a size back to the start": (
        header("a.jpg", -1024) * 2,
        f"('a.jpg' of -1024 bytes|{BY_TARFILE})",
    ),
    "a small negative size": (header("a.jpg", -1), f"('a.jpg' of -1 bytes|{BY_TARFILE})"),
    "a size past the end": (header("a.jpg", 1 << 40), "'a.jpg', which ends at byte 1099511628288"),
    "a size past all sizes": (header("a.jpg", 2**62), "'a.jpg', which ends at"),
    "a name of a terabyte": (
        header("././@LongLink", 1 << 40, tarfile.GNUTYPE_LONGNAME),
        "claims 1099511627776 bytes, of at most 65536",
    ),
    "a name of less than nothing": (
        header("././@LongLink", -1024, tarfile.GNUTYPE_LONGNAME),
        f"(claims -1024 bytes|{BY_TARFILE})",
    ),
    "pax headers of a terabyte": (header("p", 1 << 40, tarfile.XHDTYPE), "claims 1099511627776"),
    "names of names": (
        (header("././@LongLink", 1, tarfile.GNUTYPE_LONGNAME) + bytes(512)) * 5000,
        "recursion",
    ),
    "pax headers that are none": (
        header("p", 22, tarfile.XHDTYPE) + b"22 GNU.sparse.size=x\n".ljust(512, b"\0"),
        "got ",
    ),
    "a negative size by pax": (
        header("p", 11, tarfile.XHDTYPE) + b"11 size=-9\n".ljust(512, b"\0") + header("a.jpg", 0),
        f"('a.jpg' of -9 bytes|{BY_TARFILE})",
    ),
}


@pytest.mark.parametrize(("data", "match"), LIES.values(), ids=LIES)
def test_a_header_that_lies_is_refused_with_its_byte(tmp_path, read, data, match):
    (tmp_path / "x.tar").write_bytes(data + END)
    with pytest.raises(InputError, match=rf"(?s)'x.tar'.*{match}.*\(byte \d+\)"):
        read(tmp_path)


def test_a_cut_is_found_at_every_byte_and_named(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {"1.jpg": b"a" * 700, "2.jpg": bytes(512)})
    data = path.read_bytes()
    end = 512 + 1024 + 512 + 512  # of the last member
    for size in [*range(1, end + 512, 37), 512, 1536, 2048, end, end + 511]:
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=r"'x.tar': expected a whole tar.*\(byte \d+\)"):
            read(tmp_path)
    path.write_bytes(data[: end + 512])  # one block of zeros is an end
    assert len(read(tmp_path).entries) == 2


@pytest.mark.parametrize("size", [0, 100, 512])
def test_an_archive_of_nothing_is_no_archive(tmp_path, read, size):
    (tmp_path / "x.tar").write_bytes(b"?" * size)
    with pytest.raises(InputError, match=r"'x.tar': expected a whole tar archive"):
        read(tmp_path)


def test_a_damaged_header_in_the_middle_is_no_end(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {f"{number}.jpg": b"x" for number in range(3)})
    data = bytearray(path.read_bytes())
    data[1024] ^= 1
    path.write_bytes(data)
    with tarfile.open(path) as archive:  # which tarfile passes over in silence
        assert archive.getnames() == ["0.jpg"]
    with pytest.raises(InputError, match=r"'x.tar'.*a damaged header \(byte 1024\)"):
        read(tmp_path)


def test_two_archives_in_one_file_are_refused(tmp_path, read):
    first = write_tar(tmp_path / "x.tar", {"1.jpg": b"x"}).read_bytes()
    second = write_tar(tmp_path / "x.tar", {"2.jpg": b"x"}).read_bytes()
    (tmp_path / "x.tar").write_bytes(first + second)
    with pytest.raises(InputError, match=rf"'x.tar'.*more after its end.*\(byte {len(first)}\)"):
        read(tmp_path)


def test_an_archive_may_be_empty_beside_others(tmp_path, read):
    write_tar(tmp_path / "x.tar", {})
    write_tar(tmp_path / "y.tar", {"1.jpg": b"x"})
    assert [entry.name for entry in read(tmp_path).entries] == ["y.tar/1.jpg"]


def test_hostile_headers_by_the_thousand_give_a_listing_or_an_error():
    """Random changes to real archives: no other error, no hang, no blob outside of the archive."""
    rng = random.Random(0)
    originals = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            for name in ("a.jpg", "b.json", "c" * 99 if form == 0 else "c" * 120):
                member = tarfile.TarInfo(name)
                member.size = 2
                archive.addfile(member, io.BytesIO(b"{}"))
        originals.append(stream.getvalue())
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
            if member.isreg() and not holes(member)
        )
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("suffix", [True, False])
def test_a_compressed_archive_is_told_by_its_bytes_too(tmp_path, read, mode, suffix):
    name = f"x.tar.{mode}" if suffix else "x.tar"
    write_tar(tmp_path / name, {"1.jpg": b"x"}, mode=f"w:{mode}")
    with pytest.raises(InputError, match=rf"'{name}'.*not compressed.*gunzip"):
        read(tmp_path)


def test_a_link_that_leads_out_is_not_followed(tmp_path, read):
    write_tar(tmp_path / "secret.tar", {"1.jpg": b"x"})
    write_tar(tmp_path / "in/y.tar", {"2.jpg": b"x"})
    (tmp_path / "in/x.tar").symlink_to(tmp_path / "secret.tar")
    with pytest.raises(InputError, match=r"'x.tar'.*leads out"):
        read(tmp_path / "in")
