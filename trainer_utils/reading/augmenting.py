"""Apply the operations of `augment=` to decoded pixels.

    pixels = change_pixels(chain, pixels, key)                # (height, width, 3) uint8
    batch = mix_rows(chain, batch, keys, ["image"], "label")  # rows in pairs

Pillow changes colours and sharpness. AutoAugment and RandAugment were developed with it, so levels
match. OpenCV moves pixels, six times as fast as Pillow (340 and 1,950 us for a rotation).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError
from trainer_utils.options.augmentation import MIN_SIGMA, Augmentation
from trainer_utils.runtime.threads import run_in_threads

if TYPE_CHECKING:
    from PIL import Image

Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
_Move = tuple[float, float, float, float, float, float]

_MIXES = 1  # the second word of the generator's key; it is 0 for draws for one image
_UNIFORMS = {"colour": 4, "rotation": 1, "grey": 1, "blur": 2, "cutout": 3}
_REACH = 3  # deviations of a Gaussian; 0.3% of it is beyond
_MAGNITUDES = 10  # AutoAugment's maximum; larger ones, up to RandAugment's 30, are extrapolated
_MOVING = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
RANDAUGMENT = (
    *("identity", "autocontrast", "equalize", "posterize", "solarize"),
    *("colour", "contrast", "brightness", "sharpness"),
    *_MOVING,
)
"""The operations of RandAugment."""


def _count_draws(chain: Augmentation) -> list[int]:
    """Return the number of random numbers that each built-in operation on pixels draws."""
    return [
        int(2 * operation.values[0])
        if operation.name == "randaugment"
        else _UNIFORMS[operation.name]
        for operation in chain.pixels
        if not operation.function
    ]


def change_pixels(
    chain: Augmentation, pixels: Pixels, key: np.uint64, *, label_map: bool = False
) -> Pixels:
    """Change one image; equal keys change images alike.

    Args:
        chain: the validated operations.
        pixels: `(height, width, channels) uint8`.
        key: the seed of the image's random numbers.
        label_map: whether the pixels are class ids. They are moved like their image, never
            interpolated, and 0 where they come from outside the image.

    Raises:
        ConfigError: a function of the chain returned another shape or dtype.
    """
    if not chain.pixels:
        return pixels
    rng = np.random.Generator(np.random.Philox(key=int(key)))
    # Draw before any change, so that all features with the same key use the same numbers.
    counts = _count_draws(chain)
    drawn = iter(np.split(rng.random(sum(counts)), np.cumsum(counts)[:-1]))
    for name, values, function in chain.pixels:
        if not function:
            pixels = _changed(pixels, name, values, next(drawn).tolist(), label_map)
            continue
        changed = function(pixels.copy(), rng)  # the function may modify its copy
        if getattr(changed, "dtype", None) != np.uint8 or changed.shape != pixels.shape:
            got = getattr(changed, "dtype", type(changed).__name__), getattr(changed, "shape", ())
            rule = f"a function that returns {pixels.shape} uint8, and not {got[1]} {got[0]}"
            raise ConfigError.of("augment", name, allowed=rule)
        pixels = np.asarray(changed)
    return pixels


def mix_rows(
    chain: Augmentation,
    batch: Mapping[str, Array],
    keys: npt.NDArray[np.uint64],
    images: Sequence[str],
    label: str,
) -> dict[str, Array]:
    """Mix the rows of a batch in pairs, with labels mixed in the same proportion.

    Row 0 is mixed with row 1 and row 1 with row 0, each with its own weight, then rows 2 and 3.
    In shuffled data the next row is as good a partner as any. A pair is always within the rows
    of one replica, for any number of workers. A last row without a partner is unchanged.

    Args:
        chain: the validated operations.
        batch: the arrays by name.
        keys: `(batch,) uint64`, one for each record and epoch.
        images: the names of the image features.
        label: the name of the label, an array of floats.
    """
    mixed = {name: np.empty_like(batch[name]) for name in (*images, label)}

    def mix_row(row: int) -> None:
        """Mix a row with its partner, the other row of the pair, by mixup or CutMix."""
        partner = min(row ^ 1, len(keys) - 1)
        rng = np.random.Generator(np.random.Philox(key=[int(keys[row]), _MIXES]))
        operation = chain.mixing[int(rng.random() * len(chain.mixing))]
        share = weight = rng.beta(operation.values[0], operation.values[0])
        middle = rng.random(2).tolist()
        for name in images:
            image, other = batch[name][row], batch[name][partner]
            if operation.name == "mixup":
                mixed[name][row] = _mixed(image, other, weight)
                continue
            # Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers
            # with Localizable Features", 2019.
            halves = [int(side * (1 - weight) ** 0.5) // 2 for side in image.shape[:2]]
            box = _box(image.shape, [2 * half for half in halves], middle)
            mixed[name][row] = image
            mixed[name][row][box] = other[box]
            share = 1 - image[box].size / image.size
        mixed[label][row] = _mixed(batch[label][row], batch[label][partner], share)

    run_in_threads(mix_row, len(keys))
    return {**batch, **mixed}


def _changed(
    pixels: Pixels, name: str, values: Sequence[float], uniforms: Sequence[float], label_map: bool
) -> Pixels:
    """Apply one operation to one image; only operations that move pixels change a label map."""
    if name == "randaugment":
        for chosen, way in zip(uniforms[::2], uniforms[1::2], strict=True):
            operation = RANDAUGMENT[int(chosen * len(RANDAUGMENT))]
            sign = -1.0 if way < 0.5 else 1.0
            pixels = _randaugmented(pixels, operation, sign * values[1] / _MAGNITUDES, label_map)
        return pixels
    if name == "rotation":
        degrees = _between(uniforms[0], -values[0], values[0])
        return _moved(pixels, _rotation(pixels, degrees), label_map)
    if label_map:
        return pixels
    if name == "colour":
        return _jittered(pixels, values[0], values[1], uniforms)
    if uniforms[0] >= values[-1]:
        return pixels
    if name == "grey":
        return _by_pillow(pixels, lambda image: image.convert("L").convert(image.mode))
    if name == "blur":
        return _blurred(pixels, _between(uniforms[1], MIN_SIGMA, values[0]))
    return _with_hole(pixels, values[0], uniforms[1:])


def _jittered(pixels: Pixels, strength: float, hue: float, uniforms: Sequence[float]) -> Pixels:
    """Change brightness, contrast and colour by factors of 1 ± strength, then the hue.

    Source: Howard, "Some Improvements on Deep Convolutional Neural Network Based Image
    Classification", 2013.
    """
    import cv2
    from PIL import ImageEnhance

    def jitter(image: "Image.Image") -> "Image.Image":
        kinds = ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color
        for kind, uniform in zip(kinds, uniforms, strict=False):
            image = kind(image).enhance(_between(uniform, 1 - strength, 1 + strength))
        return image

    if strength:
        pixels = _by_pillow(pixels, jitter)
    if hue and pixels.shape[-1] == 3:
        floats = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
        floats[..., 0] = (floats[..., 0] + 360 * _between(uniforms[3], -hue, hue)) % 360
        pixels = np.rint(cv2.cvtColor(floats, cv2.COLOR_HSV2RGB) * 255).astype(np.uint8)
    return pixels


def _blurred(pixels: Pixels, sigma: float) -> Pixels:
    """Blur an image with a Gaussian; pixels beyond an edge equal the edge."""
    import cv2

    side = 2 * math.ceil(_REACH * sigma) + 1
    smooth = cv2.GaussianBlur(pixels, (side, side), sigma, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(smooth, np.uint8).reshape(pixels.shape)


def _with_hole(pixels: Pixels, side: float, middle: Sequence[float]) -> Pixels:
    """Blacken a square whose side is a share of the shorter one; it may exceed the image.

    Source: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", 2017.
    """
    length = round(side * min(pixels.shape[:2]))
    cut = pixels.copy()
    cut[_box(pixels.shape, (length, length), middle)] = 0
    return cut


def _randaugmented(pixels: Pixels, name: str, level: float, label_map: bool) -> Pixels:
    """Apply one of RandAugment's operations; `level` is the signed magnitude divided by 10.

    Source: Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search
    space", 2019. Operations and ranges come from AutoAugment (Cubuk et al., 2018).
    """
    from PIL import ImageEnhance, ImageOps

    height, width = pixels.shape[:2]
    slope, shift = 0.3 * level, 0.45 * level
    if name == "identity" or (label_map and name not in _MOVING):
        return pixels
    if name in _MOVING:
        moves: dict[str, _Move] = {
            "rotate": _rotation(pixels, 30 * level),
            "shear_x": (1, slope, slope / 2, 0, 1, 0),
            "shear_y": (1, 0, 0, slope, 1, slope / 2),
            "translate_x": (1, 0, round(shift * width), 0, 1, 0),
            "translate_y": (1, 0, 0, 0, 1, round(shift * height)),
        }
        return _moved(pixels, moves[name], label_map)
    factor, strength = max(1 + 0.9 * level, 0), abs(level)
    changes: dict[str, Callable[[Image.Image], Image.Image]] = {
        "autocontrast": ImageOps.autocontrast,
        "equalize": ImageOps.equalize,
        "posterize": lambda image: ImageOps.posterize(image, max(8 - round(4 * strength), 1)),
        "solarize": lambda image: ImageOps.solarize(image, max(math.ceil(256 * (1 - strength)), 0)),
        "colour": lambda image: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda image: ImageEnhance.Contrast(image).enhance(factor),
        "brightness": lambda image: ImageEnhance.Brightness(image).enhance(factor),
        "sharpness": lambda image: ImageEnhance.Sharpness(image).enhance(factor),
    }
    return _by_pillow(pixels, changes[name])


def _by_pillow(pixels: Pixels, change: "Callable[[Image.Image], Image.Image]") -> Pixels:
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return np.asarray(change(image), np.uint8).reshape(pixels.shape)


def _rotation(pixels: Pixels, degrees: float) -> _Move:
    """Return a counter-clockwise rotation about the centre."""
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    y, x = ((extent - 1) / 2 for extent in pixels.shape[:2])
    return cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y


def _moved(pixels: Pixels, move: _Move, label_map: bool) -> Pixels:
    """Move pixels: (x, y) gets the pixel at (a x + b y + c, d x + e y + f) of the input."""
    import cv2

    method = cv2.INTER_NEAREST if label_map else cv2.INTER_LINEAR
    matrix: Any = np.reshape(move, (2, 3)).astype(np.float64)
    size = pixels.shape[1], pixels.shape[0]
    moved = cv2.warpAffine(pixels, matrix, size, flags=method | cv2.WARP_INVERSE_MAP)
    return np.asarray(moved, np.uint8).reshape(pixels.shape)


def _between(uniform: float, least: float, most: float) -> float:
    return least + (most - least) * uniform


def _mixed(image: Array, other: Array, weight: float) -> Array:
    """Return weight * own + (1 - weight) * other, rounded if uint8.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.
    """
    floats = other.astype(np.float32)
    floats = floats + np.float32(weight) * (image.astype(np.float32) - floats)
    return (np.rint(floats) if image.dtype == np.uint8 else floats).astype(image.dtype)


def _box(
    shape: Sequence[int], lengths: Sequence[int], middle: Sequence[float]
) -> tuple[slice, ...]:
    """Return the part of a box around a centre that is within the image; `middle` is in shares."""
    places = zip(shape, lengths, middle, strict=False)
    sides = [(int(share * extent) - length // 2, length) for extent, length, share in places]
    return tuple(slice(max(begin, 0), max(begin + length, 0)) for begin, length in sides)
