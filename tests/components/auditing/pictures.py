"""Photos cut to tiles, and the ways in which copies of a picture come about."""

from collections.abc import Iterator

from PIL import Image
from sklearn.datasets import load_sample_images

from tests.make import encode


def cut_tiles(side: int) -> list[Image.Image]:
    """All whole tiles of both of scikit-learn's photos, none of which overlap."""
    return [
        Image.fromarray(photo[y : y + side, x : x + side])
        for photo in load_sample_images().images
        for y in range(0, photo.shape[0] - side + 1, side)
        for x in range(0, photo.shape[1] - side + 1, side)
    ]


def jpeg(image: Image.Image, quality: int = 92) -> bytes:
    return encode(image, "JPEG", quality=quality)


def png(image: Image.Image) -> bytes:
    return encode(image, "PNG")


def copies_of(image: Image.Image) -> Iterator[tuple[str, bytes]]:
    """Copies of a picture by the ways in which they are made, at several strengths."""
    width, height = image.size
    for quality in (30, 50, 75):
        yield f"quality {quality}", jpeg(image, quality)
    yield "png", png(image)
    for factor in (0.5, 0.75, 1.6, 2.5):
        size = round(width * factor), round(height * factor)
        yield f"resized by {factor}", jpeg(image.resize(size, Image.Resampling.BICUBIC))
    yield "grey", jpeg(image.convert("L"))
    yield "mirrored", jpeg(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 70)
