"""What a feature's values are taken for, against Pillow and `base64`."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from components.report.records.values import value_of
from trainer_utils.format import Feature

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)


def encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind)
    return stream.getvalue()


def test_pixels_are_shown_as_png():
    raw = Feature(type="string", extra={"encoding": "raw", "image_shape": [4, 5, 3]})
    value = value_of([memoryview(PIXELS.tobytes())], raw)
    assert (value.kind, value.format, value.shape, value.suffix) == (
        "image",
        "RAW",
        (4, 5, 3),
        ".png",
    )
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(value.content))), PIXELS)


def test_texts_and_bytes():
    texts = value_of([memoryview("größe".encode()), memoryview(b"")])
    assert (texts.kind, texts.texts, texts.is_file) == ("text", ["größe", ""], False)
    data = b"\xff\x00\xfe"
    value = value_of([memoryview(data)])
    assert (value.kind, value.num_bytes, value.suffix) == ("bytes", 3, ".bin")
    assert base64.b64encode(data).decode() in json.dumps(value.to_json())


@pytest.mark.parametrize(
    ("numbers", "names"),
    [([0, 1], ["cat", "dog"]), ([2], []), ([-1], []), ([0.0], [])],
)
def test_numbers_are_classes_where_all_of_them_are(numbers, names):
    value = value_of(numbers, None, ["cat", "dog"])
    assert (value.kind, [*value.names]) == ("number", names)
    assert value.to_json() == (numbers if len(numbers) > 1 else numbers[0])
