"""What TFX's execution properties ask for, and what its driver would set: the one place for both.

selection = selection_of(exec_properties)
set_span(artifact, conversion.located, exec_properties)
"""

from tfx import types
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from components.common.settings import ExecProperties
from components.example_gen.inputs import InputSelection, LocatedInputs, patterns_of
from components.example_gen.partition import read_output_config

__all__ = ["selection_of", "set_span"]


def selection_of(exec_properties: ExecProperties) -> InputSelection:
    """What `input_base`, `input_config`, `range_config` and `output_config` mean.

    Raises:
        ConfigError: a split's name or share is not allowed.
    """
    input_config, output_config = example_gen_pb2.Input(), example_gen_pb2.Output()
    for key, message in (
        (standard_component_specs.INPUT_CONFIG_KEY, input_config),
        (standard_component_specs.OUTPUT_CONFIG_KEY, output_config),
    ):
        proto_utils.json_to_proto(exec_properties[key], message)
    range_config = None
    given = exec_properties.get(standard_component_specs.RANGE_CONFIG_KEY)
    if given and not _driver_ran(exec_properties):
        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    return InputSelection(
        base=exec_properties[standard_component_specs.INPUT_BASE_KEY],
        patterns=patterns_of(input_config),
        range_config=range_config,
        partition=read_output_config(output_config),
    )


def _driver_ran(exec_properties: ExecProperties) -> bool:
    """Whether TFX's driver has filled in spans; open-source Kubeflow runs none."""
    return exec_properties.get(utils.FINGERPRINT_PROPERTY_NAME) is not None


def set_span(
    artifact: types.Artifact, located: LocatedInputs, exec_properties: ExecProperties
) -> None:
    """Sets on the artifact what TFX's driver sets, where no driver ran."""
    if _driver_ran(exec_properties):
        return
    artifact.set_int_custom_property(utils.SPAN_PROPERTY_NAME, located.span)
    if located.version is not None:
        artifact.set_int_custom_property(utils.VERSION_PROPERTY_NAME, located.version)
