"""Declare and validate the operations of `augment=`.

chain = Augmentation.of(["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)])
chain.crops, chain.flips                        # True, True: done by the decoder
chain.pixels, chain.mixing                      # done by reading/augmenting.py
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainer_utils.core.errors import ConfigError, did_you_mean

Function = Callable[[Any, Any], Any]
Chain = str | Function | Sequence[Any] | None
"""The type of `augment=`: a name, a function, or a list of these and tuples `(name, number, …)`."""

CROP, FLIP = "random_resized_crop", "flip"
MIN_SIGMA = 0.1  # of a Gaussian, in pixels


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
    "blur": (_Number("sigma", 2, MIN_SIGMA, 32), _CHANCE),
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
    """One operation: its name in one spelling or a function's name, and its numbers in order."""

    name: str
    values: tuple[float, ...] = ()
    function: Function | None = None


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """A validated chain of operations.

    Args:
        crops: whether a random part of each image is decoded.
        flips: whether half of the images are mirrored when they are decoded.
        pixels: the operations on each decoded image, in order.
        mixing: the operations on pairs of rows, `mixup` and `cutmix`. One of them is drawn for each
            row.
    """

    crops: bool = False
    flips: bool = False
    pixels: tuple[Operation, ...] = ()
    mixing: tuple[Operation, ...] = ()

    @classmethod
    def of(cls, chain: Chain) -> "Augmentation":
        """Validate a chain as passed to `augment=`; `random_resized_crop` alone also mirrors.

        Raises:
            ConfigError: an operation is unknown, its numbers are invalid, or it is at the wrong
                place of the chain.
        """
        is_list = isinstance(chain, (list, tuple))
        entries: Sequence[Any] = chain if is_list else () if chain is None else (chain,)  # type: ignore[assignment]
        operations = [_operation(item) for item in entries]
        names = ["" if operation.function else operation.name for operation in operations]
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
        """Whether the resulting images depend on the seed."""
        return self.crops or self.flips or bool(self.pixels or self.mixing)


def _operation(entry: object) -> Operation:
    """Return the operation of a name, a tuple of a name and numbers, or a function."""
    if callable(entry):
        return Operation(getattr(entry, "__name__", repr(entry)), function=entry)
    name, *values = entry if isinstance(entry, (list, tuple)) and entry else (entry,)
    plain = _ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(plain, str) or plain not in _NUMBERS:
        raise ConfigError.of(
            "augment",
            entry,
            allowed=f"one of {', '.join(_NUMBERS)}, a function f(image, rng), or a list of "
            "these, a name alone or in a tuple with its numbers such as ('colour', 0.4)",
            advice=did_you_mean(name, NAMES).strip(),
        )
    numbers = _NUMBERS[plain]
    if len(values) > len(numbers):
        known = ", ".join(number.name for number in numbers) or "no numbers"
        advice = "crop_area= and crop_aspect= say which part" if plain == CROP else ""
        raise ConfigError.of("augment", entry, allowed=f"{known} after {name!r}", advice=advice)
    values += [number.default for number in numbers[len(values) :]]
    checked = [number.check(plain, v) for number, v in zip(numbers, values, strict=True)]
    return Operation(plain, tuple(checked))
