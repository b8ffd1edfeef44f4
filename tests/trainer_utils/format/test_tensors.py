"""Test serialized tensors against TensorFlow's own bytes."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils.core.errors import DatasetError
from trainer_utils.format.tensors import TENSOR_DTYPES, TensorSpec, decode_tensor, encode_tensor

SHAPES = ((), (3,), (2, 0), (2, 3, 4), (1, 1, 1, 1, 300))


def array_of(dtype: str, shape: tuple[int, ...]) -> Any:
    random = np.random.default_rng(len(shape))
    numbers = random.integers(0, 3, shape)
    if dtype == "string":
        array = np.empty(shape, object)
        array[...] = np.vectorize(lambda n: b"\xff" * int(n), otypes=[object])(numbers)
        return array
    return numbers.astype(tf.as_dtype(dtype).as_numpy_dtype)


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_tensors_match_tensorflow_and_survive_a_round_trip(
    dtype: str, subtests: pytest.Subtests
) -> None:
    for shape in SHAPES:
        with subtests.test(shape=shape):
            array = array_of(dtype, shape)
            theirs = tf.io.serialize_tensor(tf.constant(array, tf.as_dtype(dtype))).numpy()
            assert encode_tensor(array) == theirs
            back = decode_tensor(theirs)
            assert back.shape == shape
            assert back.dtype == array.dtype
            np.testing.assert_array_equal(back, array)


def test_byte_order_and_strides_do_not_matter() -> None:
    array = np.arange(12, dtype=">f8").reshape(3, 4).T
    found = tf.io.parse_tensor(encode_tensor(array), tf.float64)
    np.testing.assert_array_equal(found.numpy(), array)


def test_invalid_tensors_raise(subtests) -> None:
    for array in (np.zeros(2, "datetime64[s]"), np.array([{}]), np.zeros(1, "V3")):
        with subtests.test(array=array), pytest.raises(DatasetError):
            encode_tensor(array)
    for data in (b"", b"\xff", b"\x08\x01", b"\x08\x63", b'\x08\x01\x12\x00"\x03abc'):
        with subtests.test(data=data), pytest.raises(DatasetError):
            decode_tensor(data)
    for text in ("float16", "float17[1]", "int8[-1]", "int8[1,]", "int8[1]\n"):
        with subtests.test(text=text), pytest.raises(DatasetError):
            TensorSpec.parse(text)


def test_specs_merge_and_survive_a_round_trip(subtests) -> None:
    spec = TensorSpec("float16", (3, 4)).merge(TensorSpec("float16", (3, 5)))
    assert str(spec) == "float16[3,?]"
    assert not spec.is_fixed
    assert TensorSpec.parse(str(spec)) == spec == TensorSpec.from_json(spec.to_json())
    assert TensorSpec.parse("int8[]") == TensorSpec("int8", ())
    for other in (TensorSpec("float32", (3, 4)), TensorSpec("float16", (3,))):
        with (
            subtests.test(other=other),
            pytest.raises(DatasetError, match=r"expected tensors of one dtype and rank.*float"),
        ):
            spec.merge(other)
