"""Images of many kinds and sizes, as files."""

import io
import itertools
from typing import Any

import numpy as np
from PIL import Image

from trainer_utils import ImageOptions, InputOptions
from trainer_utils.core.settings import settings_of


def image_options(**settings: Any) -> InputOptions:
    """Return options, with fields of `ImageOptions` passed like all others."""
    own = {name: settings.pop(name) for name in settings_of(ImageOptions) if name in settings}
    return InputOptions(image=ImageOptions(**own), **settings)


def encode(pixels: np.ndarray, kind: str = "JPEG", mode: str | None = None, **options) -> bytes:
    stream = io.BytesIO()
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(stream, kind, **options)
    return stream.getvalue()


def cuts(sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    """Cut parts of these sizes out of real photos, and add sensor noise."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(5)
    photos = load_sample_images().images
    parts = []
    for number, (height, width) in enumerate(sizes):
        part = photos[number % 2][:height, :width].astype(float)
        parts.append((part + rng.normal(0, 6, part.shape)).clip(0, 255).astype(np.uint8))
    return parts


SIZES = [(1, 1), (2, 3), (7, 5), (8, 8), (15, 40), (17, 16), (90, 120), (333, 500), (375, 427)]
KINDS: list[dict[str, Any]] = [
    {"subsampling": 2, "quality": 75},
    {"subsampling": 2, "quality": 96},
    {"subsampling": 1, "quality": 90},
    {"subsampling": 0, "quality": 92},
    {"subsampling": 2, "quality": 85, "progressive": True},
    {"subsampling": 2, "quality": 90, "restart_marker_blocks": 3},
    {"mode": "L", "quality": 90},
]
PLAIN = [encode(part, **kind) for part, kind in itertools.product(cuts(SIZES), KINDS)]
LARGE = [encode(part, **kind) for part, kind in itertools.product(cuts(SIZES[-3:]), KINDS)]
PIXELS = cuts([(60, 80)])[0]
ODD = {
    "PNG": encode(PIXELS, "PNG"),
    "GIF": encode(PIXELS[:, :, 0], "GIF"),
    "CMYK": encode(PIXELS, mode="CMYK"),
    "RGB JPEG": encode(PIXELS, keep_rgb=True),
    "grey PNG": encode(PIXELS[:, :, 0], "PNG"),
    "end missing": encode(PIXELS)[:-2],
    "more after its end": encode(PIXELS) + b"and more",
    "JPEG": encode(PIXELS),
}
