"""Decides whether an ExampleGen may use its cache: any changed file makes a new fingerprint.

class TextExampleGenDriver(FileTreeDriver):
    unit, settings_class = "texts", TextSettings
    def is_source_file(self, path): return path.endswith(".csv")

TFX's own FileBasedDriver looks at what the pattern matches, which for folders of folders is just
the top ones, and at whole seconds of the modification time; and it brings all of TFX's components
with TensorFlow, ten seconds of every run. This one stands on TFX's core, and sets what that sets.

Source: tfx/components/example_gen/driver.py, whose interface this is.
"""

import copy
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ml_metadata.proto import metadata_store_pb2
from tfx import types
from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types, data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.proto.orchestration import driver_output_pb2
from tfx.utils import proto_utils

from components.common.settings import ExecProperties
from components.example_gen.inputs import LocatedInputs, fingerprint, locate, patterns_of
from components.example_gen.settings import ExampleGenSettings
from components.example_gen.tfx_properties import (
    EXAMPLES,
    FINGERPRINT,
    INPUT_BASE,
    INPUT_CONFIG,
    RANGE_CONFIG,
    SPAN,
    VERSION,
    resolve_patterns,
)

__all__ = ["FileTreeDriver"]


class FileTreeDriver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """TFX's driver of files, with a fingerprint of every nested file.

    It serves both of TFX's ways to run a component: `run` that of pipelines, the others that of
    notebooks.
    """

    unit: ClassVar[str]  # what the inputs are called, such as `images`
    settings_class: ClassVar[type[ExampleGenSettings]]

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""
        raise NotImplementedError

    def sees_siblings(self, settings: Any) -> bool:
        """Whether such a file may name others, which then count as inputs."""
        return True

    def resolve_exec_properties(  # noqa: D102
        self,
        exec_properties: ExecProperties,
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> ExecProperties:
        input_config = example_gen_pb2.Input()
        proto_utils.json_to_proto(exec_properties[INPUT_CONFIG], input_config)
        located = self._locate(exec_properties, input_config)
        resolve_patterns(input_config, located)
        exec_properties[INPUT_CONFIG] = proto_utils.proto_to_json(input_config)
        exec_properties[SPAN] = located.span
        exec_properties[VERSION] = located.version
        exec_properties[FINGERPRINT] = fingerprint(located)
        return exec_properties

    def _locate(
        self, exec_properties: ExecProperties, input_config: example_gen_pb2.Input
    ) -> LocatedInputs:
        range_config = None
        if exec_properties.get(RANGE_CONFIG):
            range_config = range_config_pb2.RangeConfig()
            proto_utils.json_to_proto(exec_properties[RANGE_CONFIG], range_config)
        settings = self.settings_class.from_properties(exec_properties)
        return locate(
            exec_properties[INPUT_BASE],
            patterns_of(input_config),
            range_config,
            image_roots=settings.image_roots,
            is_source_file=self.is_source_file,
            sees_siblings=self.sees_siblings(settings),
            unit=self.unit,
        )

    def _prepare_output_artifacts(
        self,
        input_artifacts: dict[str, list[types.Artifact]],
        output_dict: dict[str, types.Channel],
        exec_properties: ExecProperties,
        execution_id: int,
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, list[types.Artifact]]:
        artifact = output_dict[EXAMPLES].type()
        folder = os.path.join(str(pipeline_info.pipeline_root), component_info.component_id)
        artifact.uri = base_driver._generate_output_uri(folder, EXAMPLES, execution_id)
        _describe(artifact.mlmd_artifact, exec_properties)
        base_driver._prepare_output_paths(artifact)
        return {EXAMPLES: [artifact]}

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        nowhere = data_types.PipelineInfo("", "")
        exec_properties = self.resolve_exec_properties(
            execution_info.exec_properties, nowhere, data_types.ComponentInfo("", "", nowhere)
        )
        output = driver_output_pb2.DriverOutput()
        for name, value in exec_properties.items():
            if value is not None:
                data_types_utils.set_metadata_value(output.exec_properties[name], value)
        (examples,) = execution_info.output_dict[EXAMPLES]
        described = copy.deepcopy(examples.mlmd_artifact)
        _describe(described, exec_properties)
        output.output_artifacts[EXAMPLES].artifacts.append(described)
        return output


def _describe(
    artifact: metadata_store_pb2.Artifact, exec_properties: Mapping[str, str | int | None]
) -> None:
    artifact.custom_properties[FINGERPRINT].string_value = exec_properties[FINGERPRINT]
    artifact.custom_properties[SPAN].int_value = exec_properties[SPAN]
    if exec_properties[VERSION] is not None:
        artifact.custom_properties[VERSION].int_value = exec_properties[VERSION]
