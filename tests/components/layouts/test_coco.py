"""COCO's layout against hand-counted truth."""

import json

import pytest

from components.common.rejects import Reject, render_rejects
from tests.components.layouts.coco_files import (
    image,
    instances,
    thing,
    values,
)
from trainer_utils.format import InputError
from trainer_utils.storage import display_path

TRAIN = instances(
    [image(1, "1.jpg"), image(2, "sub/2.jpg"), image(9, "gone.jpg")],
    [thing(1, 7, [50, 25, 100, 50]), thing(1, 3, [0, 0, 200, 100], iscrowd=1)],
)


@pytest.fixture
def coco(tmp_path, write):
    return write(
        tmp_path / "in",
        **{
            "annotations/instances_train2017.json": TRAIN,
            "annotations/instances_val2017.json": instances([image(1, "v.jpg")], []),
            "annotations/captions_train2017.json": json.dumps(
                {
                    "images": [],
                    "annotations": [{"image_id": 1, "caption": "x"}],
                    "categories": [],
                }
            ),
            "train2017/1.jpg": b"image",
            "train2017/sub/2.jpg": b"image",
            "val2017/v.jpg": b"image",
        },
    )


def test_boxes_are_relative_and_named_by_datum(coco, read):
    assert values(read(coco)) == {
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
        "train2017/sub/2.jpg": {
            **dict.fromkeys(("xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd"), ()),
            "image_id": 2,
            "height": None,
            "width": None,
        },
        "val2017/v.jpg": {
            **dict.fromkeys(("xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd"), ()),
            "image_id": 1,
            "height": None,
            "width": None,
        },
    }


def test_splits_come_from_the_names_of_the_files(coco, read):
    listing = read(coco)
    assert {e.name: e.split for e in listing.entries} == {
        "train2017/1.jpg": "train",
        "train2017/sub/2.jpg": "train",
        "val2017/v.jpg": "eval",
    }
    assert [(o.name, o.split, o.code) for o in listing.excluded] == [
        ("gone.jpg", "train", "FILE_NOT_FOUND")
    ]


@pytest.mark.parametrize("folder", ["images", "images/train2017", "annotations", "."])
def test_images_are_found_where_people_put_them(tmp_path, read, write, folder):
    write(
        tmp_path,
        **{"annotations/instances_train2017.json": TRAIN, f"{folder}/1.jpg": b"", "x.jpg": b""},
    )
    assert [entry.name.split("/")[-1] for entry in read(tmp_path).entries] == ["1.jpg"]


def test_a_malformed_file_is_refused_by_name(tmp_path, read, write):
    for text in (
        "{",
        instances([image(1, "a"), image(1, "b")], []),
        instances([], [thing(5, 7, [0, 0, 1, 1])]),
        "[" * 100_000,
    ):
        write(tmp_path, **{"instances_x.json": text})
        with pytest.raises(InputError, match=r"instances_x\.json"):
            read(tmp_path)
    write(tmp_path, **{"instances_x.json": json.dumps({"a": 1})})
    with pytest.raises(InputError, match="images, annotations, categories"):
        read(tmp_path)


def test_a_split_is_a_word_of_the_files_name(tmp_path, read, write):
    for name, split in (
        ("instances_train2017", "train"),
        ("instances_Validation", "eval"),
        ("instances_test-dev2017", "test"),
        ("instances_minival", None),
        ("train", "train"),
        ("my_coco", None),
    ):
        text, base = instances([image(1, "1.jpg")], []), tmp_path / name
        write(base, **{f"annotations/{name}.json": text, "images/1.jpg": b""})
        assert [entry.split for entry in read(base).entries] == [split]


NO_NAMES = {
    "half of a character": ("\ud800.jpg", "instances_val.json/1", "BAD_ANNOTATION"),
    "no text": (["1.jpg"], "instances_val.json/1", "BAD_ANNOTATION"),
    "none": (None, "instances_val.json/1", "BAD_ANNOTATION"),
    "empty": ("", "instances_val.json/1", "BAD_ANNOTATION"),
    "above the base": ("../../etc/passwd", "../../etc/passwd", "FILE_NOT_FOUND"),
    "absolute": ("/etc/passwd", "/etc/passwd", "OUTSIDE_INPUT_BASE"),
    "of the web": ("http://images/1.jpg", "http://images/1.jpg", "UNKNOWN_SCHEME"),
    "missing": ("2.jpg", "2.jpg", "FILE_NOT_FOUND"),
}


def test_a_name_of_no_image_is_a_reject_that_can_be_written(tmp_path, read, write):
    for name, source, code in NO_NAMES.values():
        text = instances([image(1, name), image(2, "1.jpg")], [])
        listing = read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""}))
        assert [(o.name, o.split, o.code) for o in listing.excluded] == [(source, "eval", code)]
        rejects = [Reject("eval", o.name, o.code, o.detail) for o in listing.excluded]
        assert json.loads(render_rejects(rejects).encode())["source"] == display_path(source)
