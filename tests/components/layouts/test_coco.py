"""COCO's layout against hand-counted truth, and boxes by numpy."""

import json
import re

import pytest

from tests.components.layouts.layout_files import image, instances, read, thing, values
from tests.make import write_files
from trainer_utils.format import InputError

TRAIN = instances(
    [image(1, "1.jpg"), image(2, "sub/2.jpg"), image(9, "gone.jpg")],
    [thing(1, 7, [50, 25, 100, 50]), thing(1, 3, [0, 0, 200, 100], iscrowd=1)],
)

CAPTIONS = json.dumps(
    {"images": [], "annotations": [{"image_id": 1, "caption": "x"}], "categories": []}
)


@pytest.fixture
def coco(tmp_path):
    return write_files(
        tmp_path / "in",
        {
            "annotations/instances_train2017.json": TRAIN,
            "annotations/instances_val2017.json": instances([image(1, "v.jpg")], []),
            "annotations/captions_train2017.json": CAPTIONS,
            "train2017/1.jpg": b"image",
            "train2017/sub/2.jpg": b"image",
            "val2017/v.jpg": b"image",
        },
    )


def test_boxes_are_relative_and_named_by_datum_and_splits_are_the_files(coco):
    listing, lists = read(coco), ("xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd")
    without = {**dict.fromkeys(lists, ()), "height": None, "width": None}
    assert values(listing) == {
        "train2017/1.jpg": {
            "xmin": (0.25, 0.0),
            "xmax": (0.75, 1.0),
            "ymin": (0.25, 0.0),
            "ymax": (0.75, 1.0),
            "area": (0.25, 1.0),
            "labels": ("dog", "traffic light"),
            "is_crowd": (0, 1),
            "image_id": 1,
            "height": 100,
            "width": 200,
        },
        "train2017/sub/2.jpg": {**without, "image_id": 2},
        "val2017/v.jpg": {**without, "image_id": 1},
    }
    assert [entry.split for entry in listing.entries] == ["train", "train", "eval"]
    assert [(o.name, o.split, o.code) for o in listing.excluded] == [
        ("gone.jpg", "train", "FILE_NOT_FOUND")
    ]


@pytest.mark.parametrize("folder", ["images", "images/train2017", "annotations", "."])
def test_images_are_found_where_people_put_them(tmp_path, folder):
    write_files(
        tmp_path,
        {"annotations/instances_train2017.json": TRAIN, f"{folder}/1.jpg": b"", "x.jpg": b""},
    )
    assert [entry.name.split("/")[-1] for entry in read(tmp_path).entries] == ["1.jpg"]


def test_a_malformed_file_is_refused_by_name(tmp_path):
    for text in (
        "{",
        instances([image(1, "a"), image(1, "b")], []),
        instances([], [thing(5, 7, [0, 0, 1, 1])]),
        "[" * 100_000,
    ):
        write_files(tmp_path, {"instances_x.json": text})
        with pytest.raises(InputError, match=r"instances_x\.json"):
            read(tmp_path)
    write_files(tmp_path, {"instances_x.json": json.dumps({"a": 1})})
    with pytest.raises(InputError, match="images, annotations, categories"):
        read(tmp_path)


def test_a_split_is_a_word_of_the_files_name(tmp_path):
    for name, split in (
        ("instances_train2017", "train"),
        ("instances_Validation", "eval"),
        ("instances_test-dev2017", "test"),
        ("instances_minival", None),
        ("train", "train"),
        ("my_coco", None),
    ):
        text, base = instances([image(1, "1.jpg")], []), tmp_path / name
        write_files(base, {f"annotations/{name}.json": text, "images/1.jpg": b""})
        assert [entry.split for entry in read(base).entries] == [split]


NO_NAMES = {
    "half of a character": ("\ud800.jpg", "instances_val.json/1", "BAD_ANNOTATION"),
    "no text": (["1.jpg"], "instances_val.json/1", "BAD_ANNOTATION"),
    "none": (None, "instances_val.json/1", "BAD_ANNOTATION"),
    "empty": ("", "instances_val.json/1", "BAD_ANNOTATION"),
    "above the base": ("../../etc/passwd", "../../etc/passwd", "OUTSIDE_INPUT_BASE"),
    "absolute": ("/etc/passwd", "/etc/passwd", "OUTSIDE_INPUT_BASE"),
    "of the web": ("http://images/1.jpg", "http://images/1.jpg", "UNKNOWN_SCHEME"),
    "missing": ("2.jpg", "2.jpg", "FILE_NOT_FOUND"),
}


def test_a_name_of_no_image_is_a_reject_that_can_be_written(tmp_path):
    for name, source, code in NO_NAMES.values():
        text = instances([image(1, name), image(2, "1.jpg")], [])
        listing = read(write_files(tmp_path, {"instances_val.json": text, "1.jpg": b""}))
        assert [(o.name, o.split, o.code) for o in listing.excluded] == [(source, "eval", code)]


# Annotations --------------------------------------------------------------------------------------


BAD_ANNOTATIONS = {
    "no category": (thing(1, 99, [0, 0, 1, 1], id=5), "annotation 5: category_id: .*got 99"),
    "three numbers": (thing(1, 7, [0, 0, 1]), r"bbox: .*got \[0, 0, 1\]"),
    "texts": (thing(1, 7, ["1", "2", "3", "4"]), "bbox: .*got"),
    "nan": (thing(1, 7, [0, 0, float("nan"), 1]), "bbox: .*nan"),
    "negative width": (thing(1, 7, [50, 0, -9, 1]), "x 50 to 41"),
    "two pixels outside": (thing(1, 7, [150, 0, 52, 1]), "x 150 to 202"),
    "iscrowd 2": (thing(1, 7, [0, 0, 1, 1], iscrowd=2), "iscrowd: expected 0 or 1, got 2"),
    "no box": ({"image_id": 1, "category_id": 7}, "bbox: .*got None"),
}


def test_the_reject_of_a_bad_annotation_says_what_is_bad(tmp_path):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    for annotation, detail in BAD_ANNOTATIONS.values():
        text = instances(images, [annotation, thing(2, 7, [0, 0, 1, 1])])
        write_files(tmp_path, {"instances_val.json": text, "val/1.jpg": b"", "val/2.jpg": b""})
        listing = read(tmp_path, "coco")
        assert [entry.name for entry in listing.entries] == ["val/2.jpg"]
        ((name, code, text),) = [(o.name, o.code, o.detail) for o in listing.excluded]
        assert (name, code) == ("val/1.jpg", "BAD_ANNOTATION")
        assert re.search(detail, text)
        assert len(text) < 500


def test_a_box_a_pixel_outside_is_cut_off(tmp_path):
    text = instances([image(1, "1.jpg")], [thing(1, 7, [-0.5, 0, 201, 100.9])])
    found = values(read(write_files(tmp_path, {"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert (found["xmin"], found["xmax"], found["ymax"]) == ((0.0,), (1.0,), (1.0,))
