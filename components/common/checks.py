"""Checks of settings, each naming the setting, its value and what is allowed.

check_number("seed", seed, -(2**63), 2**63 - 1)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.format import ConfigError

__all__ = ["COMPRESSIONS", "check_choice", "check_number", "known_now"]

COMPRESSIONS = ("none", "gzip")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuses a value that is none of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(map(str, choices))}, got {value!r}")


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
        raise ConfigError(f"{name}: expected {kind.__name__} {within}, got {value!r}")


def known_now(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose value is here, rather than a parameter that a run will fill in."""
    return {
        name: value
        for name, value in settings.items()
        if value is None or isinstance(value, (str, int, float, Mapping))
    }
