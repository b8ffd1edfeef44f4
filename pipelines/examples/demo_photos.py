"""Create a small set of real photos, cropped from the two that scikit-learn ships.

make_photos("photos/")       # 600 photos in 5 class folders, and three broken files
"""

import io
import os
import random
from collections.abc import Sequence

from PIL import Image

REGIONS = {  # by class: a photo, and left, top, right and bottom as fractions of its sides
    "dahlia_petals": ("flower.jpg", 0.30, 0.25, 0.75, 0.80),
    "dahlia_leaves": ("flower.jpg", 0.00, 0.00, 0.30, 0.60),
    "palace_sky": ("china.jpg", 0.00, 0.00, 1.00, 0.22),
    "palace_roof": ("china.jpg", 0.25, 0.28, 0.85, 0.58),
    "palace_wall": ("china.jpg", 0.20, 0.55, 0.90, 0.85),
}


def make_photos(folder: str, *, count: int = 600) -> None:
    """Write `count` different photos, one folder per class, and three broken files.

    Args:
        folder: the folder to write to, created if missing.
        count: number of photos, divided equally among the classes.
    """
    from sklearn.datasets import load_sample_images

    random_state = random.Random(0)
    sample = load_sample_images()
    photos = {
        os.path.basename(name): Image.fromarray(pixels)
        for name, pixels in zip(sample.filenames, sample.images, strict=True)
    }
    labels = sorted(REGIONS)
    for number in range(count):
        label = labels[number % len(labels)]
        photo, *region = REGIONS[label]
        data, suffix = _crop(photos[photo], region, random_state)
        _write(os.path.join(folder, label, f"{number:04d}.{suffix}"), data)
    _write(os.path.join(folder, labels[0], "empty.jpg"), b"")
    _write(os.path.join(folder, labels[1], "notes.jpg"), b"These are notes, not a photo.\n")
    _write(os.path.join(folder, labels[2], "truncated.jpg"), data[: len(data) // 2])


def _crop(
    photo: Image.Image, region: Sequence[float], random_state: random.Random
) -> tuple[bytes, str]:
    """Return a random crop of a region, encoded, and its suffix: mostly JPEG, some PNG."""
    left, top, right, bottom = (int(n * s) for n, s in zip(region, photo.size * 2, strict=True))
    side = random_state.randint(64, min(right - left, bottom - top))
    x = random_state.randint(left, right - side)
    y = random_state.randint(top, bottom - side)
    size = random_state.randint(72, 144)
    cut = photo.crop((x, y, x + side, y + side)).resize((size, random_state.randint(72, 144)))
    stream = io.BytesIO()
    if random_state.random() < 0.02:
        cut.save(stream, "PNG")
        return stream.getvalue(), "png"
    cut.save(stream, "JPEG", quality=random_state.randint(70, 95))
    return stream.getvalue(), "jpg"


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data)
