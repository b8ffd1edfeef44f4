"""The shared part of the ExampleGens as TFX components: interface, driver, executor.

Names of properties are copied from tfx.types.standard_component_specs, which imports TensorFlow.
"""

import copy
import functools
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_beam_component
from tfx.orchestration import data_types_utils
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.proto.orchestration import driver_output_pb2
from tfx.types import artifact_utils, component_spec, standard_artifacts
from tfx.utils import proto_utils

from components import steps
from components.example_gen.input_selection import (
    ALL_FILES,
    InputSelection,
    LocatedInputs,
    fingerprint,
    patterns_of,
)
from components.example_gen.settings import ExampleGenSettings
from components.example_gen.split_rules import read_output_config, whole_shares
from components.runtime.component_settings import ExecProperties, without_runtime_parameters
from components.runtime.workspace import kept_from_launcher
from components.tfx.component import Artifacts, channel, checked_properties, set_properties
from components.tfx.executor import LocalFirstBeamExecutor, PropertiesDriver
from trainer_utils.core.errors import ConfigError
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.storage import join

FINGERPRINT = "input_fingerprint"
_DESCRIBED = (FINGERPRINT, "span", "version")  # also properties of the artifact
_parameter = component_spec.ExecutionParameter
TFX_PARAMETERS: dict[str, component_spec.ExecutionParameter] = {  # same meaning as in TFX
    "input_base": _parameter(type=str),
    "input_config": _parameter(type=example_gen_pb2.Input),
    "output_config": _parameter(type=example_gen_pb2.Output),
    "range_config": _parameter(type=range_config_pb2.RangeConfig, optional=True),
}

TFX_ARGUMENTS = {
    "input_base": (
        "a folder, a table of images, audio files or text (CSV, TSV, JSON lines, Parquet) or an "
        "archive, on a local path or in a bucket."
    ),
    "input_config": (
        "file patterns by split, as in TFX. The folders below a pattern's literal part are "
        "classes. Patterns may contain {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all "
        "files."
    ),
    "output_config": (
        "splits and their shares, as in TFX. Examples are assigned by a hash of their name, or of "
        "the column `partition_feature_name`. Default: the splits that folders, files or rows "
        "name, else train and eval 2:1."
    ),
    "range_config": "the span to read, as in TFX. Default: the latest.",
    "splits": (
        "shares of the splits, assigned by a hash: relative, such as {'train': 8, 'eval': 2}, or "
        "adding up to 1, such as {'train': 0.8, 'eval': 0.2}. Short for an `output_config` with "
        "the same splits."
    ),
}


def all_files() -> example_gen_pb2.Input:
    """Return TFX's default `input_config`: all files, in one split."""
    splits = [example_gen_pb2.Input.Split(name=n, pattern=pattern) for n, pattern in ALL_FILES]
    return example_gen_pb2.Input(splits=splits)


def selection_of(exec_properties: ExecProperties) -> InputSelection:
    """Parse `input_base`, `input_config`, `range_config` and `output_config`."""
    given = exec_properties.get("range_config") if not _driver_ran(exec_properties) else None
    output_config = _message(example_gen_pb2.Output, exec_properties["output_config"])
    return InputSelection(
        base=exec_properties["input_base"],
        patterns=patterns_of(_message(example_gen_pb2.Input, exec_properties["input_config"])),
        range_config=_message(range_config_pb2.RangeConfig, given) if given else None,
        partition=read_output_config(output_config),
    )


def _message(kind: type[Any], text: str | None) -> Any:
    message = kind()
    if text:
        proto_utils.json_to_proto(text, message)
    return message


def _driver_ran(exec_properties: ExecProperties) -> bool:
    """Return whether TFX's driver has filled in spans; open-source Kubeflow runs no driver."""
    return exec_properties.get(FINGERPRINT) is not None


def with_spans(exec_properties: ExecProperties, located: LocatedInputs) -> ExecProperties:
    """Return the properties with spans filled in, as TFX's driver does, unless it already ran."""
    if _driver_ran(exec_properties):
        return exec_properties
    input_config = _message(example_gen_pb2.Input, exec_properties["input_config"])
    for split, resolved in zip(input_config.splits, located.patterns, strict=True):
        split.pattern = resolved.pattern
    return {
        **exec_properties,
        "input_config": proto_utils.proto_to_json(input_config),
        "span": located.span,
        "version": located.version,
    }


class FilesExampleGenSpec(types.ComponentSpec):
    """The inputs and outputs of an ExampleGen for files. Subclasses add their parameters."""

    PARAMETERS = TFX_PARAMETERS
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {"examples": channel(standard_artifacts.Examples)}


class FilesExampleGen(base_beam_component.BaseBeamComponent):
    """An ExampleGen for files. Subclasses declare their constructor's signature."""

    def __init__(self, settings: type[ExampleGenSettings], arguments: Mapping[str, Any]) -> None:
        base = arguments["input_base"]
        base = os.fspath(base) if isinstance(base, os.PathLike) else base
        for given in without_runtime_parameters({"input_base": base}).values():
            if not (given and isinstance(given, str)):
                raise ConfigError.of("input_base", given, allowed="a path or url")
        output_config = _output_config(arguments)
        spec = self.SPEC_CLASS(
            input_base=base,
            input_config=arguments.get("input_config") or all_files(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=arguments.get("range_config"),
            examples=types.Channel(type=standard_artifacts.Examples),
            **checked_properties(settings, arguments),
        )
        super().__init__(spec=spec)


def _output_config(arguments: Mapping[str, Any]) -> Any:
    """Return TFX's `output_config` as given, or create it from `splits`."""
    given, splits = arguments.get("output_config"), arguments.get("splits")
    if splits is not None:
        if given is not None:
            rule = "None where output_config is given"
            raise ConfigError.of("splits", splits, allowed=rule)
        config = example_gen_pb2.SplitConfig()
        for name, share in whole_shares(splits).items():
            config.splits.add(name=name, hash_buckets=share)
        return example_gen_pb2.Output(split_config=config)
    if isinstance(given, example_gen_pb2.Output):
        read_output_config(given)
    return given


class FileTreeDriver(PropertiesDriver):
    """TFX's driver for files, with a fingerprint of every nested file, so that any change is seen.

    TFX's own driver only checks the paths that the pattern matches, which are top-level folders for
    nested inputs, at a resolution of whole seconds. It also imports all of TFX's components, which
    takes ten seconds of every run.

    Source: tfx/components/example_gen/driver.py, which has the same interface.
    """

    settings_class: ClassVar[type[ExampleGenSettings]]

    def resolve(self, exec_properties: ExecProperties, output: str = "") -> ExecProperties:
        """Return the properties with spans and the fingerprint of the inputs filled in.

        Args:
            exec_properties: the execution properties.
            output: the folder of the examples, or of all outputs, which must not be an input.
        """
        settings = self.settings_class.from_properties(exec_properties)
        conversion = steps.conversion_of(selection_of(exec_properties), settings)
        if output:
            conversion.refuse_output(output, setting="pipeline_root")
        located, settings_files = conversion.located, conversion.digest_of_files
        digest = fingerprint(located)
        if settings_files:
            digest += f",{settings_files}"
        return {**with_spans(exec_properties, located), FINGERPRINT: digest}

    def _prepare_output_artifacts(
        self,
        input_artifacts: dict[str, list[types.Artifact]],
        output_dict: dict[str, types.Channel],
        exec_properties: ExecProperties,
        *others: Any,
        **named: Any,
    ) -> dict[str, list[types.Artifact]]:
        """Override TFX's method for notebooks, as its own FileBasedDriver does."""
        outputs = super()._prepare_output_artifacts(
            input_artifacts, output_dict, exec_properties, *others, **named
        )
        properties = outputs["examples"][0].mlmd_artifact.custom_properties
        for name in _DESCRIBED:
            if exec_properties[name] is not None:
                data_types_utils.set_metadata_value(properties[name], exec_properties[name])
        return outputs

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        output = super().run(execution_info)
        (examples,) = execution_info.output_dict["examples"]
        described = copy.deepcopy(examples.mlmd_artifact)
        for name in _DESCRIBED:
            if name in output.exec_properties:
                described.custom_properties[name].CopyFrom(output.exec_properties[name])
        output.output_artifacts["examples"].artifacts.append(described)
        return output


class ExampleGenExecutor(LocalFirstBeamExecutor):
    """The executor that converts inputs to a dataset: plan, check, write, publish.

    Attributes:
        settings_class: the class whose fields are among the execution properties.
    """

    settings_class: ClassVar[type[ExampleGenSettings]]

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Convert the inputs.

        Args:
            input_dict: empty.
            output_dict: `examples`: the Examples artifact to fill.
            exec_properties: `input_base`, `input_config`, `output_config`, `range_config` as in
                TFX's FileBasedExampleGen, and the fields of the settings. Spans are resolved here
                unless TFX's driver has filled them in.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        artifact = artifact_utils.get_single_instance(output_dict["examples"])
        settings = self.settings_class.from_properties(exec_properties)
        runner = self._runner(steps.workers_module(settings))
        with kept_from_launcher(artifact.uri), runner:
            result = steps.convert(
                selection_of(exec_properties),
                artifact.uri,
                settings,
                runner=runner,
                describe=functools.partial(with_spans, exec_properties),
            )
        if result.manifest.total.rejected:  # TFX shows only warnings
            logging.warning(
                "%s: %s. %s names each.",
                result.manifest.producer,
                result.manifest.total,
                join(artifact.uri, REJECTS_FILE),
            )
        set_properties(artifact, result.properties)
        if not _driver_ran(exec_properties):  # the driver sets these too
            artifact.set_int_custom_property("span", result.located.span)
            if result.located.version is not None:
                artifact.set_int_custom_property("version", result.located.version)
