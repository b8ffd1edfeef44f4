"""Annotations of COCO: boxes by numpy, and what is wrong with one named."""

import re

import numpy as np
import pytest

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.layouts import read_layout
from tests.components.layouts.coco_files import (
    changed,
    image,
    instances,
    thing,
    values,
)
from trainer_utils.storage import list_files


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
    files = FileTable.of(list_files(str(tmp_path)))
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
