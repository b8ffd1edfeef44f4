"""COCO's layout against hand-counted truth."""

import json

import pytest

from components.common.rejects import Reject, render_rejects
from tests.components.layouts.coco_files import (
    CATEGORIES,
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["instances_x.json", "JSON"]),
        (instances([image(1, "a"), image(1, "b")], []), ["instances_x.json", "id once"]),
        (instances([], [thing(5, 7, [0, 0, 1, 1])]), ["instances_x.json", "got 5"]),
        (json.dumps({"a": 1}), ["images, annotations, categories"]),
        ("[" * 100_000, ["instances_x.json"]),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path, read, write, text, words):
    write(tmp_path, **{"instances_x.json": text})
    with pytest.raises(InputError) as caught:
        read(tmp_path)
    assert [word for word in words if word not in str(caught.value)] == []


# From here on: what COCO's own archive holds, where images lie, and hostile files.


def other_task(images: list, **fields) -> str:
    annotations = [
        {"id": 1, "image_id": image["id"], "category_id": 7, **fields} for image in images
    ]
    return instances(images, annotations)


def test_cocos_own_archive_of_annotations_is_read(coco, read, write):
    images = [image(1, "1.jpg"), image(2, "sub/2.jpg")]
    box = {"bbox": [0, 0, 9, 9], "keypoints": [1, 1, 2], "num_keypoints": 1}
    others = {
        "person_keypoints_train2017": other_task(images, **box),
        "stuff_train2017": other_task(images, bbox=[0, 0, 9, 9]),
        "panoptic_train2017": other_task(images, segments_info=[]),
        "image_info_test2017": json.dumps({"images": images, "categories": CATEGORIES}),
    }
    before = read(coco)
    write(coco, **{f"annotations/{name}.json": text for name, text in others.items()})
    assert read(coco) == before


PLACES = {  # the first that has the image is taken
    "the suffix": ["train2017/1.jpg", "images/1.jpg", "1.jpg", "annotations/1.jpg"],
    "images and the suffix": ["images/train2017/1.jpg", "train/1.jpg", "images/1.jpg"],
    "the split": ["training/1.jpg", "images/1.jpg", "1.jpg"],
    "images and the split": ["images/train/1.jpg", "images/1.jpg"],
    "images": ["images/1.jpg", "1.jpg"],
    "the base": ["1.jpg", "annotations/1.jpg"],
    "the file's own folder": ["annotations/1.jpg", "val2017/1.jpg", "images/val2017/1.jpg"],
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_the_likeliest_image_of_a_name_is_taken(tmp_path, read, write, places):
    text = instances([image(1, "1.jpg")], [])
    write(tmp_path, **{"annotations/instances_train2017.json": text, **dict.fromkeys(places, b"")})
    assert [entry.name for entry in read(tmp_path).entries] == places[:1]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("instances_train2017", "train"),
        ("instances_val2014", "eval"),
        ("instances_Validation", "eval"),
        ("instances_test-dev2017", "test"),
        ("instances_minival", None),
        ("train", "train"),
        ("my_coco", None),
    ],
)
def test_a_split_is_a_word_of_the_files_name(tmp_path, read, write, name, split):
    text = instances([image(1, "1.jpg")], [])
    write(tmp_path, **{f"annotations/{name}.json": text, "images/1.jpg": b""})
    assert [entry.split for entry in read(tmp_path).entries] == [split]


OTHERS = {
    "a file of settings": {"settings.json": '{"images": "photos"}'},
    "LabelMe": {"annotations/1.json": '{"version": "5.0", "shapes": [], "imagePath": "1.jpg"}'},
    "VIA": {"via_annotations.json": '{"_via_img_metadata": {}}'},
    "a file beside each image": {"cat/1.json": '{"images": [], "annotations": []}'},
    "a link that leads out": {},
}


@pytest.mark.parametrize("files", OTHERS.values(), ids=OTHERS)
def test_other_json_is_not_taken_for_coco(tmp_path, read, write, files):
    base = write(tmp_path / "in", **{"cat/1.jpg": b"", "dog/2.jpg": b"", **files})
    if not files:
        write(tmp_path, **{"secret.json": TRAIN})
        (base / "instances_train2017.json").symlink_to(tmp_path / "secret.json")
    listing = read(base)
    assert [column.name for column in listing.columns] == ["label"]
    assert {"cat/1.jpg", "dog/2.jpg"} <= {entry.name for entry in listing.entries}


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


@pytest.mark.parametrize(("name", "source", "code"), NO_NAMES.values(), ids=NO_NAMES)
def test_a_name_of_no_image_is_a_reject_that_can_be_written(
    tmp_path, read, write, name, source, code
):
    text = instances([image(1, name), image(2, "1.jpg")], [])
    listing = read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""}))
    assert [(o.name, o.split, o.code) for o in listing.excluded] == [(source, "eval", code)]
    rejects = [Reject("eval", o.name, o.code, o.detail) for o in listing.excluded]
    assert json.loads(render_rejects(rejects).encode())["source"] == display_path(source)
