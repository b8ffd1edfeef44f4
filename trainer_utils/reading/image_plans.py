"""Plan the changes to each image: the part to keep, its scale, its new size, and mirroring.

    plan_images(options, [(480, 640)], keys)        # [ImagePlan(box=(…), ratio=2, …)]

Points and extents are `(images, 2)` integers, rows before columns, in pixels. All randomness
follows from a record's key.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format.hashing import splitmix64

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Sizes = npt.NDArray[np.int64]  # `(images, 2)`: heights and widths
Box = tuple[int, int, int, int]

_ATTEMPTS = 10  # tries to place a crop of the drawn area and aspect
_MAX_SCALING = 3  # powers of two: libjpeg decodes at 1/2, 1/4 and 1/8


class ImagePlan(NamedTuple):
    """The planned changes to one image.

    Attributes:
        box: the part to keep: top, left, height, width.
        ratio: a JPEG is decoded at 1 / `ratio` of its scale.
        scaled_box: the box at that scale.
        target: the height and width after resizing.
        is_mirrored: whether the result is mirrored.
    """

    box: Box
    ratio: int
    scaled_box: Box
    target: tuple[int, int]
    is_mirrored: bool


def plan_images(
    options: "InputOptions",
    sizes: Sequence[tuple[int, int]],
    keys: Keys | None = None,
    *,
    scales: bool = True,
) -> list[ImagePlan]:
    """Plan the changes to each image.

    Args:
        options: the settings of the input.
        sizes: the height and width of each image.
        keys: `(images,) uint64`, required for random options.
        scales: whether JPEGs may be decoded at a smaller scale, if the options allow it.
    """
    whole = np.array(sizes, np.int64).reshape(-1, 2)
    begin, extent = _crops(options, whole, keys)
    targets = _target_sizes(options, extent)
    ratios = np.ones((len(whole), 1), np.int64)
    if scales and options.image.dct_scaling and options.image_size is not None:
        ratios = _scalings(extent, targets)
    mirrored = np.zeros(len(whole), bool)
    if options.augmentation.flips:
        assert keys is not None
        mirrored = are_mirrored(keys)
    # The box in the scaled image: its corners are rounded, those at the image's end are kept there.
    first, last = ((corner + ratios // 2) // ratios for corner in (begin, begin + extent))
    last = np.where(begin + extent == whole, -(-whole // ratios), last)
    boxes = np.concatenate([begin, extent], axis=1)
    scaled_boxes = np.concatenate([first, last - first], axis=1)
    columns: list[Any] = [boxes, ratios[:, 0], scaled_boxes, targets, mirrored]
    return [
        ImagePlan(tuple(box), ratio, tuple(scaled), tuple(target), flips)
        for box, ratio, scaled, target, flips in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _crops(options: "InputOptions", whole: Sizes, keys: Keys | None) -> tuple[Sizes, Sizes]:
    """Return the begin and the size of the part of each image to use.

    Args:
        options: the settings of the input.
        whole: `(images, 2) int64`, the height and width of each image.
        keys: `(images,) uint64`, required for random crops.
    """
    if options.augmentation.crops:
        assert keys is not None
        return _random_boxes(whole, keys, options.image.crop_area, options.image.crop_aspect)
    if options.image.resize != "crop" or options.image_size is None:
        return np.zeros_like(whole), whole
    # The largest centred box of that aspect. An odd remainder puts the smaller half first.
    size = np.array(options.image_size)
    of_aspect = (whole[:, ::-1] * size + size[::-1] // 2) // size[::-1]
    extent = np.clip(of_aspect, 1, whole)
    return (whole - extent) // 2, extent


def _target_sizes(options: "InputOptions", extent: Sizes) -> Sizes:
    """Return the size that each part of an image is resized to, without black borders."""
    if options.image_size is None:
        return extent
    size = np.array(options.image_size)
    if not options.pads:
        return np.broadcast_to(size, extent.shape)
    # Round down like `tf.image.resize_with_pad`.
    targets: Sizes = np.clip(extent * size[::-1] // extent[:, ::-1], 1, size)
    return targets


def _scalings(extent: Sizes, targets: Sizes) -> Sizes:
    """Return the largest ratio of a scaled JPEG that still exceeds each target, `(images, 1)`."""
    fits = ((extent - 1) // targets).min(axis=1, keepdims=True)
    powers = np.log2(np.maximum(fits, 1)).astype(np.int64)
    scalings: Sizes = 1 << np.minimum(powers, _MAX_SCALING)
    return scalings


def are_mirrored(keys: Keys) -> npt.NDArray[np.bool_]:
    """Return for each key whether its image is mirrored; half of them are."""
    return draw_uniforms(keys, count=1, purpose=1)[:, 0] < 0.5


def draw_uniforms(keys: Keys, *, count: int, purpose: int = 0) -> npt.NDArray[np.float64]:
    """Draw numbers in [0, 1), multiples of 2**-53, equal on every machine.

    Args:
        keys: `(images,) uint64`, the seeds.
        count: the number of draws for each key.
        purpose: a number from 0 that separates independent draws. It is part of the state, since an
            offset into one sequence would overlap.

    Returns:
        `(images, count) float64`.
    """
    state = splitmix64(
        keys ^ splitmix64(np.zeros(1, np.uint64), np.array([purpose + 1], np.uint64))
    )
    bits = splitmix64(state[:, np.newaxis], np.arange(1, count + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _random_boxes(
    whole: Pairs, keys: Keys, area: tuple[float, float], aspect: tuple[float, float]
) -> tuple[Pairs, Pairs]:
    """Draw boxes of random area, aspect and position; return begins and extents.

    The first of ten attempts that is within the image is used. If all fail, as for a very long
    image, the box is in the middle with the nearest aspect.

    Source: "Going deeper with convolutions" (Szegedy et al., 2014), the augmentation of Inception.
    """
    uniforms = draw_uniforms(keys, count=4 * _ATTEMPTS).reshape(len(keys), _ATTEMPTS, 4)
    low, high = (math.log(limit) for limit in aspect)
    pixels = (area[0] + (area[1] - area[0]) * uniforms[..., 0]) * whole.prod(axis=1)[:, np.newaxis]
    aspects = np.exp(low + (high - low) * uniforms[..., 1])
    drawn = np.rint(np.sqrt(np.stack([pixels / aspects, pixels * aspects], axis=-1)))
    fits = ((drawn >= 1) & (drawn <= whole[:, np.newaxis])).all(axis=-1)
    chosen = np.arange(len(keys)), fits.argmax(axis=1)
    extent = drawn[chosen].astype(np.int64)
    begin = (uniforms[..., 2:][chosen] * (whole - extent + 1)).astype(np.int64)
    limits = np.rint(whole[:, ::-1] * (1 / aspect[0], aspect[1])).astype(np.int64)
    middle = np.clip(limits, 1, whole)
    has_fit = fits.any(axis=1)[:, np.newaxis]
    return np.where(has_fit, begin, (whole - middle) // 2), np.where(has_fit, extent, middle)
