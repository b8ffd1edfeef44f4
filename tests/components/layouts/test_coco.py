"""COCO's layout against hand-counted truth."""

import json
import os

import pytest

from components.common.rejects import Reject, render_rejects
from tests.components.layouts.coco_files import (
    CATEGORIES,
    changed,
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


def test_annotations_beside_the_images_of_each_split(tmp_path, read, write):
    write(
        tmp_path,
        **{
            "train/_annotations.coco.json": instances([image(1, "a.jpg")], []),
            "valid/_annotations.coco.json": instances([image(1, "b.jpg")], []),
            "train/a.jpg": b"",
            "valid/b.jpg": b"",
        },
    )
    assert {e.name: e.split for e in read(tmp_path).entries} == {
        "train/a.jpg": "train",
        "valid/b.jpg": "eval",
    }


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


def test_an_image_of_two_files_is_refused_by_both(tmp_path, read, write):
    text = instances([image(1, "1.jpg")], [])
    write(tmp_path, **{"instances_a.json": text, "instances_b.json": text, "1.jpg": b""})
    with pytest.raises(InputError, match=r"'1.jpg'.*instances_a.json and instances_b.json"):
        read(tmp_path)


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


def test_keypoints_of_any_name_are_passed_by_where_there_are_instances(coco, read, write):
    before = read(coco)
    text = other_task([image(1, "1.jpg")], bbox=[0, 0, 9, 9], keypoints=[1, 1, 2])
    write(coco, **{"annotations/poses_train2017.json": text})
    assert read(coco) == before


def test_keypoints_alone_are_boxes(tmp_path, read, write):
    text = other_task([image(1, "1.jpg")], bbox=[0, 0, 100, 50], keypoints=[1, 1, 2])
    write(tmp_path, **{"annotations/person_keypoints_val2017.json": text, "val2017/1.jpg": b""})
    assert values(read(tmp_path))["val2017/1.jpg"]["xmax"] == (0.5,)


def test_captions_alone_are_refused(tmp_path, read, write):
    text = other_task([image(1, "1.jpg")], caption="a dog")
    write(tmp_path, **{"annotations/captions_val2017.json": text, "val2017/1.jpg": b""})
    with pytest.raises(InputError, match="JSON file with images, annotations, categories"):
        read(tmp_path, "coco")


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


def test_below_a_root_all_is_found(tmp_path, read, write):
    below = {"annotations/instances_val2017.json": instances([image(1, "v.jpg")], [])}
    write(tmp_path / "span-1", **below, **{"val2017/v.jpg": b""})
    assert [e.name for e in read(tmp_path, root="span-1").entries] == ["span-1/val2017/v.jpg"]


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


def test_a_link_that_leads_out_is_not_followed(coco, tmp_path, read, write):
    write(tmp_path, **{"secret.json": instances([image(1, "secret.jpg")], [])})
    (coco / "annotations/instances_test2017.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InputError, match=r"'annotations/instances_test2017.json'.*leads out"):
        read(coco)


@pytest.mark.parametrize(
    "name",
    [
        "a [b] *?.jpg",
        "\U0001f415.jpg",
        "a\nb.jpg",
        os.fsdecode(b"\xff.jpg"),
        "x/../y.jpg",
        "./z.jpg",
    ],
)
def test_an_odd_name_is_taken(tmp_path, read, write, name):
    write(tmp_path, **{"instances_val.json": instances([image(1, name)], []), "x/a.jpg": b""})
    (tmp_path / name).write_bytes(b"image")
    assert [e.name for e in read(tmp_path).entries] == [os.path.normpath(name)]


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


BAD_FILES = {
    "two images of one id": (
        changed(images=[image(1, "a.jpg"), image(1, "b.jpg")]),
        r"'instances_val.json'.*image's id once, got 1 for 'a.jpg' and 'b.jpg'",
    ),
    "two ids of one image": (
        changed(images=[image(1, "1.jpg"), image(2, "1.jpg")]),
        r"'instances_val.json'.*got '1.jpg' as the ids 1 and 2",
    ),
    "two categories of one id": (
        changed(categories=[{"id": 7, "name": "a"}, {"id": 7, "name": "b"}]),
        "category's id once, got 7 for 'a' and 'b'",
    ),
    "a category without a name": (changed(categories=[{"id": 7}]), "category 7, got None"),
    "half of a character": (
        changed(categories=[{"id": 7, "name": "\ud800"}]),
        r"name of category 7, got '\\ud800'",
    ),
    "an id of letters": (changed(images=[image("a1", "1.jpg")]), "64 bits.*image, got 'a1'"),
    "an id of 65 bits": (changed(images=[image(2**64, "1.jpg")]), f"image, got {2**64}"),
    "no id": (changed(images=[{"file_name": "1.jpg"}]), "image, got None .'1.jpg'"),
    "no objects": (changed(images=["1.jpg"]), r"expected objects, got '1.jpg' \(images\[0\]\)"),
    "of no image": (
        changed(annotations=[thing(1, 7, [0, 0, 1, 1]), thing("x", 7, [0, 0, 1, 1])]),
        r"annotations of its images, got 'x' \(annotations\[1\]\)",
    ),
    "of a list": (
        changed(annotations=[thing([], 7, [0, 0, 1, 1])]),
        r"annotations of its images, got \[\] \(annotations\[0\]\)",
    ),
    "cut short": (TRAIN[:-9], "'instances_val.json': expected JSON"),
    "nested without end": ('{"images": ' + "[" * 100_000, "'instances_val.json': expected JSON"),
    "a number of 5,000 digits": ('{"images": ' + "9" * 5000, "'instances_val.json': expected JSON"),
    "UTF-16": (TRAIN.encode("utf-16"), "'instances_val.json': expected UTF-8"),
}


@pytest.mark.parametrize(("text", "match"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_with_what_is_bad(tmp_path, read, write, text, match):
    write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})
    with pytest.raises(InputError, match=match):
        read(tmp_path)
