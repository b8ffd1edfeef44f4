"""Settings of a component, their form in TFX and Kubeflow, and the number of shards of a split.

SchemaExportSettings.to_properties({"tfds": True})       # {'tfds': 1}
SchemaExportSettings.from_properties({"tfds": 1})        # SchemaExportSettings(tfds=True)
"""

import dataclasses
import inspect
import json
import re
import sys
import warnings
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.core.settings import (
    NumberRule,
    Setting,
    Settings,
    groups_of,
    plain_paths,
    settings_of,
)
from trainer_utils.format import num_shards_for

_Settings = TypeVar("_Settings", bound="ComponentSettings")
RENAMED_SETTINGS = {"image_roots": "file_roots"}
"""New names of settings whose old names still work."""
COMPRESSIONS = ("none", "gzip")
ExecProperties: TypeAlias = dict[str, Any]
"""Execution properties by name: int, float, str or None, or a placeholder that a run fills in."""


def is_text(value: object) -> bool:
    """Return whether a value is a string that is not empty."""
    return isinstance(value, str) and bool(value)


def are_texts(value: object) -> bool:
    """Return whether a value is a list of strings that are not empty."""
    return isinstance(value, (list, tuple)) and all(map(is_text, value))


# An entry in the `Args` section of a docstring.
_ENTRY = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)
_JSON_STARTS = ('"', "[", "{")

# Types of the placeholders that TFX uses for values until the run, by module.
_RUNTIME_PARAMETERS = {
    "tfx.orchestration.data_types": "RuntimeParameter",
    "tfx.dsl.placeholder.placeholder": "Placeholder",
    "tfx.types.channel": "BaseChannel",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComponentSettings(Settings):
    """Base of a component's settings, which execution properties hold as plain values.

    TFX supports int, float and str. There, booleans are 0 and 1, and lists and mappings are JSON.
    """

    @classmethod
    def described(cls) -> dict[str, Setting]:
        """Return the settings by name, each with its description from the class's docstring."""
        kinds = [*(options for options, _ in groups_of(cls).values()), *reversed(cls.__mro__)]
        docs = "\n".join(inspect.cleandoc(kind.__doc__ or "") for kind in kinds)
        help_by_name = {
            match["name"]: " ".join(match["text"].split()) for match in _ENTRY.finditer(docs)
        }
        return {
            name: dataclasses.replace(setting, help=help_by_name.get(name, setting.help))
            for name, setting in settings_of(cls).items()
        }

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """Return the names of the settings that the component's constructor takes."""
        return tuple(settings_of(cls))

    @classmethod
    def from_arguments(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
        """Create settings from the constructor's arguments. Other arguments are ignored.

        None means the default of a list or mapping.
        """
        values = with_new_names(values)
        known = {
            name: values[name]
            for name, setting in settings_of(cls).items()
            if name in values
            and not (values[name] is None and setting.is_collection and not setting.is_optional)
        }
        groups = {
            field: options(**{name: known.pop(name) for name in names if name in known})
            for field, (options, names) in groups_of(cls).items()
        }
        return cls(**known, **groups)

    @classmethod
    def from_properties(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
        """Create settings from execution properties: ignore other keys, use defaults if missing."""
        values = with_new_names(values)
        present = {
            n: setting for n, setting in settings_of(cls).items() if values.get(n) is not None
        }
        return cls.from_arguments(
            {
                name: _from_property(setting, values[name])
                for name, setting in present.items()  # Kubeflow always passes every parameter
                if values[name] != "" or not (setting.is_optional or setting.is_collection)
            }
        )

    @classmethod
    def to_properties(cls, values: Mapping[str, Any]) -> ExecProperties:
        """Return execution properties of all settings, from the constructor's arguments.

        Args:
            values: arguments by name; placeholders that a run fills in stay.
        """
        return {
            name: _to_property(setting, values.get(name, setting.default))
            for name, setting in settings_of(cls).items()
        }

    def as_properties(self) -> ExecProperties:
        """Return these settings as execution properties."""
        holders = {
            name: getattr(self, field)
            for field, (_, names) in groups_of(type(self)).items()
            for name in names
        }
        return self.to_properties(
            {name: getattr(holders.get(name, self), name) for name in settings_of(type(self))}
        )


def with_new_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name. Old names of `RENAMED_SETTINGS` are replaced, with a warning."""
    renamed = dict(values)
    for old, new in RENAMED_SETTINGS.items():
        if renamed.get(old) in (None, "", (), []):
            renamed.pop(old, None)
            continue
        warnings.warn(f"{old}= was renamed to {new}=", FutureWarning, stacklevel=3)
        if renamed.get(new) not in (None, "", (), []):
            raise ConfigError.of(old, renamed[old], allowed=f"{new} alone")
        renamed[new] = renamed.pop(old)
    return renamed


def _to_property(setting: Setting, value: Any) -> Any:
    if _is_runtime_parameter(value):
        return value
    if setting.is_path:
        value = plain_paths(value)
    if setting.is_collection:
        return json.dumps(value, sort_keys=True) if value else None
    if isinstance(value, bool):
        return int(value)
    return float(value) if setting.kinds == (float,) else value


def _from_property(setting: Setting, value: Any) -> Any:
    if setting.is_collection and isinstance(value, str):
        if str in setting.kinds and not value.startswith(_JSON_STARTS):
            return value  # a string that did not pass through `_to_property`: a runtime parameter
        try:
            return json.loads(value)
        except ValueError as error:
            or_number = "a number or " if int in setting.kinds else ""
            raise ConfigError.of(setting.name, value, allowed=f"{or_number}JSON") from error
    if bool in setting.kinds and value in (0, 1):
        return bool(value)
    if int in setting.kinds and isinstance(value, float) and value.is_integer():
        return int(value)  # Kubeflow's numbers are float64
    return value


def without_empty(settings: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """Remove values from Kubeflow that are empty, or 0 or False for "not set"."""
    declared = settings_of(settings)
    return {
        name: value
        for name, value in values.items()
        if value not in ("", None, [], {})
        and (value or name not in declared or not declared[name].is_optional)
    }


def without_runtime_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are known before the run, without runtime parameters."""
    return {name: value for name, value in values.items() if not _is_runtime_parameter(value)}


def _is_runtime_parameter(value: object) -> bool:
    """Return whether a value is a runtime parameter; False if TFX is not imported."""
    kinds = [
        getattr(sys.modules[m], kind) for m, kind in _RUNTIME_PARAMETERS.items() if m in sys.modules
    ]
    return isinstance(value, tuple(kinds))


def shard_counts(name: str, value: object) -> object:
    """Check `num_shards`: a number of at least 1, or a mapping of split to number."""
    if not isinstance(value, Mapping):
        return NumberRule(1)(name, value)
    for split, shards in value.items():
        NumberRule(1)(f"{name}[{split!r}]", shards)
    return value


class Sharding:
    """Base of settings for the number and the compression of shards."""

    num_shards: int | Mapping[str, int] | None
    target_shard_bytes: int
    shard_multiple: int
    seed: int
    compression: str

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

    def check_splits(self, splits: Collection[str]) -> None:
        """Raise ConfigError if `num_shards` names a split that does not exist."""
        for split in self.num_shards if isinstance(self.num_shards, Mapping) else ():
            if split not in splits:
                text = f"num_shards[{split!r}]: expected one of the splits {', '.join(splits)}."
                raise ConfigError(f"{text}{did_you_mean(split, splits)}".removesuffix("."))

    def asked_shards(self, split: str) -> int | None:
        """Return the requested number of shards, rounded up to a multiple. None: by size."""
        asked = self.num_shards
        if isinstance(asked, Mapping):
            asked = asked.get(split)
        return None if asked is None else asked + -asked % self.shard_multiple

    def shards_of(self, split: str, *, num_records: int, num_bytes: int) -> int:
        """Return the number of shards of a split. No shard is empty unless the split is."""
        return num_shards_for(
            num_records=num_records,
            num_bytes=num_bytes,
            target_shard_bytes=self.target_shard_bytes,
            shard_multiple=self.shard_multiple,
            num_shards=self.asked_shards(split),
        )
