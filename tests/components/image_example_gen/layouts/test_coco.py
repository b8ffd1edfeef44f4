"""COCO's layout against hand-counted truth."""

import json

import pytest

from trainer_utils.format import InputError

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
    assert [(o.name, o.split, o.code) for o in listing.left_out] == [
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
    assert [(o.name, o.code) for o in listing.left_out] == [("1.jpg", "BAD_ANNOTATION")]
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
