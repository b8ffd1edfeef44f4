"""Pascal VOC's layouts against Datum's own generators."""

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from components.image_example_gen.layouts.boxes import BOX_COLUMNS
from trainer_utils.format import InputError


def annotation(*objects: tuple, size: tuple[int, int] = (500, 375)) -> bytes:
    root = ElementTree.Element("annotation")
    sizes = ElementTree.SubElement(root, "size")
    for name, value in zip(("width", "height"), size, strict=True):
        ElementTree.SubElement(sizes, name).text = str(value)
    for label, xmin, ymin, xmax, ymax in objects:
        thing = ElementTree.SubElement(root, "object")
        for name, text in (("name", label), ("pose", "Left"), ("truncated", "1")):
            ElementTree.SubElement(thing, name).text = text
        ElementTree.SubElement(thing, "difficult").text = "0"
        box = ElementTree.SubElement(thing, "bndbox")
        for name, value in (("xmin", xmin), ("ymin", ymin), ("xmax", xmax), ("ymax", ymax)):
            ElementTree.SubElement(box, name).text = str(value)
    return ElementTree.tostring(root)


@pytest.fixture
def voc(tmp_path, write):
    return write(
        tmp_path / "in",
        **{
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


def values(listing) -> dict[str, dict]:
    names = [column.name for column in listing.columns]
    return {e.name: dict(zip(names, e.values, strict=True)) for e in listing.entries}


def test_splits_come_from_the_image_sets_and_all_images_are_counted(voc, read):
    listing = read(voc)
    assert {e.name: e.split for e in listing.entries} == {
        "JPEGImages/a b.jpg": "train",
        "JPEGImages/c.png": "eval",
    }
    assert {(left.name, left.split, left.code) for left in listing.left_out} == {
        ("JPEGImages/unused.jpg", None, None),
        ("missing", "eval", "FILE_NOT_FOUND"),
    }


def test_boxes_are_those_that_datum_computes(voc, read):
    from datum.generator.image import DetDatumGenerator

    config = SimpleNamespace(has_test_annotations=True, class_map={"dog": 0, "cat": 1})
    generator = DetDatumGenerator(str(voc), config)
    theirs = dict(generator(split="train", set_dir="ImageSets/Main"))["a b"]
    ours = values(read(voc))["JPEGImages/a b.jpg"]
    for name in ("xmin", "xmax", "ymin", "ymax", "area"):
        assert np.float32(ours[name]).tolist() == np.float32(theirs[name]).tolist()
    assert list(ours["pose"]) == theirs["pose"]
    assert list(map(bool, ours["is_truncated"])) == theirs["is_truncated"]
    assert list(map(bool, ours["labels_difficult"])) == theirs["labels_difficult"]
    assert ours["labels"] == ("dog", "cat")


def test_an_image_may_hold_nothing(voc, read):
    assert set(values(read(voc))["JPEGImages/c.png"].values()) == {()}


def test_columns_are_lists_of_any_length(voc, read):
    assert all(c.is_list and c.length is None for c in read(voc).columns)
    assert read(voc).columns[: len(BOX_COLUMNS)] == BOX_COLUMNS


BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<annotation>&b;</annotation>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<annotation>&x;</annotation>"""


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<annotation>",
        b"\xff\xfe\x00",
        b"<annotation/>",
        BOMB,
        OUTSIDE,
        annotation(("dog", 1, 1, 2, 2), size=(0, 10)),
        annotation(("dog", 10, 10, 5, 20)),
        annotation(("dog", 10, 10, 502, 20)),
        annotation(("dog", "x", 10, 50, 20)),
        annotation(("dog", "nan", 10, 50, 20)),
        annotation(("", 1, 1, 2, 2)),
    ],
)
def test_a_bad_annotation_leaves_its_image_out(voc, read, text):
    (voc / "Annotations/a b.xml").write_bytes(text)
    ((name, code),) = [(o.name, o.code) for o in read(voc).left_out if o.split == "train"]
    assert (name, code) == ("JPEGImages/a b.jpg", "BAD_ANNOTATION")


def test_a_box_a_pixel_outside_is_cut_off(voc, read):
    (voc / "Annotations/a b.xml").write_bytes(annotation(("dog", -1, 0, 501, 375)))
    box = values(read(voc))["JPEGImages/a b.jpg"]
    assert (box["xmin"], box["xmax"], box["area"]) == ((0.0,), (1.0,), (1.0,))


def test_only_the_test_split_may_do_without_annotations(voc, read, write):
    write(voc, **{"ImageSets/Main/test.txt": "unused\n"})
    (voc / "Annotations/a b.xml").unlink()
    listing = read(voc)
    assert {left.name: left.code for left in listing.left_out} == {
        "JPEGImages/a b.jpg": "NO_ANNOTATION",
        "missing": "FILE_NOT_FOUND",
    }
    assert set(values(listing)["JPEGImages/unused.jpg"].values()) == {()}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ImageSets/Main/test.txt", ["'a b'", "train.txt", "test.txt"]),
        ("JPEGImages/a b.png", ["'a b'", "a b.jpg", "a b.png"]),
    ],
)
def test_what_is_twice_is_refused_by_both_names(voc, read, write, name, words):
    write(voc, **{name: "a b\n"})
    with pytest.raises(InputError) as caught:
        read(voc)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.fixture
def pairs(tmp_path, write):
    return write(
        tmp_path / "in",
        **{
            "JPEGImages/a.jpg": b"image",
            "JPEGImages/b.jpg": b"image!",
            "JPEGImages/c.jpg": b"image",
            "SegmentationClass/a.png": b"map",
            "SegmentationClass/b.png": b"map!",
            "ImageSets/Segmentation/train.txt": "a\nc\n",
            "ImageSets/Segmentation/val.txt": "b\n",
        },
    )


def test_images_and_label_maps_are_paired_as_datum_pairs_them(pairs, read):
    from datum.generator.image import SegDatumGenerator

    listing = read(pairs)
    assert listing.blobs == ("image", "label")
    ours = {e.split: [str(pairs / blob.path) for blob in e.blobs] for e in listing.entries}
    generator = SegDatumGenerator(str(pairs), None)
    theirs = dict(generator(split="val", set_dir="ImageSets/Segmentation"))["b"]
    assert ours["eval"] == [theirs["image"], theirs["label"]]
    assert [(left.name, left.code) for left in listing.left_out] == [
        ("JPEGImages/c.jpg", "NO_LABEL_MAP")
    ]


def test_both_layouts_in_one_folder_can_be_had_by_name(pairs, read, write):
    write(pairs, **{"Annotations/a.xml": annotation()})
    assert read(pairs).blobs == ("image",)
    assert read(pairs, "segmentation").blobs == ("image", "label")
