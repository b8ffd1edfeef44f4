"""A driver that adds properties to what a component is given, so that TFX's cache sees a change.

class ChangesDriver(PropertiesDriver):
    def resolve(self, exec_properties): return {**exec_properties, "sum": …}
"""

import abc

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types, data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto.orchestration import driver_output_pb2

from components.common.settings import ExecProperties


class PropertiesDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Serves both of TFX's ways to run a component: `run` is that of pipelines."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    @abc.abstractmethod
    def resolve(self, exec_properties: ExecProperties) -> ExecProperties:
        """The properties with others beside them; the same object where there are none."""

    def resolve_exec_properties(
        self,
        exec_properties: ExecProperties,
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> ExecProperties:
        """As `resolve`, for notebooks."""
        return self.resolve(exec_properties)

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        given = execution_info.exec_properties
        resolved = self.resolve(given)
        output = driver_output_pb2.DriverOutput()
        for name, value in resolved.items() if resolved is not given else ():
            if value is not None:
                data_types_utils.set_metadata_value(output.exec_properties[name], value)
        return output
