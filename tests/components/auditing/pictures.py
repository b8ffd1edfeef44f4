"""Tiles of photos, and typical modified copies of an image."""

from collections.abc import Iterator

from PIL import Image
from sklearn.datasets import load_sample_images

from tests.make import encode


def cut_tiles(side: int) -> list[Image.Image]:
    """Return all whole tiles of both of scikit-learn's photos, without overlap."""
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
    """Yield typical modified copies of an image at several strengths, each with its description."""
    width, height = image.size
    for quality in (30, 50, 75):
        yield f"quality {quality}", jpeg(image, quality)
    yield "png", png(image)
    for factor in (0.5, 0.75, 1.6, 2.5):
        size = round(width * factor), round(height * factor)
        yield f"resized by {factor}", jpeg(image.resize(size, Image.Resampling.BICUBIC))
    yield "grey", jpeg(image.convert("L"))
    mirrored = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    yield "mirrored", jpeg(mirrored, 70)
    for left, top in ((0.05, 0.05), (0, 0), (0.1, 0), (0.1, 0.1)):
        yield f"cropped at {left}, {top}", jpeg(cropped(image, left, top), 80)
    yield "cropped and mirrored", jpeg(cropped(mirrored, 0.05, 0.05))
    small = image.resize((width // 2, height // 2), Image.Resampling.BICUBIC)
    yield "cropped and halved", jpeg(cropped(small, 0.05, 0.05), 60)


def cropped(image: Image.Image, left: float, top: float) -> Image.Image:
    """Return nine tenths of the image in each direction, from the given fractions on."""
    width, height = image.size
    box = (left * width, top * height, (left + 0.9) * width, (top + 0.9) * height)
    return image.crop(tuple(map(round, box)))
