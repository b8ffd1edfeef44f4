"""Annotations of COCO: boxes by numpy, and what is wrong with one named."""

import re

import numpy as np

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.layouts import read_layout
from tests.components.layouts.coco_files import (
    image,
    instances,
    thing,
    values,
)
from trainer_utils.storage import list_files


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


def test_the_reject_of_a_bad_annotation_says_what_is_bad(tmp_path, write):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    for annotation, detail in BAD_ANNOTATIONS.values():
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


def test_a_box_a_pixel_outside_is_cut_off(tmp_path, read, write):
    text = instances([image(1, "1.jpg")], [thing(1, 7, [-0.5, 0, 201, 100.9])])
    found = values(read(write(tmp_path, **{"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert (found["xmin"], found["xmax"], found["ymax"]) == ((0.0,), (1.0,), (1.0,))
