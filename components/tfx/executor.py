"""A TFX Beam executor that prefers local processes, and a driver that extends the cache key."""

import abc
import copy

import apache_beam as beam
from tfx.dsl.components.base import base_beam_executor, base_driver
from tfx.orchestration import data_types, data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto.orchestration import driver_output_pb2

from components.runtime.beam import make_pipeline, takes_package
from components.runtime.component_settings import ExecProperties
from components.runtime.runners import Runner, runner_of


class LocalFirstBeamExecutor(base_beam_executor.BaseBeamExecutor):
    """TFX's Beam executor. Without `--runner`, or with `DirectRunner`, everything runs locally."""

    def __init__(self, context: base_beam_executor.BaseBeamExecutor.Context | None = None) -> None:
        arguments = [
            str(argument) for argument in getattr(context, "beam_pipeline_args", None) or ()
        ]
        if context is None or not arguments or takes_package(arguments):
            super().__init__(context)
            return
        # Otherwise TFX would package itself for workers to install, which takes seconds each time.
        without = copy.copy(context)
        without.beam_pipeline_args = None
        super().__init__(without)
        self._context, self._beam_pipeline_args = context, [*arguments]

    def _runner(self, module: str) -> Runner:
        """Return a runner of local processes, or of Beam if requested; both import `module`."""
        arguments = [str(argument) for argument in self._beam_pipeline_args or ()]
        made_by = None if self._make_beam_pipeline_fn is None else self._make_beam_pipeline
        return runner_of(arguments, module=module, make_beam_pipeline=made_by)

    def _make_beam_pipeline(self) -> beam.Pipeline:
        if self._make_beam_pipeline_fn is not None:
            return self._make_beam_pipeline_fn()
        return make_pipeline([str(argument) for argument in self._beam_pipeline_args or ()])


class PropertiesDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """A driver for both of TFX's ways to run a component; pipelines call `run`."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    @abc.abstractmethod
    def resolve(self, exec_properties: ExecProperties, output: str = "") -> ExecProperties:
        """Return the properties with others added; the same object if there are no others.

        Args:
            exec_properties: the execution properties.
            output: the folder of the component's first output, or of the pipeline's outputs.
        """

    def resolve_exec_properties(
        self,
        exec_properties: ExecProperties,
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> ExecProperties:
        """Return the properties that `resolve` returns, for notebooks."""
        return self.resolve(exec_properties, getattr(pipeline_info, "pipeline_root", None) or "")

    def run(  # noqa: D102
        self, execution_info: portable_data_types.ExecutionInfo
    ) -> driver_output_pb2.DriverOutput:
        properties = execution_info.exec_properties
        outputs = execution_info.output_dict.values()
        uris = [artifact.uri for artifacts in outputs for artifact in artifacts]
        resolved = self.resolve(properties, *uris[:1])
        output = driver_output_pb2.DriverOutput()
        for name, value in resolved.items() if resolved is not properties else ():
            if value is not None:
                data_types_utils.set_metadata_value(output.exec_properties[name], value)
        return output
