"""`Augmentation`: the operations of `augment=`, with their strengths, checked; no pixels here.

chain = Augmentation.of(["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)])
chain.crops, chain.flips    # True, True: the decoder's part
chain.pixels                # (Operation(name='colour', values=(0.4, 0.0)),); then chain.mixing
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean

Function = Callable[[Any, Any], Any]
Chain = str | Function | Sequence[Any] | None
"""What `augment=` takes: a name, a function, or a list of these and tuples `(name, number, …)`."""

CROP, FLIP = "random_resized_crop", "flip"


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
            raise ConfigError(
                f"augment, {operation!r}: expected {self.name} to be {self.kind.__name__} from "
                f"{self.least:g} to {self.most:g}, got {value!r}",
                setting="augment",
                value=value,
            )
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
_ONCE = (CROP, FLIP, *_MIXING)
NAMES = (*_NUMBERS, *_ALIASES)
"""Of all operations."""


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
        for name in _ONCE:
            if names.count(name) > 1:
                raise ConfigError.of("augment", chain, allowed=f"{name!r} at most once")
        _check_order(chain, names)
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

    @property
    def moves_pixels(self) -> tuple[str, ...]:
        """The operations after which what is in an image may be elsewhere, but for its decoding."""
        return tuple(
            one.name
            for one in self.pixels
            if one.function or one.name in ("rotation", "randaugment")
        )


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


def _check_order(chain: Chain, names: Sequence[str]) -> None:
    """Crops come with decoding, mixing with the batch; mirroring may stand anywhere before."""
    shown = [name or "a function" for name in names]
    for late, early, why in (
        ((CROP,), ("", *_PIXELS), "since only that part is decoded"),
        ({"", *_NUMBERS} - {*_MIXING}, _MIXING, "which mixes batches"),
    ):
        first = next((n for n, name in enumerate(names) if name in early), len(names))
        for place in range(first + 1, len(names)):
            if names[place] in late:
                rule = f"{shown[place]!r} before {shown[first]!r}, {why}"
                raise ConfigError.of("augment", chain, allowed=rule)
