"""What TFX's execution properties ask for, and what its driver would set: the one place for both.

selection = selection_of(exec_properties)
set_span(artifact, conversion.located, exec_properties)

The names are those of tfx.types.standard_component_specs and tfx.components.example_gen.utils,
which bring TensorFlow and every component of TFX.
"""

from tfx import types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.utils import proto_utils

from components.common.settings import ExecProperties
from components.example_gen.inputs import ALL_FILES, InputSelection, LocatedInputs, patterns_of
from components.example_gen.partition import read_output_config

FINGERPRINT = "input_fingerprint"


def all_files() -> example_gen_pb2.Input:
    """TFX's default `input_config`: all files, in one split."""
    splits = [example_gen_pb2.Input.Split(name=n, pattern=pattern) for n, pattern in ALL_FILES]
    return example_gen_pb2.Input(splits=splits)


def selection_of(exec_properties: ExecProperties) -> InputSelection:
    """What `input_base`, `input_config`, `range_config` and `output_config` mean.

    Raises:
        ConfigError: a split's name or share is not allowed.
    """
    input_config, output_config = example_gen_pb2.Input(), example_gen_pb2.Output()
    for key, message in (("input_config", input_config), ("output_config", output_config)):
        proto_utils.json_to_proto(exec_properties[key], message)
    range_config = None
    given = exec_properties.get("range_config")
    if given and not _driver_ran(exec_properties):
        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    return InputSelection(
        base=exec_properties["input_base"],
        patterns=patterns_of(input_config),
        range_config=range_config,
        partition=read_output_config(output_config),
    )


def _driver_ran(exec_properties: ExecProperties) -> bool:
    """Whether TFX's driver has filled in spans; open-source Kubeflow runs none."""
    return exec_properties.get(FINGERPRINT) is not None


def set_span(
    artifact: types.Artifact, located: LocatedInputs, exec_properties: ExecProperties
) -> None:
    """Sets on the artifact what TFX's driver sets, where no driver ran."""
    if _driver_ran(exec_properties):
        return
    artifact.set_int_custom_property("span", located.span)
    if located.version is not None:
        artifact.set_int_custom_property("version", located.version)


def with_spans(exec_properties: ExecProperties, located: LocatedInputs) -> ExecProperties:
    """The properties with spans filled in as TFX's driver does it, where no driver ran."""
    if _driver_ran(exec_properties):
        return exec_properties
    input_config = example_gen_pb2.Input()
    proto_utils.json_to_proto(exec_properties["input_config"], input_config)
    for split, resolved in zip(input_config.splits, located.patterns, strict=True):
        split.pattern = resolved.pattern
    return {
        **exec_properties,
        "input_config": proto_utils.proto_to_json(input_config),
        "span": located.span,
        "version": located.version,
    }
