"""SchemaExport: what a dataset holds, as TFX, Datum and others want it told.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]      # for ExampleValidator, Transform, Trainer, Evaluator, …
schema.outputs["datum_dataset"]     # for Datum's load(uri), and for everybody else
"""

from tfx import types
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.experimental import simple_artifacts

from components import steps
from components.common.settings import ExecProperties
from components.settings import SchemaExportSettings
from components.tfx.component import (
    Artifacts,
    DatasetComponent,
    Runtime,
    channel,
    document_constructor,
    parameters_of,
    set_properties,
    uris_of,
)


class Executor(base_executor.BaseExecutor):
    """Executor of SchemaExport."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Writes the schema.

        Args:
            input_dict: `examples`: the Examples artifact; `schema`: TFX's Schema, optional;
                `statistics`: TFX's ExampleStatistics, optional.
            output_dict: `datum_schema`: the Schema artifact to fill, with `schema.pbtxt` alone, as
                TFX's own components want it; `datum_dataset`: the Dataset artifact, with that and
                all else. Where there is only the first, all goes there.
            exec_properties: the settings, as `SchemaExportSettings` makes them.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        uris = uris_of(input_dict)
        made = {n: artifact_utils.get_single_instance(one) for n, one in output_dict.items() if one}
        artifact = made["datum_schema"]
        dataset = made.get("datum_dataset", artifact)
        exported = steps.export_schema(
            uris["examples"],
            dataset.uri,
            schema=uris.get("schema"),
            statistics=uris.get("statistics"),
            tfds=SchemaExportSettings.from_properties(exec_properties).tfds,
            schema_uri=artifact.uri,
        )
        for described in (artifact, dataset):
            set_properties(described, exported.properties)


class SchemaExportSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(SchemaExportSettings)
    INPUTS = {
        "examples": channel(standard_artifacts.Examples),
        "schema": channel(standard_artifacts.Schema, optional=True),
        "statistics": channel(standard_artifacts.ExampleStatistics, optional=True),
    }
    OUTPUTS = {
        "datum_schema": channel(standard_artifacts.Schema),
        "datum_dataset": channel(simple_artifacts.Dataset),
    }


class SchemaExport(DatasetComponent):
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

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        tfds: bool | Runtime = SchemaExportSettings.tfds,
    ) -> None:
        """`help(SchemaExport)` shows what each argument is."""
        super().__init__(SchemaExportSettings, locals())


document_constructor(
    SchemaExport,
    SchemaExportSettings,
    examples="an Examples artifact: ours, Datum's, or a stock ExampleGen's.",
    schema="TFX's Schema of them; where the two disagree the run fails and names the feature. "
    "Default: made from the examples.",
    statistics="TFX's ExampleStatistics of them; where the two disagree the run fails and names "
    "the feature.",
)
