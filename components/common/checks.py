"""Checks of settings, each naming the setting, its value and what is allowed.

check_number("seed", seed, -(2**63), 2**63 - 1)
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer_utils.format import ConfigError

__all__ = ["COMPRESSIONS", "as_properties", "check_choice", "check_number", "known_now"]

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
    """The settings that are given, and here, rather than parameters that a run will fill in."""
    return {
        name: value
        for name, value in settings.items()
        if value is not None and not _is_runtime_parameter(value)
    }


def _is_runtime_parameter(value: object) -> bool:
    """Whether it is one of TFX's; where TFX has not been imported, as in workers, there is none."""
    types = sys.modules.get("tfx.orchestration.data_types")
    return types is not None and isinstance(value, types.RuntimeParameter)


def as_properties(settings: Mapping[str, Any], *, json_names: Collection[str]) -> dict[str, Any]:
    """Settings as TFX's execution properties hold them: no booleans, lists or mappings.

    Args:
        settings: by name.
        json_names: those that are kept as JSON; None where there is nothing in them.
    """
    properties = {}
    for name, value in settings.items():
        if name in json_names and not _is_runtime_parameter(value):
            value = json.dumps(value, sort_keys=True) if value else None
        elif isinstance(value, bool):
            value = int(value)
        elif name == "max_reject_fraction" and isinstance(value, int):
            value = float(value)
        properties[name] = value
    return properties
