"""COCO's layout against hand-counted truth."""

import json
import os
import re

import numpy as np
import pytest

from components.common.layout_inputs import LayoutInputs
from components.common.rejects import Reject, render_rejects
from components.image_example_gen.layouts import read_layout
from trainer_utils.format import InputError
from trainer_utils.storage import display_path, list_files

CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "traffic light"}]


def image(number: int, name: str) -> dict:
    return {"id": number, "file_name": name, "width": 200, "height": 100}


def thing(image_id: int, category: int, bbox: list, **more: int) -> dict:
    return {"image_id": image_id, "category_id": category, "bbox": bbox, **more}


def instances(images: list, annotations: list) -> str:
    return json.dumps({"images": images, "annotations": annotations, "categories": CATEGORIES})


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


def values(listing) -> dict[str, dict]:
    names = [column.name for column in listing.columns]
    return {e.name: dict(zip(names, e.values, strict=True)) for e in listing.entries}


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
        },
        "train2017/sub/2.jpg": {
            **dict.fromkeys(("xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd"), ()),
            "image_id": 2,
        },
        "val2017/v.jpg": {
            **dict.fromkeys(("xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd"), ()),
            "image_id": 1,
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
    "annotation",
    [
        thing(1, 99, [0, 0, 1, 1]),
        thing(1, 7, [0, 0, 1]),
        thing(1, 7, [0, 0, -1, 1]),
        thing(1, 7, [150, 0, 100, 1]),
        thing(1, 7, ["a", 0, 1, 1]),
        {"image_id": 1, "category_id": 7, "bbox": None},
    ],
)
def test_a_bad_annotation_leaves_its_image_out(tmp_path, read, write, annotation):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    text = instances(images, [thing(2, 7, [0, 0, 1, 1]), annotation])
    write(tmp_path, **{"annotations.json": text, "1.jpg": b"", "2.jpg": b""})
    listing = read(tmp_path)
    assert [(o.name, o.code) for o in listing.excluded] == [("1.jpg", "BAD_ANNOTATION")]
    assert [entry.name for entry in listing.entries] == ["2.jpg"]


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


def test_boxes_are_what_numpy_computes(tmp_path, read, write):
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(0, 1, (100, 2, 2)) * [200, 100], axis=1).round(2)
    bboxes = np.concatenate([corners[:, 0], corners[:, 1] - corners[:, 0]], axis=1)
    text = instances([image(1, "1.jpg")], [thing(1, 7, bbox.tolist()) for bbox in bboxes])
    write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})
    found = values(read(tmp_path))["1.jpg"]
    xmin, ymin = bboxes[:, 0] / 200, bboxes[:, 1] / 100
    xmax, ymax = (bboxes[:, 0] + bboxes[:, 2]) / 200, (bboxes[:, 1] + bboxes[:, 3]) / 100
    expected = (xmin, xmax, ymin, ymax, (xmax - xmin) * (ymax - ymin))
    for name, column in zip(("xmin", "xmax", "ymin", "ymax", "area"), expected, strict=True):
        assert list(found[name]) == column.tolist()


def test_outlines_and_cocos_own_area_are_not_read(tmp_path, read, write):
    box = thing(1, 7, [0, 0, 100, 50], area=17.5)
    outline = {"segmentation": [[0, 0, 100, 0, 100, 50]]}
    crowd = {"segmentation": {"size": [100, 200], "counts": [1, 2, 3]}, "iscrowd": 1}
    text = instances([image(1, "1.jpg")], [{**box, **outline}, {**box, **crowd}])
    write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})
    found = values(read(tmp_path))["1.jpg"]
    assert (found["area"], found["is_crowd"]) == ((0.25, 0.25), (0, 1))


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
    "above the base": ("../../etc/passwd", "../../etc/passwd", "OUTSIDE_INPUT_BASE"),
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


BAD_ANNOTATIONS = {
    "no category": (thing(1, 99, [0, 0, 1, 1], id=5), "annotation 5: category_id: .*got 99"),
    "a list as category": (thing(1, [7], [0, 0, 1, 1]), r"category_id: .*got \[7\]"),
    "three numbers": (thing(1, 7, [0, 0, 1]), r"bbox: .*got \[0, 0, 1\]"),
    "a text of four digits": (thing(1, 7, "1234"), "bbox: .*got '1234'"),
    "texts": (thing(1, 7, ["1", "2", "3", "4"]), "bbox: .*got"),
    "nan": (thing(1, 7, [0, 0, float("nan"), 1]), "bbox: .*nan"),
    "infinity": (thing(1, 7, [0, 0, float("inf"), 1]), "bbox: .*inf"),
    "a number past all floats": (thing(1, 7, [10**400, 0, 1, 1]), "bbox: .*got"),
    "negative width": (thing(1, 7, [50, 0, -9, 1]), "x 50 to 41"),
    "two pixels outside": (thing(1, 7, [150, 0, 52, 1]), "x 150 to 202"),
    "iscrowd 2": (thing(1, 7, [0, 0, 1, 1], iscrowd=2), "iscrowd: expected 0 or 1, got 2"),
    "iscrowd null": (thing(1, 7, [0, 0, 1, 1], iscrowd=None), "iscrowd: .*None"),
    "no box": ({"image_id": 1, "category_id": 7}, "bbox: .*got None"),
}


@pytest.mark.parametrize(("annotation", "detail"), BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_the_reject_of_a_bad_annotation_says_what_is_bad(tmp_path, write, annotation, detail):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    text = instances(images, [annotation, thing(2, 7, [0, 0, 1, 1])])
    write(tmp_path, **{"instances_val.json": text, "val/1.jpg": b"", "val/2.jpg": b""})
    files = {file.path: file for file in list_files(str(tmp_path))}
    inputs = LayoutInputs(base=str(tmp_path), root="", files=files)
    listing = read_layout(inputs, layout="coco")
    assert [entry.name for entry in listing.entries] == ["val/2.jpg"]
    ((name, code, text),) = [(o.name, o.code, o.detail) for o in listing.excluded]
    assert (name, code) == ("val/1.jpg", "BAD_ANNOTATION")
    assert re.search(detail, text)
    assert len(text) < 500


@pytest.mark.parametrize("size", [{"width": 0}, {"height": -1}, {"width": None}, {"height": "9"}])
def test_the_size_of_an_image_matters_where_it_has_boxes(tmp_path, read, write, size):
    images = [{**image(1, "1.jpg"), **size}, {**image(2, "2.jpg"), **size}]
    text = instances(images, [thing(1, 7, [0, 0, 1, 1])])
    listing = read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b"", "2.jpg": b""}))
    assert [entry.name for entry in listing.entries] == ["2.jpg"]
    assert [(o.name, o.code) for o in listing.excluded] == [("1.jpg", "BAD_ANNOTATION")]


def test_a_box_a_pixel_outside_is_cut_off(tmp_path, read, write):
    text = instances([image(1, "1.jpg")], [thing(1, 7, [-0.5, 0, 201, 100.9])])
    found = values(read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert (found["xmin"], found["xmax"], found["ymax"]) == ((0.0,), (1.0,), (1.0,))


def changed(**more: list) -> str:
    return json.dumps({**json.loads(instances([image(1, "1.jpg")], [])), **more})


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


def test_ids_may_be_floats_as_pandas_writes_them(tmp_path, read, write):
    things = [thing(1.0, 7.0, [0, 0, 100, 100])]
    text = instances([{**image(1, "1.jpg"), "id": 1.0}], things)
    found = values(read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert (found["image_id"], found["labels"]) == (1, ("dog",))
    assert type(found["image_id"]) is int


def test_two_categories_of_one_name_are_one_label(tmp_path, read, write):
    text = changed(
        categories=[{"id": 0, "name": "dog"}, {"id": 1, "name": "dog"}],
        annotations=[thing(1, 0, [0, 0, 1, 1]), thing(1, 1, [0, 0, 1, 1])],
    )
    found = values(read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert found["labels"] == ("dog", "dog")


def test_a_first_annotation_without_a_box_does_not_hide_the_others(tmp_path, read, write):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    text = instances(images, [{"image_id": 1, "category_id": 7}, thing(2, 7, [0, 0, 1, 1])])
    listing = read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b"", "2.jpg": b""}))
    assert [entry.name for entry in listing.entries] == ["2.jpg"]
    assert [(o.name, o.code) for o in listing.excluded] == [("1.jpg", "BAD_ANNOTATION")]
