"""Checks of settings, each naming the setting, its value and what is allowed.

check_number("seed", seed, -(2**63), 2**63 - 1)
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import check_names, did_you_mean

__all__ = [
    "COMPRESSIONS",
    "as_properties",
    "check_choice",
    "check_number",
    "known_now",
    "names_checked",
]

COMPRESSIONS = ("none", "gzip")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuses a value that is none of `choices`."""
    if value not in choices:
        allowed = f"one of {', '.join(map(str, choices))}"
        raise ConfigError.of(
            name, value, allowed=allowed, advice=did_you_mean(value, choices).strip()
        )


def check_number(
    name: str,
    value: object,
    least: float,
    most: float = float("inf"),
    *,
    kind: type[int] | type[float] = int,
) -> None:
    """Refuses a value of another type, or outside [least, most]."""
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not least <= value <= most:
        within = f"at least {least}" if most == float("inf") else f"from {least} to {most}"
        raise ConfigError.of(name, value, allowed=f"{kind.__name__} {within}")


def known_now(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are here, rather than parameters that only a run will fill in."""
    return {name: value for name, value in settings.items() if not _is_known_later(value)}


# What TFX puts in a value's place until the run, by module.
_LATER = {
    "tfx.orchestration.data_types": "RuntimeParameter",
    "tfx.dsl.placeholder.placeholder": "Placeholder",
    "tfx.types.channel": "BaseChannel",
}


def _is_known_later(value: object) -> bool:
    """Whether it is one of these; where TFX has not been imported, as in workers, there is none."""
    kinds = [getattr(sys.modules[m], kind) for m, kind in _LATER.items() if m in sys.modules]
    return isinstance(value, tuple(kinds))


def names_checked(constructor: Callable[..., None]) -> Callable[..., None]:
    """Makes a component's constructor say which argument is unknown or missing, and what was meant.

    Raises:
        ConfigError: in place of Python's own TypeError.
    """
    signature = inspect.signature(constructor)
    names = [name for name in signature.parameters if name != "self"]

    @functools.wraps(constructor)
    def checked(self: Any, *arguments: Any, **given: Any) -> None:
        component = type(self).__name__
        check_names(component, given, names)
        try:
            signature.bind(self, *arguments, **given)
        except TypeError as error:
            raise ConfigError(f"{component}: expected {', '.join(names)}: {error}") from None
        constructor(self, *arguments, **given)

    return checked


def as_properties(settings: Mapping[str, Any], *, json_names: Collection[str]) -> dict[str, Any]:
    """Settings as TFX's execution properties hold them: no booleans, lists or mappings.

    Args:
        settings: by name.
        json_names: those that are kept as JSON; None where there is nothing in them.
    """
    properties = {}
    for name, value in settings.items():
        if name in json_names and not _is_known_later(value):
            value = json.dumps(value, sort_keys=True) if value else None
        elif isinstance(value, bool):
            value = int(value)
        elif name == "max_reject_fraction" and isinstance(value, int):
            value = float(value)
        properties[name] = value
    return properties
