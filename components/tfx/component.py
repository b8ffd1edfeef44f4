"""Code shared by the interfaces of all TFX components."""

import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, TypeAlias

from tfx import types
from tfx.dsl.components.base import base_component, base_node
from tfx.dsl.placeholder import placeholder
from tfx.orchestration import data_types
from tfx.types import artifact_utils, component_spec

from components.runtime.artifact_properties import SPLIT_NAMES, Properties
from components.runtime.component_settings import (
    RENAMED_SETTINGS,
    ComponentSettings,
    ExecProperties,
    with_new_names,
    without_runtime_parameters,
)
from components.tfx.files import register_object_stores
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import check_names, settings_of

Runtime: TypeAlias = data_types.RuntimeParameter | placeholder.Placeholder
"""A value that is only known when a pipeline runs."""
Artifacts: TypeAlias = dict[str, list[types.Artifact]]
"""Input or output artifacts of an executor, by the names of its inputs or outputs."""


def uris_of(artifacts: Artifacts) -> dict[str, str]:
    """Return the uri of the single artifact of each input or output that is given."""
    return {
        name: artifact_utils.get_single_uri(group) for name, group in artifacts.items() if group
    }


def channel(kind: type, *, optional: bool = False) -> component_spec.ChannelParameter:
    """Declare an input or output of a spec."""
    return component_spec.ChannelParameter(type=kind, optional=optional)


def parameters_of(
    settings: type[ComponentSettings],
) -> dict[str, component_spec.ExecutionParameter]:
    """Return the parameters of a spec, with the types that `to_properties` gives to settings."""
    parameters = {}
    # ML Metadata has no booleans, a float may be given as an int, and all else becomes a string.
    stored_types = {bool: (int,), int: (int,), float: (int, float)}
    for name, setting in settings_of(settings).items():
        types = [stored for kind in setting.kinds for stored in stored_types.get(kind, (str,))]
        first, *others = dict.fromkeys(types)
        parameters[name] = component_spec.ExecutionParameter(
            type=(first, *others) if others else first,
            optional=setting.is_optional or setting.is_collection,
        )
    return parameters


def checked_properties(
    settings: type[ComponentSettings], arguments: Mapping[str, Any]
) -> ExecProperties:
    """Check the settings among a constructor's arguments, and return them as execution properties.

    It also registers object stores with TFX, for schemes without a TFX file system. An argument may
    be a `RuntimeParameter`, or another value that is only known in a run.
    """
    register_object_stores()
    constants = {name: arguments[name] for name in settings_of(settings) if name in arguments}
    settings.from_arguments(without_runtime_parameters(constants))
    return settings.to_properties(constants)


def make_spec(
    kind: type[types.ComponentSpec],
    settings: type[ComponentSettings],
    inputs: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> types.ComponentSpec:
    """Return a component's spec.

    Args:
        kind: the class of the spec.
        settings: the class of the component's settings.
        inputs: a channel, or None, for each input that was passed.
        arguments: the settings that were passed.
    """
    for name, given in inputs.items():
        check_channel(name, given, kind.INPUTS[name])
    outputs = {name: types.Channel(type=channel.type) for name, channel in kind.OUTPUTS.items()}
    return kind(**inputs, **outputs, **checked_properties(settings, arguments))


def check_channel(name: str, given: Any, declared: component_spec.ChannelParameter) -> None:
    """Raise ConfigError if an input is not a channel; for a component, suggest its output."""
    if isinstance(given, types.BaseChannel) or (given is None and declared.optional):
        return
    outputs = getattr(given, "outputs", None)
    if isinstance(given, base_node.BaseNode) and isinstance(outputs, Mapping):
        fitting = [key for key, channel in outputs.items() if channel.type is declared.type] or [
            *outputs
        ]
        advice = " or ".join(f"{type(given).__name__}(…).outputs[{key!r}]" for key in fitting)
        raise ConfigError(
            f"{name}: expected a channel, got the component {given.id}. Pass its output: {advice}",
            setting=name,
        )
    advice = "Import a dataset into a pipeline with TFX's Importer, or run tfx-shards on the folder"
    rule = "an output of a component, such as ImageExampleGen(…).outputs['examples']"
    raise ConfigError.of(name, given, allowed=rule, advice=advice)


def document_constructor(
    component: type,
    settings: type[ComponentSettings],
    keywords: type[Mapping[str, object]],
    **arguments: str,
) -> None:
    """Show all arguments of a component's constructor in its signature and its docstring.

    It also makes the constructor suggest the intended name for an unknown one.

    Args:
        component: the component.
        settings: the class of the component's settings.
        keywords: the `TypedDict` of the constructor's keywords.
        arguments: the description of each argument that is not a setting.
    """
    wrapper = textwrap.TextWrapper(92, "    ", "        ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    sentences = arguments | {
        name: setting.sentence for name, setting in settings.described().items()
    }
    entries = "\n".join(wrapper.fill(f"{name}: {text}") for name, text in sentences.items())
    constructor: Any = component.__init__  # type: ignore[misc]
    signature = _full_signature(constructor, settings, keywords)
    names = [*signature.parameters][1:]
    constructor.__doc__ = f"{constructor.__doc__}\n\nArgs:\n{entries}"

    @functools.wraps(constructor)
    def construct(self: Any, *values: Any, **named: Any) -> None:
        if RENAMED_SETTINGS.keys() & named.keys():
            named = with_new_names(named)
        check_names(component.__name__, named, names)
        constructor(self, *values, **named)

    vars(construct)["__signature__"] = signature
    component.__init__ = construct  # type: ignore[misc]


def _full_signature(
    constructor: Any, settings: type[ComponentSettings], keywords: type[Mapping[str, object]]
) -> inspect.Signature:
    """Return a constructor's signature, with every keyword in place of `**settings`."""
    signature = inspect.signature(constructor)
    declared = settings_of(settings)
    named = []
    for name, kind in keywords.__annotations__.items():
        setting = declared.get(name)
        default = None if setting is None or setting.is_collection else setting.default
        named.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
        )
    return signature.replace(parameters=[*[*signature.parameters.values()][:-1], *named])


class DatasetComponent(base_component.BaseComponent):
    """A component that processes a dataset. Subclasses declare their constructor's signature."""

    def __init__(
        self,
        settings: type[ComponentSettings],
        inputs: Mapping[str, Any],
        arguments: Mapping[str, Any],
    ) -> None:
        super().__init__(spec=make_spec(self.SPEC_CLASS, settings, inputs, arguments))


def set_properties(artifact: types.Artifact, properties: Properties) -> None:
    """Set an artifact's properties, both TFX's own and custom ones."""
    for name, value in properties.items():
        if name == SPLIT_NAMES:
            artifact.split_names = value
        elif isinstance(value, int):
            artifact.set_int_custom_property(name, value)
        elif isinstance(value, dict):
            artifact.set_json_value_custom_property(name, value)
        else:
            artifact.set_string_custom_property(name, value)
