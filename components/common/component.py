"""What the interfaces of all components share.

class SchemaExportSpec(types.ComponentSpec):
    PARAMETERS = parameters_of(SchemaExportSettings)

class SchemaExport(base_component.BaseComponent):
    def __init__(self, examples, *, tfds: bool | Runtime = SchemaExportSettings.tfds) -> None:
        properties = checked_properties(SchemaExportSettings, locals())
"""

import json
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, component_spec, standard_artifacts

from components.common.settings import (
    ComponentSettings,
    ExecProperties,
    without_runtime_parameters,
)
from components.common.tfx_files import register_object_stores
from components.steps import Made
from trainer_utils.format.settings import Setting, settings_of

__all__ = [
    "Runtime",
    "channel",
    "checked_properties",
    "describe_artifact",
    "examples_channel",
    "parameters_of",
]

_MOST_PROPERTY_CHARACTERS = 64 << 10  # ML Metadata reads all properties whenever it reads one
_PAYLOAD_FORMAT = example_gen_pb2.PayloadFormat.Name(
    example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE
)
Runtime = data_types.RuntimeParameter


def channel(kind: type, *, optional: bool = False) -> component_spec.ChannelParameter:
    """An input or output of a spec."""
    return component_spec.ChannelParameter(type=kind, optional=optional)


def examples_channel() -> component_spec.ChannelParameter:
    """An input or output of TFX's `Examples`."""
    return channel(standard_artifacts.Examples)


def parameters_of(
    settings: type[ComponentSettings],
) -> dict[str, component_spec.ExecutionParameter]:
    """A spec's parameters: settings as `to_properties` makes them."""
    return {
        name: component_spec.ExecutionParameter(
            type=_property_types(one), optional=one.is_optional or one.is_collection
        )
        for name, one in settings_of(settings).items()
    }


def _property_types(one: Setting) -> type | tuple[type, ...]:
    """What an execution property may be; a float setting may be an int, such as 0 or 1."""
    held = {bool: (int,), int: (int,), float: (int, float), str: (str,)}
    types = dict.fromkeys(kind for one_kind in one.kinds for kind in held.get(one_kind, (str,)))
    return tuple(types) if len(types) > 1 else next(iter(types))


def checked_properties(
    settings: type[ComponentSettings], arguments: Mapping[str, Any]
) -> ExecProperties:
    """The settings among a constructor's arguments, checked, as execution properties.

    From here on TFX reads and writes object stores as all of this project does: wherever a
    component is used, its artifacts may lie in a bucket.

    Args:
        arguments: by name; others than settings are passed over. A setting may be a
            `RuntimeParameter`, or another value that only a run has.

    Raises:
        ConfigError: a setting is not allowed.
    """
    register_object_stores()
    given = {name: arguments[name] for name in settings_of(settings)}
    settings.from_arguments(without_runtime_parameters(given))
    return settings.to_properties(given)


def describe_artifact(
    artifact: types.Artifact,
    made: Made,
    *,
    gzip: bool,
) -> None:
    """Fills an Examples artifact's properties: splits, formats, accounting, vocabularies."""
    manifest = made.manifest
    artifact.split_names = artifact_utils.encode_split_names(list(manifest.splits))
    artifact.set_string_custom_property("payload_format", _PAYLOAD_FORMAT)
    if gzip:  # TFX knows no other file format by name; where none is named its readers look
        artifact.set_string_custom_property("file_format", "tfrecords_gzip")
    artifact.set_int_custom_property("num_shards", len(manifest.shards))
    for feature, values in made.vocabularies.items():
        text = json.dumps(values, ensure_ascii=False)
        if len(text) <= _MOST_PROPERTY_CHARACTERS:  # else it is in the file alone
            artifact.set_string_custom_property(f"vocabulary_{feature}", text)
    by_split = {f"{split}_": accounting for split, accounting in manifest.accounting.items()}
    for prefix, accounting in {"": manifest.total, **by_split}.items():
        for name in ("found", "written", "rejected", "skipped"):
            artifact.set_int_custom_property(prefix + name, getattr(accounting, name))
