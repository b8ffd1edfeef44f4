"""A driver that adds properties to what a component is given, so that TFX's cache sees a change.

class ChangesDriver(PropertiesDriver):
    def resolve_exec_properties(self, exec_properties, *_): return {**exec_properties, "sum": …}
"""

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types, data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto.orchestration import driver_output_pb2

__all__ = ["PropertiesDriver"]


class PropertiesDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Serves both of TFX's ways to run a component.

    `run` is that of pipelines, and gives what `resolve_exec_properties`, that of notebooks, adds.
    """

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        given, nowhere = execution_info.exec_properties, data_types.PipelineInfo("", "")
        component = data_types.ComponentInfo("", "", nowhere)
        resolved = self.resolve_exec_properties(given, nowhere, component)
        output = driver_output_pb2.DriverOutput()
        for name, value in resolved.items() if resolved is not given else ():
            if value is not None:
                data_types_utils.set_metadata_value(output.exec_properties[name], value)
        return output
