"""Pascal VOC's layouts compared with Datum's generators."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from tests.components.layouts.layout_files import annotation, one, read, values
from tests.make import write_files
from trainer_utils.core.errors import InputError


@pytest.fixture
def voc(tmp_path):
    return write_files(
        tmp_path / "in",
        {
            "JPEGImages/a b.jpg": b"image",
            "JPEGImages/c.png": b"image",
            "JPEGImages/unused.jpg": b"image",
            "Annotations/a b.xml": annotation(("Dog", 1, 2, 250, 375), ("Cat", 10, 20, 30, 40)),
            "Annotations/c.xml": annotation(),
            "ImageSets/Main/train.txt": "a b\n",
            "ImageSets/Main/val.txt": "c\nmissing\n",
            "ImageSets/Main/trainval.txt": "a b\nc\n",
            "ImageSets/Main/dog_train.txt": "a b  1\n",
        },
    )


def test_splits_come_from_image_sets_and_images_are_counted(voc):
    listing = read(voc)
    assert {e.name: e.split for e in listing.entries} == {
        "JPEGImages/a b.jpg": "train",
        "JPEGImages/c.png": "eval",
    }
    assert {(left.name, left.split, left.code) for left in listing.excluded} == {
        ("JPEGImages/unused.jpg", None, None),
        ("missing", "eval", "FILE_NOT_FOUND"),
    }


def test_two_images_with_the_same_name_are_refused(voc):
    write_files(voc, {"JPEGImages/a b.png": ""})
    with pytest.raises(InputError, match=r"'a b'.*a b\.jpg.*a b\.png"):
        read(voc)


def test_many_boxes_equal_datum_exactly(tmp_path):
    from datum.generator.image import DetDatumGenerator

    rng = np.random.default_rng(0)
    corners = np.sort(rng.integers(1, 333, (200, 2, 2)), axis=1)  # (box, low or high, x or y)
    things = [("Dog", *low.tolist(), *high.tolist()) for low, high in corners]
    base = one(tmp_path, annotation(*things, size=(333, 357)))
    write_files(base, {"ImageSets/train.txt": "a\n"})
    config = SimpleNamespace(has_test_annotations=True, class_map={"dog": "dog"})
    theirs = dict(DetDatumGenerator(str(base), config)(split="train"))["a"]
    del theirs["image"]
    found = values(read(base))["JPEGImages/a.jpg"]
    assert (found.pop("width"), found.pop("height")) == (333, 357)
    assert {name: list(value) for name, value in found.items()} == theirs


def test_every_input_is_counted(tmp_path):
    base = one(tmp_path, annotation())
    write_files(base, {"JPEGImages/.DS_Store": b"", "JPEGImages/Thumbs.db": b""})
    write_files(base, {"JPEGImages/no.jpg": b"", "Annotations/alone.xml": annotation()})
    write_files(base, {"readme.txt": b""})
    with open(os.path.join(os.fsencode(base), b"JPEGImages/\xff.jpg"), "wb"):
        pass
    listing = read(base)
    assert {os.fsencode(left.name): left.code for left in listing.excluded} == {
        b"JPEGImages/.DS_Store": None,
        b"JPEGImages/Thumbs.db": None,
        b"Annotations/alone.xml": "FILE_NOT_FOUND",
    }
    assert listing.found == 6
    assert sum(entry.values[0] == () for entry in listing.entries) == 3  # without an annotation


LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n + 1, b"&l%d;" % n * 10) for n in range(9))
BAD_TEXTS = [
    b'<!DOCTYPE a [<!ENTITY l0 "ha">' + LAUGHS + b"]><annotation>&l9;</annotation>",
    b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>',
    b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://localhost:1/x">%x;]><annotation/>',
    b"",
    b"<annotation>",
    b"\xff\xfe\x00",
    b'<?xml version="1.0" encoding="klingon"?><annotation/>',
    b"<a>" * 100_000,
    b"<annotation/>",
    annotation(("dog", 1, 1, 2, 2), size=(0, 10)),
    annotation(("dog", 1, 1, 2, 2), size=(-5, 10)),
    annotation(size=("inf", 10)),
    annotation(("dog", "1;2", 1, 2, 2)),
    annotation(("dog", 1, 1, "nan", 2)),
    annotation(("dog", "x" * 10**6, 1, 2, 2)),
    annotation(("dog", 30, 1, 20, 2)),
    annotation(("dog", 1, 1, 502, 2)),
    annotation(("dog", 1, -2, 5, 2)),
    annotation(("", 1, 1, 2, 2)),
]


def test_a_bad_annotation_is_a_reject(tmp_path, subtests):
    for text in BAD_TEXTS:
        with subtests.test(text=text):
            (left,) = read(one(tmp_path, text)).excluded
            assert (left.name, left.code) == ("JPEGImages/a.jpg", "BAD_ANNOTATION"), text[:100]
            assert 5 < len(left.detail) < 500


def test_custom_folders_and_class_order_equal_datum(tmp_path):
    from datum.configs.default_configs import get_default_write_configs

    own = {"image_dir": "photos", "annotation_dir": "xml/boxes", "set_dir": "lists"}
    files = {f"photos/{name}.jpg": b"x" for name in "ab"} | {"lists/train.txt": "a\nb\n"}
    files["classes.names"] = "fish\ndog\nbird\n"
    for name, labels in {"a": ("Bird", "fish"), "b": ("dog",)}.items():
        boxes = [(label, 1, 2, 30, 40) for label in labels]
        files[f"xml/boxes/{name}.xml"] = annotation(*boxes)
    base = write_files(tmp_path, files)
    configs = get_default_write_configs("image_det", str(base / "classes.names"))
    expected = dict(configs.generator(str(base))(split="train", **own))
    names = {"image_set_dir": "lists", **{n: own[n] for n in ("image_dir", "annotation_dir")}}
    listing = read(base, **names)
    assert not listing.excluded
    classes = listing.vocabularies["labels"]
    place = [column.name for column in listing.columns].index("labels")
    found = {
        e.name: [classes.index(label) + 1 for label in e.values[place]] for e in listing.entries
    }
    assert found == {f"photos/{name}.jpg": one["labels"] for name, one in expected.items()}


# Image sets: splits, and the names in their lines -------------------------------------------------

SETS = {
    "of VOC": ({"Main/train.txt": "a\n", "Main/val.txt": "b\n"}, ["train", "eval"]),
    "of Datum": ({"train.txt": "a\n", "test.txt": "b\n"}, ["train", "test"]),
    "Main before the folder above": ({"Main/val.txt": "a\nb\n", "train.txt": "a\n"}, ["eval"] * 2),
    "other spellings": ({"Training.TXT": "a\n", "validation.txt": "b\n"}, ["train", "eval"]),
    "written on Windows": ({"train.txt": "\ufeffa\r\n\r\nb\r\n"}, ["train", "train"]),
    "of a class called train": (
        {"Main/train_train.txt": "a  1\n", "Main/train_val.txt": "b -1\n"},
        [None, None],
    ),
    "none": ({}, [None, None]),
}


@pytest.mark.parametrize("case", SETS)
def test_image_set_named_after_a_split_is_a_split(tmp_path, case):
    sets, splits = SETS[case]
    base = one(tmp_path, annotation())
    write_files(base, {"JPEGImages/b.jpg": b"", "Annotations/b.xml": annotation()})
    write_files(base, {f"ImageSets/{name}": text for name, text in sets.items()})
    listing = read(base)
    assert [entry.split for entry in listing.entries] == splits
    assert listing.excluded == ()


@pytest.mark.parametrize(
    ("sets", "match"),
    [
        ({"Main/train.txt": b"a\nx\na\n"}, r"'a'.*train.txt \(line 1\).*train.txt \(line 3\)"),
        ({"val.txt": b"a\n", "dev.txt": b"\na\n"}, r"'a'.*dev.txt \(line 2\).*val.txt \(line 1\)"),
        ({"train.txt": "a\n".encode("utf-16")}, r"'ImageSets/train.txt'.*NUL byte \(byte 3\)"),
    ],
)
def test_a_bad_image_set_is_refused(tmp_path, sets, match):
    base = one(tmp_path, annotation())
    write_files(base, {f"ImageSets/{name}": text for name, text in sets.items()})
    with pytest.raises(InputError, match=match):
        read(base)


# Label maps ---------------------------------------------------------------------------------------


def pairs(*names: str) -> dict[str, bytes]:
    """Return the files of images and their label maps."""
    images = {f"JPEGImages/{name}.jpg": os.fsencode(f"image {name}") for name in names}
    return images | {
        f"SegmentationClass/{name}.png": os.fsencode(f"map of {name}") for name in names
    }


def found(listing) -> dict[str, str | None]:
    return {entry.name: entry.split for entry in listing.entries}


@pytest.mark.parametrize(
    ("prefix", "datums_folder"),
    [
        ("ImageSets/Segmentation/", "ImageSets/Segmentation"),
        ("ImageSets/", "ImageSets"),
        ("", None),
    ],
)
def test_pairs_and_splits_equal_datum_for_every_set_folder(
    tmp_path, prefix, datums_folder, subtests
):
    from datum.generator.image import SegDatumGenerator

    write_files(tmp_path, pairs("a", "b", "c d"))
    write_files(tmp_path, {f"{prefix}train.txt": "a\nc d\n", f"{prefix}val.txt": "b\n"})
    listing = read(tmp_path)
    assert (listing.blobs, listing.columns) == ((("image", "image"), ("label", "label_map")), ())
    for theirs, ours in (("train", "train"), ("val", "eval")):
        with subtests.test(theirs=theirs):
            kwargs = {"set_dir": datums_folder} if datums_folder else {}
            expected = dict(SegDatumGenerator(str(tmp_path), None)(split=theirs, **kwargs))
            assert [
                [str(tmp_path / blob.path) for blob in entry.blobs]
                for entry in listing.entries
                if entry.split == ours
            ] == [[pair["image"], pair["label"]] for pair in expected.values()]


def test_without_sets_a_hash_decides(tmp_path):
    write_files(tmp_path, pairs("a") | {"ImageSets/Segmentation/trainval.txt": "a\n"})
    assert found(read(tmp_path)) == {"JPEGImages/a.jpg": None}


def test_image_without_label_map_is_in_no_split(tmp_path):
    split = "test"
    write_files(tmp_path, pairs("a") | {"JPEGImages/b.jpg": "", f"{split}.txt": "a\nb\ngone\n"})
    write_files(tmp_path, {"SegmentationObject/b.png": "", "SegmentationClass/other.png": ""})
    listing = read(tmp_path)
    assert found(listing) == {"JPEGImages/a.jpg": split}
    assert [(o.name, o.split, o.code) for o in listing.excluded] == [
        ("gone", split, "FILE_NOT_FOUND"),
        ("JPEGImages/b.jpg", split, "NO_LABEL_MAP"),
    ]
    assert listing.excluded[1].detail == "no label map SegmentationClass/b.png"
