"""DatasetReport: one HTML page that shows people the contents of a dataset.

report = DatasetReport(examples=balanced.outputs["balanced_examples"])
report.outputs["report"]                # a folder with `report.html`, and no other file
"""

from typing import TYPE_CHECKING

from tfx import types
from tfx.dsl.components.base import base_executor, executor_spec
from tfx.types import standard_artifacts
from tfx.types.experimental import simple_artifacts

from components import steps
from components.runtime.component_settings import ExecProperties
from components.settings import DatasetReportSettings
from components.tfx.component import (
    Artifacts,
    DatasetComponent,
    channel,
    document_constructor,
    parameters_of,
    uris_of,
)
from components.tfx.keywords import DatasetReportKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(base_executor.BaseExecutor):
    """Executor of DatasetReport."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Write the page.

        Args:
            input_dict: `examples`: the Examples artifact; `statistics`: TFX's ExampleStatistics,
                optional; `schema`: TFX's Schema, optional.
            output_dict: `report`: the artifact to fill, with `report.html`.
            exec_properties: the settings, in the form of `DatasetReportSettings.to_properties`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        uris = uris_of(input_dict)
        steps.report(
            uris["examples"],
            uris_of(output_dict)["report"],
            DatasetReportSettings.from_properties(exec_properties),
            statistics=uris.get("statistics"),
            schema=uris.get("schema"),
        )


class DatasetReportSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(DatasetReportSettings)
    INPUTS = {
        "examples": channel(standard_artifacts.Examples),
        "statistics": channel(standard_artifacts.ExampleStatistics, optional=True),
        "schema": channel(standard_artifacts.Schema, optional=True),
    }
    OUTPUTS = {"report": channel(simple_artifacts.File)}


class DatasetReport(DatasetComponent):
    """A component that writes one HTML page about an Examples artifact. It needs no network.

    The page shows splits, shards and their balance, labels and how they shift between splits,
    images by class with their boxes and label maps, waveforms, texts, and statistics of each
    feature. It also shows rejects, settings, lineage, and problems for training. Kubeflow shows it
    as the artifact's page.

    Outputs:
        report: TFX's `File`: a folder with `report.html`.
    """

    SPEC_CLASS = DatasetReportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        statistics: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        **settings: "Unpack[DatasetReportKeywords]",
    ) -> None:
        """Create the component. `help(DatasetReport)` describes every argument."""
        inputs = {"examples": examples, "statistics": statistics, "schema": schema}
        super().__init__(DatasetReportSettings, inputs, settings)


document_constructor(
    DatasetReport,
    DatasetReportSettings,
    DatasetReportKeywords,
    examples="an Examples artifact written by tfx-shards, Datum or a stock ExampleGen.",
    statistics="TFX's ExampleStatistics of the examples, which the page shows next to its own.",
    schema="TFX's Schema of the examples. The page reports where the two disagree.",
)
