"""The image size in an annotation compared with the size of the photo.

Expected boxes refer to the pixels that Pillow reads, for any size in the annotation.
"""

from collections.abc import Callable

import pytest
from PIL import Image

from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    value,
    write_tree,
)
from tests.components.layouts.layout_files import annotation, image, instances, thing
from tests.make import photo
from trainer_utils.core.errors import InputError

PHOTO = 400, 240
BOX = 100, 60, 300, 180  # xmin, ymin, xmax, ymax in pixels of the photo
RELATIVE = {"xmin": 0.25, "ymin": 0.25, "xmax": 0.75, "ymax": 0.75}


def scaled(size: tuple[int, int]) -> tuple[float, ...]:
    x, y = size[0] / PHOTO[0], size[1] / PHOTO[1]
    return BOX[0] * x, BOX[1] * y, BOX[2] * x, BOX[3] * y


def voc(data: bytes, *boxes: tuple, size: tuple[int, int]) -> dict[str, bytes]:
    objects = [("cat", *box) for box in boxes]
    return {"JPEGImages/1.jpg": data, "Annotations/1.xml": annotation(*objects, size=size)}


def coco(data: bytes, *boxes: tuple, size: tuple[int, int]) -> dict[str, bytes]:
    things = [thing(1, 7, [x, y, to_x - x, to_y - y], id=7) for x, y, to_x, to_y in boxes]
    one = {**image(1, "1.jpg"), "width": size[0], "height": size[1]}
    text = instances([one], things)
    return {"annotations/instances_train.json": text.encode(), "train/1.jpg": data}


LAYOUTS = {"voc": voc, "coco": coco}
Layout = Callable[..., dict[str, bytes]]


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS)
def layout(request) -> Layout:
    return request.param


@pytest.mark.parametrize(
    ("size", "is_counted"), [(PHOTO, False), ((800, 480), True), ((133, 80), True)]
)
def test_boxes_of_a_scaled_photo_keep_their_place(tmp_path, layout, size, is_counted, subtests):
    base = write_tree(tmp_path / "in", layout(photo(1, size=PHOTO), scaled(size), size=size))
    manifest = convert(base, tmp_path / "out")
    assert manifest["conversions"] == ({"BOXES_SCALED": 1} if is_counted else {})
    (example,) = flat(tmp_path / "out")
    for name, expected in RELATIVE.items():
        with subtests.test(name=name):
            assert value(example, name) == pytest.approx(expected, abs=0.01)
    assert (value(example, "width"), value(example, "height")) == PHOTO


@pytest.mark.parametrize("size", [(240, 400), (400, 260)])
def test_boxes_for_another_aspect_ratio_are_a_reject(tmp_path, layout, size):
    base = write_tree(tmp_path / "in", layout(photo(1, size=PHOTO), (1, 1, 50, 60), size=size))
    match = rf"(?s)1 BAD_ANNOTATION.*400 x 240, got {size[0]} x {size[1]}"
    with pytest.raises(InputError, match=match):
        convert(base, tmp_path / "out")


def test_boxes_may_refer_to_the_photo_rotated_by_exif(tmp_path, layout):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = layout(photo(1, size=PHOTO, exif=exif), (60, 100, 180, 300), size=PHOTO[::-1])
    manifest = convert(write_tree(tmp_path / "in", turned), tmp_path / "out")
    assert manifest["conversions"] == {"ORIENTATION": 1}
    (example,) = flat(tmp_path / "out")
    assert {name: value(example, name) for name in RELATIVE} == RELATIVE
    assert (value(example, "width"), value(example, "height")) == PHOTO[::-1]
