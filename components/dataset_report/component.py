"""DatasetReport as a TFX component.

report = DatasetReport(examples=balanced.outputs["balanced_examples"])
report.outputs["report"]                # a folder with `report.html`, and no other file
"""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.common.component import channel, examples_channel, parameters_of, takes_settings
from components.dataset_report.executor import Executor
from components.dataset_report.settings import DatasetReportSettings

__all__ = ["DatasetReport"]


class DatasetReportSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(DatasetReportSettings)
    INPUTS = {
        "examples": examples_channel(),
        "statistics": channel(standard_artifacts.ExampleStatistics, optional=True),
        "schema": channel(standard_artifacts.Schema, optional=True),
    }
    OUTPUTS = {"report": channel(simple_artifacts.File)}


class DatasetReport(base_component.BaseComponent):
    """Writes one page of HTML that shows what is in an Examples artifact; it needs no network.

    Splits, shards and their balance, labels and how they shift between splits, pictures by class
    with their boxes and label maps, wave forms, texts, statistics of each feature, rejects,
    settings, lineage, and what will hurt a training. Kubeflow shows it as the artifact's page.

    Outputs:
        report: TFX's `File`: a folder with `report.html`.
    """

    SPEC_CLASS = DatasetReportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    @takes_settings(DatasetReportSettings)
    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        statistics: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        **properties: Any,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            statistics: TFX's ExampleStatistics of them, which the page shows beside its own.
            schema: TFX's Schema of them; where the two disagree the page says so.

        Raises:
            ConfigError: a setting is not allowed.
        """
        spec = DatasetReportSpec(
            examples=examples,
            statistics=statistics,
            schema=schema,
            report=types.Channel(type=simple_artifacts.File),
            **properties,
        )
        super().__init__(spec=spec)
