"""What the interfaces of the ExampleGens share.

class TextExampleGenSpec(types.ComponentSpec):
    PARAMETERS = {**COMMON_PARAMETERS, "delimiter": optional(str)}
    INPUTS, OUTPUTS = {}, EXAMPLES
"""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from tfx import types
from tfx.components.example_gen import utils
from tfx.dsl.components.base import base_beam_component
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs

from components.common.checks import as_properties, known_now
from components.example_gen.partition import read_output_config
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.format import ConfigError

__all__ = ["COMMON_PARAMETERS", "EXAMPLES", "FilesExampleGen", "Runtime", "optional", "required"]

Runtime = data_types.RuntimeParameter


def required(kind: type | tuple[type, ...]) -> Any:
    """A parameter that always has a value, of the kind or one of them."""
    return component_spec.ExecutionParameter(type=kind)


def optional(kind: type) -> Any:
    """A parameter that may have none."""
    return component_spec.ExecutionParameter(type=kind, optional=True)


COMMON_PARAMETERS: dict[str, Any] = {  # the names that are TFX's mean what they mean there
    standard_component_specs.INPUT_BASE_KEY: required(str),
    standard_component_specs.INPUT_CONFIG_KEY: required(example_gen_pb2.Input),
    standard_component_specs.OUTPUT_CONFIG_KEY: required(example_gen_pb2.Output),
    standard_component_specs.RANGE_CONFIG_KEY: optional(range_config_pb2.RangeConfig),
    "layout": required(str),
    "columns": optional(str),
    "vocabulary": optional(str),
    "group_by": optional(str),
    "stratify": required(int),
    "seed": required(int),
    "target_shard_bytes": required(int),
    "compression": required(str),
    "max_reject_fraction": required((int, float)),  # 0 and 1, too
}
EXAMPLES: dict[str, Any] = {
    "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)
}


class FilesExampleGen(base_beam_component.BaseBeamComponent):
    """An ExampleGen over files; subclasses name their settings."""

    settings_class: ClassVar[type[ExampleGenSettings]]

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None,
        output_config: example_gen_pb2.Output | Runtime | None,
        range_config: range_config_pb2.RangeConfig | Runtime | None,
        settings: Mapping[str, Any],
    ) -> None:
        """Makes the component.

        Args:
            input_base, input_config, output_config, range_config: TFX's.
            settings: by name; those that are not known yet are runtime parameters.

        Raises:
            ConfigError: a setting is not allowed.
        """
        self.settings_class.from_arguments(known_now(settings))
        if isinstance(input_base, os.PathLike):
            input_base = os.fspath(input_base)
        for given in known_now({"input_base": input_base}).values():
            if not (given and isinstance(given, str)):
                raise ConfigError(f"input_base: expected a path or url, got {given!r}")
        if isinstance(output_config, example_gen_pb2.Output):
            read_output_config(output_config)
        spec = self.SPEC_CLASS(
            input_base=input_base,
            input_config=input_config or utils.make_default_input_config(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=range_config,
            examples=types.Channel(type=standard_artifacts.Examples),
            **as_properties(settings, json_names=self.settings_class.JSON_PROPERTIES),
        )
        super().__init__(spec=spec)
