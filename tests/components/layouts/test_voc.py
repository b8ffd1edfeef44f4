"""Pascal VOC's layouts against Datum's own generators."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest

from components.common.rejects import Reject, render_rejects
from tests.components.layouts.voc_files import annotation, one
from trainer_utils.format import InputError


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
    assert {(left.name, left.split, left.code) for left in listing.excluded} == {
        ("JPEGImages/unused.jpg", None, None),
        ("missing", "eval", "FILE_NOT_FOUND"),
    }


def test_a_box_a_pixel_outside_is_cut_off(voc, read):
    (voc / "Annotations/a b.xml").write_bytes(annotation(("dog", -1, 0, 501, 375)))
    box = values(read(voc))["JPEGImages/a b.jpg"]
    assert (box["xmin"], box["xmax"], box["area"]) == ((0.0,), (1.0,), (1.0,))


def test_what_is_twice_is_refused_by_both_names(voc, read, write):
    for name, match in (
        ("JPEGImages/a b.png", r"'a b'.*a b\.jpg.*a b\.png"),
        ("ImageSets/Main/test.txt", "'a b'.*test.txt.*train.txt"),
    ):
        write(voc, **{name: "a b\n"})
        with pytest.raises(InputError, match=match):
            read(voc)
        (voc / name).unlink()


def test_many_boxes_are_datums_to_the_last_bit(tmp_path, read, write):
    from datum.generator.image import DetDatumGenerator

    rng = np.random.default_rng(0)
    corners = np.sort(rng.integers(1, 333, (200, 2, 2)), axis=1)  # (box, low or high, x or y)
    things = [("Dog", *low.tolist(), *high.tolist()) for low, high in corners]
    base = one(tmp_path, write, annotation(*things, size=(333, 357)))
    write(base, **{"ImageSets/train.txt": "a\n"})
    config = SimpleNamespace(has_test_annotations=True, class_map={"dog": "dog"})
    theirs = dict(DetDatumGenerator(str(base), config)(split="train"))["a"]
    del theirs["image"]
    found = values(read(base))["JPEGImages/a.jpg"]
    assert (found.pop("width"), found.pop("height")) == (333, 357)
    assert {name: list(value) for name, value in found.items()} == theirs


def test_every_input_is_counted_and_every_reject_can_be_written(tmp_path, read, write):
    base = one(tmp_path, write, annotation())
    write(base, **{"JPEGImages/.DS_Store": b"", "JPEGImages/Thumbs.db": b""})
    write(base, **{"JPEGImages/no.jpg": b"", "Annotations/alone.xml": annotation()})
    write(base, **{"Annotations/a.txt": b"not an annotation", "readme.txt": b""})
    with open(os.path.join(os.fsencode(base), b"JPEGImages/\xff.jpg"), "wb"):
        pass
    listing = read(base)
    assert {os.fsencode(left.name): left.code for left in listing.excluded} == {
        b"JPEGImages/.DS_Store": None,
        b"JPEGImages/Thumbs.db": None,
        b"JPEGImages/no.jpg": "NO_ANNOTATION",
        b"JPEGImages/\xff.jpg": "NO_ANNOTATION",
        b"Annotations/alone.xml": "FILE_NOT_FOUND",
    }
    assert listing.found == 6
    rejects = [Reject("train", o.name, o.code, o.detail) for o in listing.excluded if o.code]
    lines = render_rejects(rejects).encode().splitlines()
    assert sorted(json.loads(line)["source"] for line in lines) == [
        "Annotations/alone.xml",
        "JPEGImages/\\xff.jpg",
        "JPEGImages/no.jpg",
    ]


LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n + 1, b"&l%d;" % n * 10) for n in range(9))
BAD_TEXTS = [
    b'<!DOCTYPE a [<!ENTITY l0 "ha">' + LAUGHS + b"]><annotation>&l9;</annotation>",
    b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>',
    b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://localhost:1/x">%x;]><annotation/>',
    b"",
    b"<annotation>",
    b"\xff\xfe\x00",
    b'<?xml version="1.0" encoding="klingon"?><annotation/>',
    b"<a>" * 100_000,
    b"<annotation/>",
    annotation(("dog", 1, 1, 2, 2), size=(0, 10)),
    annotation(("dog", 1, 1, 2, 2), size=(-5, 10)),
    annotation(size=("inf", 10)),
    annotation(("dog", "1;2", 1, 2, 2)),
    annotation(("dog", 1, 1, "nan", 2)),
    annotation(("dog", "x" * 10**6, 1, 2, 2)),
    annotation(("dog", 30, 1, 20, 2)),
    annotation(("dog", 1, 1, 502, 2)),
    annotation(("dog", 1, -2, 5, 2)),
    annotation(("", 1, 1, 2, 2)),
]


def test_a_bad_annotation_is_a_reject(tmp_path, read, write):
    for text in BAD_TEXTS:
        (left,) = read(one(tmp_path, write, text)).excluded
        assert (left.name, left.code) == ("JPEGImages/a.jpg", "BAD_ANNOTATION"), text[:100]
        assert 5 < len(left.detail) < 500


def test_folders_of_ones_own_and_the_order_of_classes_are_datums(tmp_path, read, write):
    from datum.configs.default_configs import get_default_write_configs

    own = {"image_dir": "photos", "annotation_dir": "xml/boxes", "set_dir": "lists"}
    files = {f"photos/{name}.jpg": b"x" for name in "ab"} | {"lists/train.txt": "a\nb\n"}
    files["classes.names"] = "fish\ndog\nbird\n"
    for name, labels in {"a": ("Bird", "fish"), "b": ("dog",)}.items():
        boxes = [(label, 1, 2, 30, 40) for label in labels]
        files[f"xml/boxes/{name}.xml"] = annotation(*boxes)
    base = write(tmp_path, **files)
    configs = get_default_write_configs("image_det", str(base / "classes.names"))
    expected = dict(configs.generator(str(base))(split="train", **own))
    names = {"image_set_dir": "lists", **{n: own[n] for n in ("image_dir", "annotation_dir")}}
    listing = read(base, **names)
    assert not listing.excluded
    classes = listing.vocabularies["labels"]
    place = [column.name for column in listing.columns].index("labels")
    found = {
        e.name: [classes.index(label) + 1 for label in e.values[place]] for e in listing.entries
    }
    assert found == {f"photos/{name}.jpg": one["labels"] for name, one in expected.items()}
