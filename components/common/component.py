"""A component's interface, made from its settings.

class SchemaExportSpec(types.ComponentSpec):
    PARAMETERS = parameters_of(SchemaExportSettings)

class SchemaExport(base_component.BaseComponent):
    @takes_settings(SchemaExportSettings)
    def __init__(self, examples: types.BaseChannel, **properties: Any) -> None: …
"""

import functools
import inspect
import operator
from collections.abc import Callable

from tfx.orchestration import data_types
from tfx.types import component_spec, standard_artifacts

from components.common.settings import ComponentSettings, add_settings, without_runtime_parameters
from components.common.tfx_files import register_object_stores
from trainer_utils.format import ConfigError
from trainer_utils.format.settings import Setting, settings_of
from trainer_utils.format.spelling import check_names

__all__ = ["Runtime", "channel", "examples_channel", "parameters_of", "takes_settings"]

Runtime = data_types.RuntimeParameter

register_object_stores()  # wherever a component is, its artifacts may lie in a bucket


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


def takes_settings(settings: type[ComponentSettings]) -> Callable[..., Callable[..., None]]:
    """Makes the arguments of a constructor, `**properties`, of a component's settings.

    The constructor's signature and docstring get every setting, with its default and sentence. Its
    body gets them checked, as execution properties. A setting may be given as a `RuntimeParameter`,
    or another value that only a run has.

    Raises:
        ConfigError: by the constructor: an argument is unknown, missing or not allowed.
    """

    def decorate(make: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(make)
        def construct(self: object, *arguments: object, **given: object) -> None:
            component = type(self).__name__
            check_names(component, given, names)
            try:
                signature.bind(self, *arguments, **given)
            except TypeError as error:
                raise ConfigError(f"{component}: expected {', '.join(names)}: {error}") from None
            values = {name: given.pop(name) for name in settings_of(settings) if name in given}
            settings.from_arguments(without_runtime_parameters(values))
            make(self, *arguments, **given, **settings.to_properties(values))

        add_settings(construct, make, settings, _parameter)
        signature = inspect.signature(construct)
        names = [name for name in signature.parameters if name != "self"]
        return construct

    return decorate


def _parameter(one: Setting) -> inspect.Parameter:
    """An argument of a constructor; of lists and mappings None stands for an empty one."""
    default = one.default if not one.is_collection else one.default or None
    nothing = [None] if default is None else []
    kind = functools.reduce(operator.or_, [*one.members, Runtime, *nothing])
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )
