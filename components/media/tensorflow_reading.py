"""Whether TensorFlow reads an image as Pillow does: asked of its own decoders.

    decodes_alike(data, image)        # True: it may be kept as it is

TensorFlow is imported at the first question, which takes two seconds; few runs ask.
"""

import warnings

import numpy as np
from PIL import Image

__all__ = ["decodes_alike"]

_MOST_DIFFERENCE = 1.0  # of 255, in the mean: two builds of libjpeg may round otherwise


def decodes_alike(data: bytes, image: Image.Image) -> bool:
    """Whether TensorFlow decodes a file, as `input_fn` does, to what Pillow has decoded.

    Args:
        data: a whole JPEG, PNG, GIF or BMP file.
        image: the same, loaded.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's, at import
        import tensorflow as tf
    try:
        if image.format == "BMP":
            tensor = tf.io.decode_image(data, expand_animations=False)
        else:  # the op reads PNG and GIF too
            tensor = tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE")
    except tf.errors.OpError:
        return False
    pixels = tensor.numpy()
    if image.mode in ("L", "LA", "RGB", "RGBA") and image.format != "GIF":
        expected = np.asarray(image)
    else:
        expected = np.asarray(image.convert("RGB"))
    if expected.ndim == 2:
        expected = expected[:, :, np.newaxis]
    if image.format == "BMP":
        pixels = pixels[:, :, : expected.shape[2]]  # the fourth byte of BGRX is nothing
    if pixels.shape != expected.shape:
        return False
    if image.format in ("JPEG", "MPO"):
        difference = np.abs(pixels.astype(np.int16) - expected).mean()
        return bool(difference <= _MOST_DIFFERENCE)
    return np.array_equal(pixels, expected)
