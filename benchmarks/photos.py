"""Write realistic photos: `make_jpegs` writes files of ImageNet's kind.

    megabytes = make_jpegs(folder, count=3000)

Sizes, aspects, qualities, colour subsampling and the few odd files follow ImageNet's distribution.
Most photos are 500 pixels wide or high and 333 to 375 the other way; some are far smaller or
larger. They have 107 KB on average. No photo is enlarged: each is cut at full resolution from
scenes with edges and texture at all scales. Each gets its own sensor noise, so that an entropy
coder has its usual work, some 4.6 bits a pixel. Equal counts and classes give equal photos.
"""

import dataclasses
import functools
import io
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from sklearn.datasets import load_sample_images

from trainer_utils.runtime.machine import usable_cores

__all__ = ["make_jpegs"]

_SCENE = 2400  # height and width in pixels
_NUM_SCENES = 3
_LONGEST = 2000

# (share, width, height), drawn if None. Source: roughly the sizes of ImageNet's training images.
_SIZES: tuple[tuple[float, int | None, int | None], ...] = (
    (0.36, 500, 375),
    (0.12, 375, 500),
    (0.11, 500, 333),
    (0.05, 333, 500),
    (0.04, 500, 500),
    (0.32, None, None),
)
# (share, Pillow's settings) of the files; subsampling 0 is 4:4:4, 1 4:2:2, 2 4:2:0. Two in three
# have optimized Huffman tables, like ImageNet's. Of its 1,281,167 files some 20 are in CMYK, and
# one is a PNG.
_KINDS: tuple[tuple[float, dict[str, Any]], ...] = (
    (0.17, {"subsampling": 2}),
    (0.4999, {"subsampling": 2, "optimize": True}),
    (0.04, {"subsampling": 1}),
    (0.08, {"subsampling": 0}),
    (0.15, {"subsampling": 0, "optimize": True}),
    (0.04, {"subsampling": 2, "progressive": True}),
    (0.02, {"mode": "L"}),
    (0.00008, {"mode": "CMYK"}),
    (0.00002, {"format": "PNG"}),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Photo:
    """The properties of one photo."""

    width: int
    height: int
    detail: float
    noise: float
    quality: int
    settings: dict[str, Any]


def make_jpegs(folder: Path, *, count: int, classes: int = 5) -> float:
    """Write `count` different photos to class folders; return their total size in MB.

    All are named `.jpg`, including the few PNGs, as in ImageNet.
    """
    if not folder.is_dir():
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)

        def write(number: int) -> None:
            path = unfinished / f"class-{number % classes}" / f"{number:06d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_encoded(number))

        with ThreadPoolExecutor(usable_cores()) as pool:
            for _ in pool.map(write, range(count)):
                pass
        unfinished.rename(folder)
    return sum(path.stat().st_size for path in folder.rglob("*.jpg")) / 1e6


def _encoded(number: int) -> bytes:
    """Return the encoded photo with this number."""
    photo = _drawn(random.Random(number))
    rng = np.random.default_rng(number)
    scene = _scenes()[number % _NUM_SCENES]
    top, left = (int(rng.integers(0, _SCENE - n)) for n in (photo.height, photo.width))
    cut = scene[top : top + photo.height, left : left + photo.width]
    blurred = Image.fromarray(cut).filter(ImageFilter.GaussianBlur(2))
    pixels = np.asarray(blurred, np.float32)
    pixels = pixels + photo.detail * (cut - pixels)
    # Vary brightness more than colour, like a processed sensor image.
    pixels += rng.standard_normal((photo.height, photo.width, 1), np.float32) * photo.noise
    pixels += rng.standard_normal(pixels.shape, np.float32) * photo.noise / 3
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8)[:, :: int(rng.choice((-1, 1)))])
    settings = {"format": "JPEG", "quality": photo.quality, **photo.settings}
    stream = io.BytesIO()
    image.convert(settings.pop("mode", "RGB")).save(stream, **settings)
    return stream.getvalue()


def _drawn(state: random.Random) -> _Photo:
    width, height = _chosen(state, [(share, sizes) for share, *sizes in _SIZES])
    if width is None:
        # Most other photos are also scaled to 500; a tail goes from 90 to 2,000 pixels.
        shorter = min(max(state.lognormvariate(5.85, 0.48), 90), 1500)
        aspect = state.lognormvariate(0.28, 0.16)
        sides = sorted((int(shorter), int(min(shorter * max(aspect, 1), _LONGEST))))
        width, height = sides if state.random() < 0.3 else sides[::-1]
    is_large = width * height > 500_000  # unscaled camera file: more pixels, less detail in each
    return _Photo(
        width=width,
        height=height,
        detail=state.uniform(0.2, 0.6) if is_large else state.uniform(0.5, 1.3),
        noise=state.uniform(0.5, 2) if is_large else state.uniform(1, 6),
        quality=state.randint(75, 90) if is_large else state.choice((88, 90, 93, 95, 96, 97)),
        settings=_chosen(state, _KINDS),
    )


def _chosen(state: random.Random, shares: Any) -> Any:
    weights, values = zip(*shares, strict=True)
    return state.choices(values, weights)[0]


@functools.cache
def _scenes() -> list[np.ndarray]:
    return [_scene(number) for number in range(_NUM_SCENES)]


def _scene(number: int) -> np.ndarray:
    """Draw a `(_SCENE, _SCENE, 3) uint8` scene of overlapping discs of all sizes, with texture.

    Source: the dead leaves model, which has the edges and the spectrum of photos ("Occlusion models
    for natural images", Lee, Mumford and Huang, 2001): radii fall off with their third power.
    """
    rng = np.random.default_rng(number)
    photos = load_sample_images().images
    colours = np.concatenate([photo.reshape(-1, 3) for photo in photos])
    leaves = Image.new("RGB", (_SCENE, _SCENE))
    draw = ImageDraw.Draw(leaves)
    radii = np.minimum(2.5 / np.sqrt(rng.random(400_000)), 400)
    for radius, (x, y), colour in zip(
        radii, rng.random((len(radii), 2)) * _SCENE, rng.choice(colours, len(radii)), strict=True
    ):
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), tuple(map(int, colour)))
    soft = np.asarray(leaves.filter(ImageFilter.GaussianBlur(0.8)), np.float32)
    texture = np.tile(np.concatenate(photos, axis=1), (6, 2, 1))[:_SCENE, :_SCENE]
    mixed = 0.5 * soft + 0.5 * texture
    return mixed.clip(0, 255).astype(np.uint8)
