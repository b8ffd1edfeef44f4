"""What headers of images say, against the channels that TensorFlow decodes."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.media.image_headers import channels_of, open_image

RGB = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)


def encoded(kind: str, mode: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).convert(mode).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("PNG", "L"), ("PNG", "LA"), ("PNG", "RGB"), ("PNG", "RGBA"), ("JPEG", "L"),
     ("JPEG", "RGB")],
)  # fmt: skip
def test_what_may_stay_has_the_channels_that_tensorflow_gives(kind, mode):
    data = encoded(kind, mode)
    channels, reason = channels_of(data, open_image(data, max_pixels=54))
    assert reason is None
    assert channels == tf.io.decode_image(data).shape[-1]
