"""Serialized tensors back to what they were: whole batches at a time where all have one shape.

    decode_equal(values, TensorSpec("int8", (2, 3)), name="x")    # (batch,) string -> (batch, 2, 3)
    decode_each(value, TensorSpec("int8", (None, 3)), name="x")   # () string -> (None, 3)

Tensors of one shape have one header, which is compared, and the bytes after it are the elements:
no operation for each example, as `tf.io.parse_tensor` would be.
"""

import tensorflow as tf

from trainer_utils.format import Feature
from trainer_utils.format.tensors import TensorSpec, item_bytes, tensor_header

__all__ = ["decode_each", "decode_equal", "has_equal_bytes"]

_SIGNED = {"uint32": tf.int32, "uint64": tf.int64}  # what `decode_raw` takes in their stead


def has_equal_bytes(feature: Feature) -> bool:
    """Whether every example has a tensor of the same number of bytes, as `decode_equal` needs."""
    tensor = feature.tensor
    return (
        feature.dense
        and tensor is not None
        and tensor.is_fixed
        and tensor.dtype != "string"
        and tensor.num_elements > 0
    )


def decode_equal(values: tf.Tensor, spec: TensorSpec, *, name: str) -> tf.Tensor:
    """Decodes tensors of one shape.

    Args:
        values: `(…) string`, a `TensorProto` each.
        spec: of all.
        name: of the feature, for the message.

    Returns:
        `(…, *shape)` of their dtype. Another tensor than that is an `InvalidArgumentError`.
    """
    shape = [size or 0 for size in spec.shape]
    header = tensor_header(spec.dtype, tuple(shape))
    size = len(header) + spec.num_elements * item_bytes(spec.dtype)
    # Texts of another length are no header: a cut at either end of them is shorter.
    is_whole = tf.logical_and(
        tf.equal(tf.strings.length(values), size),
        tf.equal(tf.strings.substr(values, 0, len(header)), header),
    )
    message = f"feature {name!r}: expected tensors {spec} as the dataset says, got others"
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_whole), [message])]):
        content = tf.strings.substr(values, len(header), size - len(header))
    dtype = tf.as_dtype(spec.dtype)
    flat = tf.io.decode_raw(content, _SIGNED.get(spec.dtype, dtype))
    if spec.dtype in _SIGNED:
        flat = tf.bitcast(flat, dtype)
    return tf.reshape(flat, [*([-1] * values.shape.rank), *shape])


def decode_each(value: tf.Tensor, spec: TensorSpec, *, name: str) -> tf.Tensor:
    """Decodes one tensor, whose shape need not be that of others.

    Args:
        value: `() string`, a `TensorProto`; empty where the example has none, which gives zeros
            of the shape, of size 0 where that is not known.
        spec, name: as `decode_equal` has them.
    """
    dtype = tf.as_dtype(spec.dtype)

    def none() -> tf.Tensor:
        return tf.zeros([size or 0 for size in spec.shape], dtype)

    found = tf.cond(tf.equal(value, ""), none, lambda: tf.io.parse_tensor(value, dtype))
    return tf.ensure_shape(found, spec.shape)
