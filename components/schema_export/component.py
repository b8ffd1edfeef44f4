"""The SchemaExport component: its interface.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]
"""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.schema_export.executor import Executor

__all__ = ["SchemaExport"]


class SchemaExportSpec(types.ComponentSpec):
    """The component's inputs and output."""

    PARAMETERS: dict[str, Any] = {}
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "statistics": component_spec.ChannelParameter(
            type=standard_artifacts.ExampleStatistics, optional=True
        ),
    }
    OUTPUTS = {"datum_schema": component_spec.ChannelParameter(type=standard_artifacts.Schema)}


class SchemaExport(base_component.BaseComponent):
    """Writes what an Examples artifact holds: `schema.pbtxt` for TFX, two JSON files for Datum.

    `datum.load` on the output's own uri opens the shards of the examples.

    Outputs:
        datum_schema: TFX's `Schema`.
    """

    SPEC_CLASS = SchemaExportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            schema: TFX's Schema of them; where the two disagree the run fails and names the
                feature. Default: made from the examples.
            statistics: TFX's ExampleStatistics of them; the export then waits for these.
        """
        spec = SchemaExportSpec(
            examples=examples,
            schema=schema,
            statistics=statistics,
            datum_schema=types.Channel(type=standard_artifacts.Schema),
        )
        super().__init__(spec=spec)
