"""What the interfaces of the ExampleGens share.

class TextExampleGenSpec(FilesExampleGenSpec):
    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(TextSettings)}

class TextExampleGen(FilesExampleGen):
    SPEC_CLASS = TextExampleGenSpec
    __init__ = takes_settings(TextSettings)(FilesExampleGen.__init__)
"""

import os
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import component_spec, standard_artifacts

from components.common.component import Runtime, examples_channel
from components.common.settings import without_runtime_parameters
from components.example_gen.partition import read_output_config
from components.example_gen.tfx_properties import (
    INPUT_BASE,
    INPUT_CONFIG,
    OUTPUT_CONFIG,
    RANGE_CONFIG,
    all_files,
)
from trainer_utils.format import ConfigError

__all__ = ["TFX_PARAMETERS", "FilesExampleGen", "FilesExampleGenSpec"]

_parameter = component_spec.ExecutionParameter
TFX_PARAMETERS: dict[str, component_spec.ExecutionParameter] = {  # they mean what they mean there
    INPUT_BASE: _parameter(type=str),
    INPUT_CONFIG: _parameter(type=example_gen_pb2.Input),
    OUTPUT_CONFIG: _parameter(type=example_gen_pb2.Output),
    RANGE_CONFIG: _parameter(type=range_config_pb2.RangeConfig, optional=True),
    "custom_config": _parameter(type=example_gen_pb2.CustomConfig, optional=True),
}


class FilesExampleGenSpec(types.ComponentSpec):
    """The inputs and outputs of an ExampleGen over files; subclasses add their parameters."""

    PARAMETERS = TFX_PARAMETERS
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {"examples": examples_channel()}


class FilesExampleGen(base_beam_component.BaseBeamComponent):
    """An ExampleGen over files; subclasses name their spec and settings."""

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        custom_config: example_gen_pb2.CustomConfig | Runtime | None = None,
        output_data_format: int | None = None,
        output_file_format: int | None = None,
        **properties: Any,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, a table of images, sounds or texts (CSV, TSV, JSON lines,
                Parquet) or an archive; a local path or one in a bucket.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over each example's name (a file's,
                or a row's `id`) or, by `partition_feature_name`, over a column. Default: the splits
                that folders, files or rows name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            custom_config: TFX's: kept in the lineage, and read by nothing here.
            output_data_format: TFX's, of which FORMAT_TF_EXAMPLE is written.
            output_file_format: TFX's: FORMAT_TFRECORDS_GZIP is `compression="gzip"`. Default: as
                `compression` says.

        Raises:
            ConfigError: a setting is not allowed.
        """
        if isinstance(input_base, os.PathLike):
            input_base = os.fspath(input_base)
        for given in without_runtime_parameters({"input_base": input_base}).values():
            if not (given and isinstance(given, str)):
                raise ConfigError.of("input_base", given, allowed="a path or url")
        if isinstance(output_config, example_gen_pb2.Output):
            read_output_config(output_config)
        properties = _in_format(properties, output_data_format, output_file_format)
        spec = self.SPEC_CLASS(
            input_base=input_base,
            input_config=input_config or all_files(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=range_config,
            custom_config=custom_config,
            examples=types.Channel(type=standard_artifacts.Examples),
            **properties,
        )
        super().__init__(spec=spec)


def _in_format(
    properties: dict[str, Any], data_format: int | None, file_format: int | None
) -> dict[str, Any]:
    """The properties with what TFX's formats ask for.

    Raises:
        ConfigError: one is asked for that is not written.
    """
    if data_format not in (None, example_gen_pb2.FORMAT_TF_EXAMPLE):
        raise ConfigError.of("output_data_format", data_format, allowed="FORMAT_TF_EXAMPLE (6)")
    if file_format is None:
        return properties
    if file_format != example_gen_pb2.FORMAT_TFRECORDS_GZIP:
        raise ConfigError.of(
            "output_file_format", file_format, allowed="FORMAT_TFRECORDS_GZIP (5), or None"
        )
    return {**properties, "compression": "gzip"}
