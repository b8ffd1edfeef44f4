"""Photos cut to tiles, and the ways in which copies of a picture come about."""

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images


def cut_tiles(side: int) -> list[Image.Image]:
    """All whole tiles of both of scikit-learn's photos, none of which overlap."""
    return [
        Image.fromarray(photo[y : y + side, x : x + side])
        for photo in load_sample_images().images
        for y in range(0, photo.shape[0] - side + 1, side)
        for x in range(0, photo.shape[1] - side + 1, side)
    ]


def jpeg(image: Image.Image, quality: int = 92) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def copies_of(image: Image.Image, random: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Copies of a picture by the ways in which they are made, at several strengths."""
    width, height = image.size
    for quality in (30, 50, 75):
        yield f"quality {quality}", jpeg(image, quality)
    yield "png", png(image)
    for factor in (0.5, 0.75, 1.6, 2.5):
        size = round(width * factor), round(height * factor)
        yield f"resized by {factor}", jpeg(image.resize(size, Image.Resampling.BICUBIC))
    for number in range(4):
        across, down = random.uniform(0.9, 1, 2)
        left, top = random.uniform(0, 1 - across) * width, random.uniform(0, 1 - down) * height
        box = map(int, (left, top, left + across * width, top + down * height))
        yield f"crop {number}", jpeg(image.crop(tuple(box)))
    for left, top in ((0, 0), (0.1, 0.1), (0.1, 0), (0.05, 0.05)):
        box = map(int, (left * width, top * height, (left + 0.9) * width, (top + 0.9) * height))
        yield f"crop at {left}, {top}", jpeg(image.crop(tuple(box)), 80)
    yield "grey", jpeg(image.convert("L"))
    yield "mirrored", jpeg(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 70)
