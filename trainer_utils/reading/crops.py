"""Which part of each image is kept, at what scale, and its new size: geometry, no pixels.

All images of a batch at once. Points and extents are `(images, 2)` integers, rows before columns,
in pixels. What is random follows from a record's key alone. Boxes and label maps follow images.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, Feature
from trainer_utils.format.planning import splitmix64

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


_BOXES = ("xmin", "xmax", "ymin", "ymax")  # shares of the whole image's width and height
_ATTEMPTS = 10  # at a crop of the area and aspect drawn
_MOST_SCALING = 3  # powers of two: libjpeg decodes at 1/2, 1/4 and 1/8

Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Box = tuple[int, int, int, int]


class ImagePlan(NamedTuple):
    """What becomes of one image.

    Attributes:
        box: what is kept of it: top, left, height, width.
        ratio, scaled_box: a JPEG is decoded at 1 / `ratio`, where the box has these corners.
        target: height and width that what is kept is resized to.
        is_mirrored: whether that is then mirrored.
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
    """A plan for each image, of a height and width.

    `keys` are `(images,) uint64`, where the options are random; `scales` says whether JPEGs may be
    decoded at a smaller scale, if the options allow it.
    """
    whole = np.array(sizes, np.int64).reshape(-1, 2)
    begin, extent, ratios = np.zeros_like(whole), whole, np.ones_like(whole)
    mirrored = np.zeros(len(whole), bool)
    chain = options.augmentation
    if chain.is_random:
        assert keys is not None
        if chain.crops:
            begin, extent = _random_boxes(
                whole, keys, options.image.crop_area, options.image.crop_aspect
            )
        if chain.flips:
            mirrored = are_mirrored(keys)
    if options.image_size is None:
        targets = extent
    else:
        size = np.array(options.image_size)
        if options.image.resize == "crop" and not chain.crops:
            # The largest box of that aspect; of an odd rest, the smaller half comes before it.
            of_aspect = (whole[:, ::-1] * size + size[::-1] // 2) // size[::-1]
            extent = np.clip(of_aspect, 1, whole)
            begin = (whole - extent) // 2
        targets = np.broadcast_to(size, whole.shape)
        if options.pads:  # rounded down as `tf.image.resize_with_pad` does
            targets = np.clip(extent * size[::-1] // extent[:, ::-1], 1, size)
        if scales and options.image.dct_scaling:  # the largest that leaves more than that both ways
            fits = ((extent - 1) // targets).min(axis=1, keepdims=True)
            powers = np.log2(np.maximum(fits, 1)).astype(np.int64)
            ratios = 1 << np.minimum(powers, _MOST_SCALING)
    first, last = ((corner + ratios // 2) // ratios for corner in (begin, begin + extent))
    last = np.where(begin + extent == whole, -(-whole // ratios), last)
    columns: list[list[Any]] = [
        np.concatenate([begin, extent], axis=1).tolist(),
        ratios[:, 0].tolist(),
        np.concatenate([first, last - first], axis=1).tolist(),
        targets.tolist(),
        mirrored.tolist(),
    ]
    return [
        ImagePlan(tuple(box), ratio, tuple(scaled), tuple(target), flips)
        for box, ratio, scaled, target, flips in zip(*columns, strict=True)
    ]


def are_mirrored(keys: Keys) -> npt.NDArray[np.bool_]:
    """Whether the image of each key is mirrored, where images are: half of them."""
    return draw_uniforms(keys, count=1, purpose=1)[:, 0] < 0.5


def draw_uniforms(keys: Keys, *, count: int, purpose: int = 0) -> npt.NDArray[np.float64]:
    """`(images, count)` numbers in [0, 1) for each key, multiples of 2**-53, on every machine.

    The purpose, from 0, goes into the state, rather than along one sequence, which
    would overlap.
    """
    state = splitmix64(
        keys ^ splitmix64(np.zeros(1, np.uint64), np.array([purpose + 1], np.uint64))
    )
    bits = splitmix64(state[:, np.newaxis], np.arange(1, count + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _random_boxes(
    whole: Pairs, keys: Keys, area: tuple[float, float], aspect: tuple[float, float]
) -> tuple[Pairs, Pairs]:
    """Boxes of random shares of images, of random aspects, at random places: begin and extent.

    Of the first attempt that lies within the image; where none of ten does, as in a very long
    image, the middle with the nearest aspect.

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
    found = fits.any(axis=1)[:, np.newaxis]
    return np.where(found, begin, (whole - middle) // 2), np.where(found, extent, middle)


def boxes_of(features: Mapping[str, Feature]) -> list[str]:
    """The features that are sides of boxes."""
    return [name for name in _BOXES if name in features]


def check_followers(features: Mapping[str, Feature], options: "InputOptions") -> None:
    """Refuses features that cannot follow the images that they are read with, as a ConfigError."""
    boxes, chain = boxes_of(features), options.augmentation
    maps = [name for name, feature in features.items() if feature.extra.get("label_map")]
    is_whole = options.image_size is None or options.image.resize == "stretch"
    if boxes and (chain.crops or not is_whole):
        rule = "no boxes beside images that are cut or padded, which they do not fit"
        cure = "Set resize='stretch' without random_resized_crop, or leave these features out"
        raise ConfigError.of("features", boxes, allowed=rule, advice=cure)
    for one in (*chain.pixels, *chain.mixing):
        followers = boxes if one.name in ("rotation", "randaugment") else []
        if one.function or one in chain.mixing:
            followers = [*boxes, *maps]
        if followers:
            names = ", ".join(followers)
            rule = f"no {one.name!r} where {names} are read, which cannot follow their image"
            raise ConfigError.of("augment", options.augment, allowed=rule)
    if chain.flips and len({"xmin", "xmax"} & set(boxes)) == 1:
        rule = "both xmin and xmax or neither, since flip exchanges them"
        raise ConfigError.of("features", boxes, allowed=rule)


def mirror_boxes(
    left: npt.NDArray[Any], right: npt.NDArray[Any], is_mirrored: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Sides of boxes, `(boxes,)` from 0 to 1, mirrored where their images are."""
    return np.where(is_mirrored, 1 - right, left), np.where(is_mirrored, 1 - left, right)
