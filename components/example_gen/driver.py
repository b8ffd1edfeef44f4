"""Decides whether an ExampleGen may use its cache: any changed file makes a new fingerprint.

class TextExampleGenDriver(FileTreeDriver):
    conversion_class = TextConversion

TFX's own FileBasedDriver looks at what the pattern matches, which for folders of folders is just
the top ones, and at whole seconds of the modification time; and it brings all of TFX's components
with TensorFlow, ten seconds of every run. This one stands on TFX's core, and sets what that sets.

Source: tfx/components/example_gen/driver.py, whose interface this is.
"""

import copy
import os
from typing import Any, ClassVar

from tfx import types
from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types, data_types_utils
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto.orchestration import driver_output_pb2

from components.common.driver import PropertiesDriver
from components.common.settings import ExecProperties
from components.example_gen.conversion import Conversion
from components.example_gen.inputs import fingerprint
from components.example_gen.tfx_properties import (
    EXAMPLES,
    FINGERPRINT,
    SPAN,
    VERSION,
    selection_of,
    with_spans,
)

__all__ = ["FileTreeDriver"]

_DESCRIBED = (FINGERPRINT, SPAN, VERSION)  # properties of the artifact too


class FileTreeDriver(PropertiesDriver):
    """TFX's driver of files, with a fingerprint of every nested file.

    Attributes:
        conversion_class: whose inputs are looked at, as the executor's conversion finds them.
    """

    conversion_class: ClassVar[type[Conversion[Any]]]

    def resolve(self, exec_properties: ExecProperties) -> ExecProperties:  # noqa: D102
        selection = selection_of(exec_properties)
        located = self.conversion_class.of(exec_properties, selection, None).located
        return {**with_spans(exec_properties, located), FINGERPRINT: fingerprint(located)}

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
        properties = artifact.mlmd_artifact.custom_properties
        for name in _DESCRIBED:
            if exec_properties[name] is not None:
                data_types_utils.set_metadata_value(properties[name], exec_properties[name])
        base_driver._prepare_output_paths(artifact)
        return {EXAMPLES: [artifact]}

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        output = super().run(execution_info)
        (examples,) = execution_info.output_dict[EXAMPLES]
        described = copy.deepcopy(examples.mlmd_artifact)
        for name in _DESCRIBED:
            if name in output.exec_properties:
                described.custom_properties[name].CopyFrom(output.exec_properties[name])
        output.output_artifacts[EXAMPLES].artifacts.append(described)
        return output
