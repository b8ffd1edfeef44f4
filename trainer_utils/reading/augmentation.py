"""`Augmentation`: the operations of `augment=`, checked, and what each does to decoded pixels.

    chain = Augmentation.of(["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)])
    chain.crops, chain.flips                        # True, True: the decoder's part
    chain.change(pixels, key)                       # colours; (height, width, 3) uint8
    chain.mix(batch, keys, ["image"], "label")      # rows in pairs

Colours and sharpness are Pillow's, level by level, with which AutoAugment and RandAugment were
found; what moves pixels is OpenCV's, six times as fast (340 and 1,950 us for a rotation).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.machine import run_in_threads

if TYPE_CHECKING:
    from PIL import Image


Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
Function = Callable[[Any, Any], Any]
Chain = str | Function | Sequence[Any] | None
"""What `augment=` takes: a name, a function, or a list of these and tuples `(name, number, …)`."""
_Move = tuple[float, float, float, float, float, float]

CROP, FLIP = "random_resized_crop", "flip"
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


class _Number(NamedTuple):
    name: str
    default: float
    least: float
    most: float
    kind: type[int] | type[float] = float

    def check(self, operation: str, value: Any) -> float:
        kinds = (int, float) if self.kind is float else (int,)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not is_number or not self.least <= value <= self.most:
            rule = f"{self.kind.__name__} from {self.least:g} to {self.most:g}"
            rule = f"the {self.name} of {operation!r} to be {rule}"
            raise ConfigError.of("augment", value, allowed=rule)
        return self.kind(value)


_CHANCE = _Number("probability", 0.5, 0, 1)
_PIXELS = {
    "colour": (_Number("strength", 0.4, 0, 1), _Number("hue", 0, 0, 0.5)),
    "rotation": (_Number("degrees", 15, 0, 180),),
    "grey": (_CHANCE._replace(default=0.1),),
    "blur": (_Number("sigma", 2, 0.1, 32), _CHANCE),
    "cutout": (_Number("side", 0.25, 0, 1), _CHANCE._replace(default=1)),
    "randaugment": (_Number("num_ops", 2, 0, 14, int), _Number("magnitude", 9, 0, 30)),
}
_MIXING = {
    "mixup": (_Number("alpha", 0.2, 0.01, 100),),
    "cutmix": (_Number("alpha", 1, 0.01, 100),),
}
_NUMBERS: dict[str, tuple[_Number, ...]] = {CROP: (), FLIP: (), **_PIXELS, **_MIXING}
_ALIASES = {"color": "colour", "rotate": "rotation", "gray": "grey"}
NAMES = (*_NUMBERS, *_ALIASES)


class Operation(NamedTuple):
    """`colour` and so on, in one spelling, or the name of a function; its numbers, in order."""

    name: str
    values: tuple[float, ...] = ()
    function: Function | None = None


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """A chain in the order in which it is carried out.

    Args:
        crops: a random part of each image is decoded.
        flips: half of the images are mirrored, as they are decoded.
        pixels: what is then done to each image.
        mixing: what is done to rows of a batch: `mixup`, `cutmix` or, for each row one of, both.
    """

    crops: bool = False
    flips: bool = False
    pixels: tuple[Operation, ...] = ()
    mixing: tuple[Operation, ...] = ()

    @classmethod
    def of(cls, chain: Chain) -> "Augmentation":
        """That of a chain as `augment=` takes it; `random_resized_crop` alone mirrors too.

        Raises:
            ConfigError: there is no such operation, it has other numbers, or it cannot stand there.
        """
        is_list = isinstance(chain, (list, tuple))
        given: Sequence[Any] = chain if is_list else () if chain is None else (chain,)  # type: ignore[assignment]
        operations = [_operation(one) for one in given]
        names = ["" if one.function else one.name for one in operations]
        for name in (CROP, FLIP, *_MIXING):
            if names.count(name) > 1:
                raise ConfigError.of("augment", chain, allowed=f"{name!r} at most once")
        for early, late in itertools.combinations(names, 2):
            is_mixed = early in _MIXING and late not in _MIXING
            if is_mixed or (late == CROP and early not in (FLIP, *_MIXING)):
                first, second = (name or "a function" for name in (late, early))
                why = "which mixes batches" if is_mixed else "since only that part is decoded"
                rule = f"{first!r} before {second!r}, {why}"
                raise ConfigError.of("augment", chain, allowed=rule)
        return cls(
            crops=CROP in names,
            flips=FLIP in names or chain == CROP,
            pixels=tuple(o for o in operations if o.function or o.name in _PIXELS),
            mixing=tuple(o for o in operations if not o.function and o.name in _MIXING),
        )

    @property
    def is_random(self) -> bool:
        """Whether an image comes out otherwise with another seed."""
        return self.crops or self.flips or bool(self.pixels or self.mixing)

    @functools.cached_property
    def _draws(self) -> list[int]:
        """How many numbers each operation on pixels draws, which are no functions."""
        return [
            int(2 * one.values[0]) if one.name == "randaugment" else _UNIFORMS[one.name]
            for one in self.pixels
            if not one.function
        ]

    def change(self, pixels: Pixels, key: np.uint64, *, label_map: bool = False) -> Pixels:
        """Changes one image, `(height, width, channels) uint8`; equal keys change images alike.

        A `label_map`, of class ids, is moved as its image is; none are mixed, and what comes from
        outside is 0. A function of the chain that returns another shape or dtype is refused.
        """
        if not self.pixels:
            return pixels
        rng = np.random.Generator(np.random.Philox(key=int(key)))
        # Drawn before anything is done, so that all draw the same who have the key.
        drawn = iter(np.split(rng.random(sum(self._draws)), np.cumsum(self._draws)[:-1]))
        for name, values, function in self.pixels:
            if not function:
                pixels = _changed(pixels, name, values, next(drawn).tolist(), label_map)
                continue
            made = function(pixels.copy(), rng)  # which it may write into
            if getattr(made, "dtype", None) != np.uint8 or made.shape != pixels.shape:
                got = getattr(made, "dtype", type(made).__name__), getattr(made, "shape", ())
                rule = f"a function that returns {pixels.shape} uint8, and not {got[1]} {got[0]}"
                raise ConfigError.of("augment", name, allowed=rule)
            pixels = np.asarray(made)
        return pixels

    def mix(
        self,
        batch: Mapping[str, Array],
        keys: npt.NDArray[np.uint64],
        images: Sequence[str],
        label: str,
    ) -> dict[str, Array]:
        """A batch whose rows are mixed: a row is its own by as much as its label of floats says.

        Row 0 is mixed with row 1 and row 1 with row 0, each by a weight of its own, then rows 2 and
        3. What is shuffled well has no better partner than its neighbour; and a pair lies within
        one replica's rows, however many workers there are. A last row without a partner stays.
        `keys` are `(batch,)`, one for a record and epoch.
        """
        mixed = {name: np.empty_like(batch[name]) for name in (*images, label)}

        def mix_row(row: int) -> None:
            partner = min(row ^ 1, len(keys) - 1)
            rng = np.random.Generator(np.random.Philox(key=[int(keys[row]), _MIXES]))
            operation = self.mixing[int(rng.random() * len(self.mixing))]
            own = weight = rng.beta(operation.values[0], operation.values[0])
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
                own = 1 - image[box].size / image.size
            mixed[label][row] = _mixed(batch[label][row], batch[label][partner], own)

        run_in_threads(mix_row, len(keys))
        return {**batch, **mixed}


def _operation(given: object) -> Operation:
    if callable(given):
        return Operation(getattr(given, "__name__", repr(given)), function=given)
    name, *values = given if isinstance(given, (list, tuple)) and given else (given,)
    plain = _ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(plain, str) or plain not in _NUMBERS:
        raise ConfigError.of(
            "augment",
            given,
            allowed=f"one of {', '.join(_NUMBERS)}, a function f(image, rng), or a list of "
            "these, a name alone or in a tuple with its numbers such as ('colour', 0.4)",
            advice=did_you_mean(name, NAMES).strip(),
        )
    numbers = _NUMBERS[plain]
    if len(values) > len(numbers):
        known = ", ".join(number.name for number in numbers) or "no numbers"
        advice = "crop_area= and crop_aspect= say which part" if plain == CROP else ""
        raise ConfigError.of("augment", given, allowed=f"{known} after {name!r}", advice=advice)
    values += [number.default for number in numbers[len(values) :]]
    checked = [number.check(plain, v) for number, v in zip(numbers, values, strict=True)]
    return Operation(plain, tuple(checked))


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
    cut = pixels.copy()
    cut[_box(pixels.shape, (length, length), middle)] = 0
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


def _mixed(own: Array, other: Array, weight: float) -> Array:
    """`own` by its weight, `other` by the rest; uint8 rounded.

    Source: Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.
    """
    floats = other.astype(np.float32)
    floats = floats + np.float32(weight) * (own.astype(np.float32) - floats)
    return (np.rint(floats) if own.dtype == np.uint8 else floats).astype(own.dtype)


def _box(
    shape: Sequence[int], lengths: Sequence[int], middle: Sequence[float]
) -> tuple[slice, ...]:
    """As many rows and columns about a place, shares of the whole, as lie within the image."""
    places = zip(shape, lengths, middle, strict=False)
    sides = [(int(share * extent) - length // 2, length) for extent, length, share in places]
    return tuple(slice(max(begin, 0), max(begin + length, 0)) for begin, length in sides)
