"""What a chain does to decoded pixels, by a record's key: to one image, or to rows in pairs.

    PixelChain(augmentation.pixels).apply(pixels, key)          # (height, width, 3) uint8
    Mixer(augmentation.mixing, ["image"], "label").mix(batch, keys)

Colours and sharpness are Pillow's, level by level, with which AutoAugment and RandAugment were
found; what moves pixels is OpenCV's, six times as fast (340 and 1,950 us for a rotation).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError
from trainer_utils.reading.augmentation import Operation
from trainer_utils.reading.decoding_threads import run_in_threads

if TYPE_CHECKING:
    from PIL import Image


Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
_Move = tuple[float, float, float, float, float, float]

_MIXES = 1  # beside the key; draws for one image have 0
_UNIFORMS = {"colour": 4, "rotation": 1, "grey": 1, "blur": 2, "cutout": 3}
_LEAST_SIGMA, _REACH = 0.1, 3  # of a Gaussian: what is beyond three deviations is 0.3% of it
_MAGNITUDES = 10  # AutoAugment's; larger ones, up to RandAugment's 30, go on along the same lines
_MOVING = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
RANDAUGMENT = (
    *("identity", "autocontrast", "equalize", "posterize", "solarize"),
    *("colour", "contrast", "brightness", "sharpness"),
    *_MOVING,
)
"""RandAugment's operations."""


class PixelChain:
    """The operations of a chain's `pixels`, one after the other."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._counts = [
            int(2 * one.values[0]) if one.name == "randaugment" else _UNIFORMS[one.name]
            for one in operations
            if not one.function
        ]

    def apply(self, pixels: Pixels, key: np.uint64, *, label_map: bool = False) -> Pixels:
        """Changes one image, `(height, width, channels) uint8`; equal keys change images alike.

        A `label_map`, of class ids, is moved as its image is; none are mixed, and what comes from
        outside is 0. A function of the chain that returns another shape or dtype is refused.
        """
        if not self._operations:
            return pixels
        rng = np.random.Generator(np.random.Philox(key=int(key)))
        # Drawn before anything is done, so that all draw the same who have the key.
        drawn = np.split(rng.random(sum(self._counts)), np.cumsum(self._counts)[:-1])
        uniforms = iter(drawn)
        for operation in self._operations:
            if operation.function:
                pixels = _by_function(operation, pixels, rng)
            else:
                own = next(uniforms).tolist()
                pixels = _changed(pixels, operation.name, operation.values, own, label_map)
        return pixels


def _by_function(operation: Operation, pixels: Pixels, rng: np.random.Generator) -> Pixels:
    assert operation.function is not None
    changed = operation.function(pixels.copy(), rng)  # which it may write into
    if getattr(changed, "dtype", None) != np.uint8 or changed.shape != pixels.shape:
        got = getattr(changed, "dtype", type(changed).__name__), getattr(changed, "shape", ())
        raise ConfigError.of(
            "augment",
            operation.name,
            allowed=f"a function that returns {pixels.shape} uint8, and not {got[1]} {got[0]}",
        )
    return np.asarray(changed)


def _changed(
    pixels: Pixels, name: str, values: Sequence[float], uniforms: Sequence[float], label_map: bool
) -> Pixels:
    """One operation on one image; on a label map only what moves."""
    if name == "randaugment":
        for chosen, way in zip(uniforms[::2], uniforms[1::2], strict=True):
            one = RANDAUGMENT[int(chosen * len(RANDAUGMENT))]
            sign = -1.0 if way < 0.5 else 1.0
            pixels = _randaugmented(pixels, one, sign * values[1] / _MAGNITUDES, label_map)
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
        return _blurred(pixels, _between(uniforms[1], _LEAST_SIGMA, values[0]))
    return _with_hole(pixels, values[0], uniforms[1:])


def _jittered(pixels: Pixels, strength: float, hue: float, uniforms: Sequence[float]) -> Pixels:
    """Brightness, contrast and colour by factors of 1 - strength to 1 + strength, then the hue.

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
    """Smoothed by a Gaussian; what is beyond an edge is as the edge."""
    import cv2

    side = 2 * math.ceil(_REACH * sigma) + 1
    smooth = cv2.GaussianBlur(pixels, (side, side), sigma, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(smooth, np.uint8).reshape(pixels.shape)


def _with_hole(pixels: Pixels, side: float, middle: Sequence[float]) -> Pixels:
    """Black in a square whose side is a share of the shorter one; parts of it may lie outside.

    Source: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", 2017.
    """
    length = round(side * min(pixels.shape[:2]))
    hole = tuple(
        slice(max(begin, 0), max(begin + length, 0))
        for extent, place in zip(pixels.shape, middle, strict=False)
        for begin in [int(place * extent) - length // 2]
    )
    cut = pixels.copy()
    cut[hole] = 0
    return cut


def _randaugmented(pixels: Pixels, name: str, level: float, label_map: bool) -> Pixels:
    """One of RandAugment's operations; `level` is the magnitude, of AutoAugment's ranges, and sign.

    Source: Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search
    space", 2019; the operations and their ranges are those of AutoAugment (Cubuk et al., 2018).
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
    """Counter-clockwise about the middle."""
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    y, x = ((extent - 1) / 2 for extent in pixels.shape[:2])
    return cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y


def _moved(pixels: Pixels, move: _Move, label_map: bool) -> Pixels:
    """What is at (x, y) comes from (a x + b y + c, d x + e y + f), counted from the first pixel."""
    import cv2

    method = cv2.INTER_NEAREST if label_map else cv2.INTER_LINEAR
    matrix: Any = np.reshape(move, (2, 3)).astype(np.float64)
    size = pixels.shape[1], pixels.shape[0]
    moved = cv2.warpAffine(pixels, matrix, size, flags=method | cv2.WARP_INVERSE_MAP)
    return np.asarray(moved, np.uint8).reshape(pixels.shape)


def _between(uniform: float, least: float, most: float) -> float:
    return least + (most - least) * uniform


@dataclasses.dataclass(frozen=True)
class Mixer:
    """Mixes rows of a batch, and a label of floats, by `mixup`, `cutmix`, or each by one of both.

    Row 0 is mixed with row 1 and row 1 with row 0, each by a weight of its own, then rows 2 and 3.
    What is shuffled well has no better partner than its neighbour; and a pair lies within one
    replica's rows, however many workers there are.
    """

    operations: Sequence[Operation]
    images: Sequence[str]
    label: str

    def mix(self, batch: Mapping[str, Array], keys: npt.NDArray[np.uint64]) -> dict[str, Array]:
        """The batch mixed: a row is its own by as much as its label says.

        `keys` are `(batch,)`, one for a record and epoch. A last row without a partner stays.
        """
        labels = batch[self.label]
        mixed = {name: np.empty_like(batch[name]) for name in (*self.images, self.label)}

        def mix_row(row: int) -> None:
            partner = min(row ^ 1, len(keys) - 1)
            rng = np.random.Generator(np.random.Philox(key=[int(keys[row]), _MIXES]))
            operation = self.operations[int(rng.random() * len(self.operations))]
            own = weight = rng.beta(operation.values[0], operation.values[0])
            middle = rng.random(2)
            for name in self.images:
                image, other = batch[name][row], batch[name][partner]
                if operation.name == "mixup":
                    mixed[name][row] = _mixed(image, other, weight)
                    continue
                box = _box(image.shape, weight, middle)
                mixed[name][row] = image
                mixed[name][row][box] = other[box]
                own = 1 - image[box].size / image.size
            mixed[self.label][row] = _mixed(labels[row], labels[partner], own)

        run_in_threads(mix_row, len(keys))
        return {**batch, **mixed}


def _mixed(own: Array, other: Array, weight: float) -> Array:
    """`own` by its weight, `other` by the rest; uint8 rounded.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.
    """
    floats = other.astype(np.float32)
    floats = floats + np.float32(weight) * (own.astype(np.float32) - floats)
    return (np.rint(floats) if own.dtype == np.uint8 else floats).astype(own.dtype)


def _box(shape: Sequence[int], weight: float, middle: Array) -> tuple[slice, ...]:
    """The part that is the other image's, by the share that a row keeps where it lies within.

    Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with
    Localizable Features", 2019.
    """
    bounds = []
    for extent, place in zip(shape, middle.tolist(), strict=False):
        half, centre = int(extent * (1 - weight) ** 0.5) // 2, int(place * extent)
        bounds.append(slice(max(centre - half, 0), centre + half))
    return tuple(bounds)
