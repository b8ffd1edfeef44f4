"""Test how Python values are stored, for each row of the table in the module."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer_utils.core.errors import InputError
from trainer_utils.writing.values import Plain, Steps, Tensor, stored_value


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        (True, "int", (1,)),
        (-(2**63), "int", (-(2**63),)),
        (np.uint8(7), "int", (7,)),
        (np.float16(0.5), "float", (0.5,)),
        (float("inf"), "float", (float("inf"),)),
        ("\u00e9", "string", ("\u00e9".encode(),)),
        (bytearray(b"\xff"), "string", (b"\xff",)),
        ([1, 2.5], "float", (1.0, 2.5)),
        ((), None, ()),
        (np.arange(3), "int", (0, 1, 2)),
        (np.array([0.5], np.float32), "float", (0.5,)),
        (np.array(["a", "bc"]), "string", (b"a", b"bc")),
        (tf.constant([1, 2], tf.int64), "int", (1, 2)),
        (np.ma.masked_array([1, 2], mask=[0, 0]), "int", (1, 2)),
    ],
)
def test_plain_values_are_stored_by_kind(
    value: Any, kind: str | None, values: tuple[Any, ...]
) -> None:
    found = stored_value(value)
    assert isinstance(found, Plain)
    assert (found.kind, found.values) == (kind, values)
    assert [type(v) for v in found.values] == [type(v) for v in values]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2), np.float32),
        np.zeros(3, np.float64),
        np.array(1.5),
        np.array([True]),
        tf.zeros([2], tf.bfloat16),
        np.array([["a"], ["b"]]),
    ],
)
def test_other_arrays_become_tensors_of_tensorflow(array: Any) -> None:
    found = stored_value(array)
    assert isinstance(found, Tensor)
    want = tf.constant(array) if isinstance(array, np.ndarray) else array
    back = tf.io.parse_tensor(found.data, tf.as_dtype(found.spec.dtype))
    assert back.dtype == want.dtype
    np.testing.assert_array_equal(back, want)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[1, 2], [3]], Steps("int", ((1, 2), (3,)), None)),
        ([[], [0.5]], Steps("float", ((), (0.5,)), None)),
        ([np.eye(2), np.eye(2)], Steps("float", ((1.0, 0.0, 0.0, 1.0),) * 2, (2, 2))),
        ([["a"], ["b"]], Steps("string", ((b"a",), (b"b",)), (1,))),
        (tf.ragged.constant([[1], [2, 3]]), Steps("int", ((1,), (2, 3)), None)),
    ],
)
def test_lists_of_lists_become_steps(value: Any, expected: Steps) -> None:
    assert stored_value(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        1e39,
        "\ud800",
        [1, "a"],
        [1, None],
        {"a": 1},
        np.array(["2020"], "datetime64[Y]"),
        [np.eye(2), np.eye(3)],
        np.array([object()]),
        np.timedelta64(3, "ns"),  # an int to numpy
        np.array([["\ud800"]]),
        memoryview(np.arange(3)),
    ],
)
def test_values_that_cannot_be_stored_raise(value: Any) -> None:
    with pytest.raises(InputError):
        stored_value(value)


def test_images_are_kept_or_encoded_losslessly(
    photos: list[Any], subtests: pytest.Subtests
) -> None:
    kept = stored_value(b"\xff\xd8\xff any", is_image=True)
    assert isinstance(kept, Plain)
    assert kept.values == (b"\xff\xd8\xff any",)
    image = Image.fromarray(photos[0])
    palette, bits = image.quantize(16), image.convert("1")
    for source, want in (
        (photos[0], photos[0]),
        (image, photos[0]),
        (palette, np.asarray(palette.convert("RGB"))),
        (bits, np.asarray(bits.convert("L"))[..., None]),
    ):
        with subtests.test(source=source):
            found = stored_value(source, is_image=True)
            assert isinstance(found, Plain)
            np.testing.assert_array_equal(tf.io.decode_png(found.values[0]).numpy(), want)


@pytest.mark.parametrize(
    "value", [3, "a.jpg", np.zeros((2, 2, 3), np.float32), Image.new("I;16", (2, 2))]
)
def test_invalid_image_raises(value: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        stored_value(value, is_image=True)
