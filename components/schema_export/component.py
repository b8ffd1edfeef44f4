"""The SchemaExport component: its interface.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]      # for ExampleValidator, Transform, Trainer, Evaluator, …
schema.outputs["datum_dataset"]     # for Datum's load(uri), and for everybody else
"""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.common.component import channel, examples_channel, parameters_of, takes_settings
from components.schema_export.executor import Executor
from components.schema_export.settings import SchemaExportSettings

__all__ = ["SchemaExport"]


class SchemaExportSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(SchemaExportSettings)
    INPUTS = {
        "examples": examples_channel(),
        "schema": channel(standard_artifacts.Schema, optional=True),
        "statistics": channel(standard_artifacts.ExampleStatistics, optional=True),
    }
    OUTPUTS = {
        "datum_schema": channel(standard_artifacts.Schema),
        "datum_dataset": channel(simple_artifacts.Dataset),
    }


class SchemaExport(base_component.BaseComponent):
    """Writes what an Examples artifact holds: `schema.pbtxt` for TFX, two JSON files for Datum.

    TFX's components take a Schema whose folder holds one file and no other, Datum wants two in
    one folder: hence two outputs. Beside Datum's is `example.schema.json`, a JSON Schema of the
    parsed example. What Datum cannot express stands in the log and in the property
    `datum_limits`, with the cure.

    Outputs:
        datum_schema: TFX's `Schema`: `schema.pbtxt` alone.
        datum_dataset: TFX's `Dataset`: that and all else. Datum's `load` of its uri opens the
            shards of the examples.
    """

    SPEC_CLASS = SchemaExportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    @takes_settings(SchemaExportSettings)
    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        **properties: Any,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            schema: TFX's Schema of them; where the two disagree the run fails and names the
                feature. Default: made from the examples.
            statistics: TFX's ExampleStatistics of them; where the two disagree the run fails and
                names the feature.

        Raises:
            ConfigError: a setting is not allowed.
        """
        spec = SchemaExportSpec(
            examples=examples,
            schema=schema,
            statistics=statistics,
            datum_schema=types.Channel(type=standard_artifacts.Schema),
            datum_dataset=types.Channel(type=simple_artifacts.Dataset),
            **properties,
        )
        super().__init__(spec=spec)
