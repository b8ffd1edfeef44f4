"""The SchemaExport component: its interface.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]      # for ExampleValidator, Transform, Trainer, Evaluator, …
schema.outputs["datum_dataset"]     # for datum.load(uri), and for everybody else
"""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import component_spec, standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.common.checks import names_checked
from components.schema_export.executor import Executor

__all__ = ["SchemaExport"]


_Runtime = data_types.RuntimeParameter


class SchemaExportSpec(types.ComponentSpec):
    """The component's inputs and outputs."""

    PARAMETERS = {"tfds": component_spec.ExecutionParameter(type=int)}
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "statistics": component_spec.ChannelParameter(
            type=standard_artifacts.ExampleStatistics, optional=True
        ),
    }
    OUTPUTS = {
        "datum_schema": component_spec.ChannelParameter(type=standard_artifacts.Schema),
        "datum_dataset": component_spec.ChannelParameter(type=simple_artifacts.Dataset),
    }


class SchemaExport(base_component.BaseComponent):
    """Writes what an Examples artifact holds: `schema.pbtxt` for TFX, two JSON files for Datum.

    TFX's components take a Schema whose folder holds one file and no other, Datum wants two in
    one folder: hence two outputs. Beside Datum's is `example.schema.json`, a JSON Schema of the
    parsed example. What Datum cannot express is told in the log and in the property
    `datum_limits`, with the cure.

    Outputs:
        datum_schema: TFX's `Schema`: `schema.pbtxt` alone.
        datum_dataset: TFX's `Dataset`: that and all else. `datum.load` on its uri opens the shards
            of the examples.
    """

    SPEC_CLASS = SchemaExportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    @names_checked
    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        tfds: bool | _Runtime = False,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            schema: TFX's Schema of them; where the two disagree the run fails and names the
                feature. Default: made from the examples.
            statistics: TFX's ExampleStatistics of them; where the two disagree the run fails and
                names the feature.
            tfds: write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the
                uri of `datum_dataset`.
        """
        spec = SchemaExportSpec(
            examples=examples,
            schema=schema,
            statistics=statistics,
            tfds=int(tfds) if isinstance(tfds, bool) else tfds,
            datum_schema=types.Channel(type=standard_artifacts.Schema),
            datum_dataset=types.Channel(type=simple_artifacts.Dataset),
        )
        super().__init__(spec=spec)
