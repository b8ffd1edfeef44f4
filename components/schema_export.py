"""SchemaExport: describe the contents of a dataset for TFX, Datum and others.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]      # for ExampleValidator, Transform, Trainer, Evaluator, …
schema.outputs["datum_dataset"]     # for Datum's load(uri), and for everybody else
"""

from typing import TYPE_CHECKING

from tfx import types
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.experimental import simple_artifacts

from components import steps
from components.runtime.component_settings import ExecProperties
from components.settings import SchemaExportSettings
from components.tfx.component import (
    Artifacts,
    DatasetComponent,
    channel,
    document_constructor,
    parameters_of,
    set_properties,
    uris_of,
)
from components.tfx.keywords import SchemaExportKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(base_executor.BaseExecutor):
    """Executor of SchemaExport."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Write the schema.

        Args:
            input_dict: `examples`: the Examples artifact; `schema`: TFX's Schema, optional;
                `statistics`: TFX's ExampleStatistics, optional.
            output_dict: `datum_schema`: the Schema artifact to fill, with only `schema.pbtxt`, as
                TFX's own components require; `datum_dataset`: the Dataset artifact, with that and
                all other files. If there is only the first, it gets all files.
            exec_properties: the settings, in the form of `SchemaExportSettings.to_properties`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        uris = uris_of(input_dict)
        artifacts = {
            n: artifact_utils.get_single_instance(group)
            for n, group in output_dict.items()
            if group
        }
        artifact = artifacts["datum_schema"]
        dataset = artifacts.get("datum_dataset", artifact)
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
    """A component that describes examples: `schema.pbtxt` for TFX, two JSON files for Datum.

    There are two outputs because TFX's components require a Schema whose folder has a single file,
    while Datum requires two files in one folder. Next to Datum's files is `example.schema.json`, a
    JSON Schema of the parsed example. Features that Datum cannot express are listed in the log and
    in the property `datum_limits`, with the fix.

    Outputs:
        datum_schema: TFX's `Schema`: only `schema.pbtxt`.
        datum_dataset: TFX's `Dataset`: that and all other files. Datum's `load` of its uri opens
            the shards of the examples.
    """

    SPEC_CLASS = SchemaExportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        **settings: "Unpack[SchemaExportKeywords]",
    ) -> None:
        """Create the component. `help(SchemaExport)` describes every argument."""
        inputs = {"examples": examples, "schema": schema, "statistics": statistics}
        super().__init__(SchemaExportSettings, inputs, settings)


document_constructor(
    SchemaExport,
    SchemaExportSettings,
    SchemaExportKeywords,
    examples="an Examples artifact written by tfx-shards, Datum or a stock ExampleGen.",
    schema="TFX's Schema of the examples. If the two disagree, the run fails and names the "
    "feature. Default: inferred from the examples.",
    statistics="TFX's ExampleStatistics of the examples. If the two disagree, the run fails and "
    "names the feature.",
)
