"""COCO's layout compared with expected values by hand, and with boxes by numpy."""

import dataclasses
import json
import re

import pytest

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.coco import coco_files
from components.layouts.reading import read_layout
from tests.components.layouts.layout_files import image, instances, read, thing, values
from tests.make import write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files


def inputs_of(base) -> LayoutInputs:
    return LayoutInputs(base=str(base), root="", files=FileTable.of(list_files(str(base))))


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


def test_boxes_are_relative_and_splits_come_from_file_names(coco):
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
def test_images_are_found_in_usual_folders(tmp_path, folder):
    write_files(
        tmp_path,
        {"annotations/instances_train2017.json": TRAIN, f"{folder}/1.jpg": b"", "x.jpg": b""},
    )
    assert [entry.name.split("/")[-1] for entry in read(tmp_path).entries] == ["1.jpg"]


def test_a_malformed_file_is_refused_by_name(tmp_path, subtests):
    for text in (
        "{",
        instances([image(1, "a"), image(1, "b")], []),
        instances([], [thing(5, 7, [0, 0, 1, 1])]),
        "[" * 100_000,
    ):
        with subtests.test(text=text):
            write_files(tmp_path, {"instances_x.json": text})
            with pytest.raises(InputError, match=r"instances_x\.json"):
                read(tmp_path)
    write_files(tmp_path, {"instances_x.json": json.dumps({"a": 1})})
    with pytest.raises(InputError, match="images, annotations, categories"):
        read(tmp_path)


def test_split_is_a_word_of_the_file_name(tmp_path, subtests):
    for name, split in (
        ("instances_train2017", "train"),
        ("instances_Validation", "eval"),
        ("instances_test-dev2017", "test"),
        ("instances_minival", None),
        ("train", "train"),
        ("my_coco", None),
    ):
        with subtests.test(name=name):
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


def test_invalid_image_name_is_a_reject_that_can_be_written(tmp_path, subtests):
    for name, source, code in NO_NAMES.values():
        with subtests.test(name=name):
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


def test_reject_of_a_bad_annotation_has_the_reason(tmp_path, subtests):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    for annotation, detail in BAD_ANNOTATIONS.values():
        with subtests.test(annotation=annotation):
            text = instances(images, [annotation, thing(2, 7, [0, 0, 1, 1])])
            write_files(tmp_path, {"instances_val.json": text, "val/1.jpg": b"", "val/2.jpg": b""})
            listing = read(tmp_path, "coco")
            assert [entry.name for entry in listing.entries] == ["val/2.jpg"]
            ((name, code, text),) = [(o.name, o.code, o.detail) for o in listing.excluded]
            assert (name, code) == ("val/1.jpg", "BAD_ANNOTATION")
            assert re.search(detail, text)
            assert len(text) < 500


def test_box_one_pixel_outside_is_clipped(tmp_path):
    text = instances([image(1, "1.jpg")], [thing(1, 7, [-0.5, 0, 201, 100.9])])
    found = values(read(write_files(tmp_path, {"instances_val.json": text, "1.jpg": b""})))["1.jpg"]
    assert (found["xmin"], found["xmax"], found["ymax"]) == ((0.0,), (1.0,), (1.0,))


# Files of labelling tools -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["result.json", "labels.json", "export/data.json"])
def test_json_with_coco_keys_is_read_under_any_name(tmp_path, name):
    text = instances([image(1, "1.jpg")], [thing(1, 7, [20, 10, 40, 30])])
    base = write_files(tmp_path, {name: text, "images/1.jpg": b"x"})
    assert values(read(base))["images/1.jpg"]["labels"] == ("dog",)


def test_json_without_coco_keys_is_not_coco(tmp_path):
    texts = {"meta.json": '{"version": 1}', "a/1.json": '{"shapes": [], "imagePath": "1.jpg"}'}
    assert coco_files(inputs_of(write_files(tmp_path, texts))) == []


def test_ids_may_be_strings(tmp_path):
    images = [{**image(1, "1.jpg"), "id": "img-1"}]
    things = [{**thing(1, 7, [20, 10, 40, 30]), "id": "a", "image_id": "img-1"}]
    text = instances(images, things)
    base = write_files(tmp_path, {"instances_train.json": text, "1.jpg": b"x"})
    row = values(read(base))["1.jpg"]
    assert (row["image_id"], row["labels"]) == ("img-1", ("dog",))


def test_backslashes_are_read_as_slashes(tmp_path):
    text = instances([image(1, "photos\\1.jpg")], [])
    base = write_files(tmp_path, {"result.json": text, "images/photos/1.jpg": b"x"})
    assert [entry.name for entry in read(base).entries] == ["images/photos/1.jpg"]


def test_lost_paths_are_refused_with_the_flag_that_finds_them(tmp_path):
    text = instances([image(1, "/data/upload/3/1.jpg"), image(2, "/data/upload/3/2.jpg")], [])
    base = write_files(tmp_path, {"result.json": text, "a/1.jpg": b"x", "b/2.jpg": b"x"})
    with pytest.raises(InputError, match="--find-files tail"):
        read(base)
    files = dataclasses.replace(inputs_of(base), find_files="tail")
    found = read_layout(files, layout="auto").entries
    assert sorted(entry.name for entry in found) == ["a/1.jpg", "b/2.jpg"]


def test_keypoints_are_relative_and_one_list_for_all_boxes(tmp_path):
    points = [20, 10, 2, 0, 0, 0, 100, 50, 1]
    things = [thing(1, 7, [0, 0, 100, 50], keypoints=points), thing(1, 3, [0, 0, 10, 10])]
    text = instances([image(1, "1.jpg"), image(2, "2.jpg")], things)
    base = write_files(
        tmp_path, {"person_keypoints_train.json": text, "1.jpg": b"x", "2.jpg": b"x"}
    )
    found = values(read(base))
    assert found["1.jpg"]["keypoints"] == (0.1, 0.1, 2, 0, 0, 0, 0.5, 0.5, 1)
    assert found["1.jpg"]["keypoint_counts"] == (3, 0)
    assert found["2.jpg"]["keypoints"] == ()


def test_captions_are_lists(tmp_path):
    images = [image(1, "1.jpg"), image(2, "2.jpg")]
    captions = [{"id": n, "image_id": 1, "caption": f"c {n}"} for n in range(3)]
    text = json.dumps({"images": images, "annotations": captions})
    photos = {"val2017/1.jpg": b"x", "val2017/2.jpg": b"x"}
    base = write_files(tmp_path, {"annotations/captions_val2017.json": text, **photos})
    listing = read(base)
    assert {name: row["caption"] for name, row in values(listing).items()} == {
        "val2017/1.jpg": ("c 0", "c 1", "c 2"),
        "val2017/2.jpg": (),
    }
    assert {entry.split for entry in listing.entries} == {"eval"}
