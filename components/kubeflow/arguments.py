"""The arguments of native components: their rules, in a pod and where a pipeline is compiled.

    check_constants("image_example_gen", {"input_base": "/photos", "layout": "foldr"})
    # ConfigError: image_example_gen: layout: expected one of …, got 'foldr'. Did you mean 'folder'?

Empty values mean "not set", since Kubeflow's parameters are never None. This module imports neither
kfp, TFX nor TensorFlow.
"""

from collections.abc import Mapping
from typing import Any

from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import SplitPattern
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.example_gen.split_rules import OWN_NAME, Partition, order_splits, whole_shares
from components.kubeflow.artifacts import check_dataset_root
from components.runtime.component_settings import ComponentSettings, is_text, without_empty
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import Json
from trainer_utils.core.settings import settings_of
from trainer_utils.format.naming import check_split_name

SETTINGS: Mapping[str, type[ComponentSettings]] = {
    "audio_example_gen": AudioSettings,
    "dataset_audit": AuditSettings,
    "dataset_report": DatasetReportSettings,
    "image_example_gen": ImageSettings,
    "schema_export": SchemaExportSettings,
    "shard_balancer": BalancerSettings,
    "text_example_gen": TextSettings,
}
"""The settings of each component that has any, by the component's name."""

_MAX_WHOLE = 2**53  # above it, float64 does not hold every whole number


def check_constants(component: str, given: Mapping[str, Any]) -> None:
    """Raise ConfigError for constants that fail in every run.

    If all settings are constants, they are also checked together.

    Args:
        component: the name of the component.
        given: its arguments by name. Values that only a run knows are ignored.

    Raises:
        ConfigError: the message names the component, the argument, its value and the remedy.
    """
    try:
        constants = {n: whole_numbers(n, value) for n, value in given.items() if is_constant(value)}
        _check_inputs(component, given, constants)
        if component in SETTINGS:
            _check_settings(SETTINGS[component], given, constants)
        check_dataset_root(constants.get("dataset_root") or "")
    except ConfigError as error:
        error.args = (f"{component}: {error.args[0]}{_advice(error)}",)
        raise


def _advice(error: ConfigError) -> str:
    """Return advice that holds only where a pipeline is compiled, not in its pods."""
    if error.setting != "layout" or "Did you mean" in error.args[0]:
        return ""
    return (
        ". If a package in the components' image has this layout, install the package here too, "
        "or make the layout a parameter of the pipeline"
    )


def is_constant(value: object) -> bool:
    """Return whether a value is known now, and is not a channel or contains a placeholder."""
    if isinstance(value, str):
        return "{{" not in value  # kfp's form of channels and placeholders in strings
    if isinstance(value, Mapping):
        return all(is_constant(part) for item in value.items() for part in item)
    if isinstance(value, (list, tuple)):
        return all(map(is_constant, value))
    return value is None or isinstance(value, (bool, int, float))


def _check_inputs(component: str, given: Mapping[str, Any], constants: Mapping[str, Any]) -> None:
    """Check the arguments of an ExampleGen that select inputs and splits."""
    if component == "input_fingerprint" and "input_base" in constants:
        _check_text("input_base", constants["input_base"])
    if component.endswith("example_gen") and is_constant(given.get("input_base")):
        check_input_base(constants.get("input_base"), has_source=given.get("source") is not None)
    split_patterns(constants.get("input_patterns"))
    if is_constant(given.get("splits")) and is_constant(given.get("split_by")):
        hashed_splits(constants.get("splits"), constants.get("split_by"))
    elif splits := constants.get("splits"):
        whole_shares(splits)


def _check_settings(
    kind: type[ComponentSettings], given: Mapping[str, Any], constants: Mapping[str, Any]
) -> None:
    declared = settings_of(kind)
    if by_split := constants.get("shards_by_split"):
        constants = {**constants, "num_shards": by_split}
    settings = {name: value for name, value in constants.items() if name in declared}
    known = without_empty(kind, settings)
    if declared.keys() & given.keys() <= settings.keys():
        kind.from_arguments(known)
        return
    for name, value in known.items():
        declared[name].check(value)


def check_input_base(base: object, *, has_source: bool) -> None:
    """Raise ConfigError unless an ExampleGen has a path or an artifact as its input."""
    if base:
        _check_text("input_base", base)
    if bool(base) != has_source:
        return
    count = "both" if base else "neither"
    raise ConfigError(
        f"input_base: expected a path here or an artifact as source, got {count}. "
        "Pass exactly one of input_base and source",
        setting="input_base",
        value=base,
        allowed="either input_base or source",
    )


def split_patterns(patterns: object) -> tuple[SplitPattern, ...]:
    """Return the patterns of files by split, in order; empty if none are given."""
    if not patterns:
        return ()
    if not isinstance(patterns, Mapping):
        rule = "patterns of files by split, such as {'train': 'train/*'}"
        raise ConfigError.of("input_patterns", patterns, allowed=rule)
    for split, pattern in patterns.items():
        check_split_name(split)
        _check_text(f"input_patterns[{split!r}]", pattern)
    return tuple(SplitPattern(split, patterns[split]) for split in order_splits(patterns, ()))


def hashed_splits(splits: object, split_by: object) -> Partition | None:
    """Return the splits that a hash assigns, from `splits` and `split_by`. None: no `splits`."""
    if not splits:
        if split_by:
            advice = "Pass the shares as well, such as splits={'train': 8, 'eval': 2}"
            raise ConfigError.of("split_by", split_by, allowed="'' without splits", advice=advice)
        return None
    if split_by:
        _check_text("split_by", split_by)
    shares = whole_shares(splits)
    buckets = tuple((name, shares[name]) for name in order_splits(shares, ()))
    return Partition(buckets, str(split_by or OWN_NAME))


def _check_text(name: str, value: object) -> None:
    if not is_text(value):
        raise ConfigError.of(name, value, allowed="a string that is not empty")


def step_settings(kind: type[ComponentSettings], given: Mapping[str, Json]) -> Any:
    """Check the given settings before any work, and return them."""
    known = without_empty(kind, {name: whole_numbers(name, value) for name, value in given.items()})
    kind.from_arguments(known)
    return kind.from_properties(kind.to_properties(known))


def whole_numbers(name: str, value: Any) -> Any:
    """Return an argument with whole numbers as int: Kubeflow stores all numbers as float64.

    Raises:
        ConfigError: a number is so large that float64 does not hold it exactly.
    """
    if isinstance(value, Mapping):
        return {key: whole_numbers(f"{name}[{key!r}]", part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole_numbers(f"{name}[{i}]", part) for i, part in enumerate(value)]
    if isinstance(value, (int, float)) and abs(value) >= _MAX_WHOLE:
        raise ConfigError.of(name, value, allowed="a number below 2^53, as float64 holds it")
    return int(value) if isinstance(value, float) and value.is_integer() else value
