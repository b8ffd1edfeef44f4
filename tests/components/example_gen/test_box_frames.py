"""Test boxes and label maps of photos that EXIF rotates, against Pillow's rotation."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from tests.components.image_example_gen.image_runs import convert, flat, value
from trainer_utils.core.errors import InputError

BOX = (12, 40, 42, 60)  # left, top, right, bottom of the red block in the displayed image
SIZES = {"upright": (60, 80), "square": (80, 80)}


def rotated_photo(shown: tuple[int, int], orientation: int) -> tuple[bytes, Image.Image]:
    """Return a file that shows a red block at `BOX`, and its stored pixels."""
    image = Image.new("RGB", shown, "white")
    ImageDraw.Draw(image).rectangle((BOX[0], BOX[1], BOX[2] - 1, BOX[3] - 1), fill="red")
    for way in [None, *Image.Transpose]:
        stored = image if way is None else image.transpose(way)
        exif = Image.Exif()
        exif[0x0112] = orientation
        stream = io.BytesIO()
        stored.save(stream, "PNG", exif=exif)
        displayed = ImageOps.exif_transpose(Image.open(stream))
        if displayed.size == image.size and np.array_equal(displayed, image):
            return stream.getvalue(), stored
    raise AssertionError(orientation)


def red_box(image: Image.Image) -> tuple[int, int, int, int]:
    pixels = np.asarray(image.convert("RGB")).astype(int)
    rows, columns = np.nonzero((pixels[..., 0] > 200) & (pixels[..., 1] < 50))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def coco_of(box, size) -> str:
    left, top, right, bottom = map(int, box)
    bbox = [left, top, right - left, bottom - top]
    return json.dumps(
        {
            "images": [{"id": 1, "file_name": "1.png", "width": size[0], "height": size[1]}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": bbox}],
            "categories": [{"id": 1, "name": "red"}],
        }
    )


def write(folder, data, text):
    (folder / "images").mkdir(parents=True)
    (folder / "images/1.png").write_bytes(data)
    (folder / "annotations").mkdir()
    (folder / "annotations/instances_train.json").write_text(text)
    return folder


def assert_box_covers_the_block(out):
    (example,) = flat(out)
    image = Image.open(io.BytesIO(value(example, "image")))
    assert image.getexif().get(0x0112) in (None, 1) or value(example, "height") == image.height
    width, height = image.size
    assert (value(example, "width"), value(example, "height")) == (width, height)
    edges = [value(example, name) for name in ("xmin", "ymin", "xmax", "ymax")]
    found = [edge * side for edge, side in zip(edges, (width, height) * 2, strict=True)]
    assert found == pytest.approx(red_box(image), abs=1e-3)


@pytest.mark.parametrize(
    ("orientation", "pixels"), [*((o, "apply") for o in range(1, 9)), (6, "keep"), (7, "keep")]
)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("frame", ["displayed", "stored"])
def test_box_covers_its_object_in_either_frame(tmp_path, orientation, shape, frame, pixels):
    data, stored = rotated_photo(SIZES[shape], orientation)
    # The JSON always has the size of the stored pixels, also if boxes refer to the displayed image.
    box = BOX if frame == "displayed" else red_box(stored)
    base = write(tmp_path / "in", data, coco_of(box, stored.size))
    convert(base, tmp_path / "out", box_frame=frame, orientation=pixels)
    assert_box_covers_the_block(tmp_path / "out")


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_displayed_size_implies_boxes_in_the_displayed_frame(tmp_path, orientation):
    data, _ = rotated_photo(SIZES["upright"], orientation)
    base = write(tmp_path / "in", data, coco_of(BOX, SIZES["upright"]))
    convert(base, tmp_path / "out")
    assert_box_covers_the_block(tmp_path / "out")


def test_box_outside_the_stored_pixels_is_in_displayed_frame(tmp_path):
    data, stored = rotated_photo((60, 80), 6)
    base = write(tmp_path / "in", data, coco_of((12, 40, 42, 78), stored.size))
    convert(base, tmp_path / "out")
    (example,) = flat(tmp_path / "out")
    assert value(example, "ymax") == pytest.approx(78 / 80)


@pytest.mark.parametrize("shape", SIZES)
def test_ambiguous_frame_is_rejected_with_the_setting(tmp_path, shape):
    data, stored = rotated_photo(SIZES[shape], 6)
    base = write(tmp_path / "in", data, coco_of(BOX, stored.size))
    with pytest.raises(InputError, match=r"BOX_FRAME.*--box-frame displayed") as error:
        convert(base, tmp_path / "out")
    assert "box_frame='stored' (--box-frame stored)" in str(error.value)


def test_frame_given_only_by_the_setting_is_counted(tmp_path):
    data, stored = rotated_photo((80, 80), 6)
    base = write(tmp_path / "in", data, coco_of(BOX, stored.size))
    manifest = convert(base, tmp_path / "out", box_frame="displayed")
    assert manifest["conversions"] == {"BOX_FRAME_GIVEN": 1, "ORIENTATION": 1}


@pytest.mark.parametrize("orientation", [2, 5, 6, 8])
@pytest.mark.parametrize("frame", ["displayed", "stored"])
@pytest.mark.parametrize("shape", SIZES)
def test_label_map_is_rotated_with_its_photo(tmp_path, orientation, frame, shape):
    data, stored = rotated_photo(SIZES[shape], orientation)
    view = stored if frame == "stored" else ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    pixels = np.asarray(view.convert("RGB")).astype(int)
    ids = ((pixels[..., 0] > 200) & (pixels[..., 1] < 50)).astype(np.uint8) * 7
    base = tmp_path / "in"
    for name in ("JPEGImages", "SegmentationClass"):
        (base / name).mkdir(parents=True)
    (base / "JPEGImages/1.png").write_bytes(data)
    Image.fromarray(ids).save(base / "SegmentationClass/1.png")
    convert(base, tmp_path / "out", box_frame=frame)
    (example,) = flat(tmp_path / "out")
    image, label = (Image.open(io.BytesIO(value(example, n))) for n in ("image", "label"))
    found = np.asarray(label)
    assert found.shape == np.asarray(image).shape[:2]
    assert red_box(image) == red_box(
        Image.fromarray(np.dstack([(found > 0) * 255] + [found * 0] * 2).astype(np.uint8))
    )
