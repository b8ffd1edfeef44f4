"""Renders the page of `tfx-shards report` into an artifact."""

from absl import logging
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.common.publish import write_artifact
from components.common.settings import Artifacts, ExecProperties
from components.dataset_report.settings import DatasetReportSettings
from components.report.page import render_report
from trainer_utils.storage import join

__all__ = ["REPORT_FILE", "Executor"]

REPORT_FILE = "report.html"


class Executor(base_executor.BaseExecutor):
    """Executor of DatasetReport."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Writes the page.

        Args:
            input_dict: `examples`: the Examples artifact; `statistics`: TFX's ExampleStatistics,
                optional; `schema`: TFX's Schema, optional.
            output_dict: `report`: the artifact to fill, with `report.html`.
            exec_properties: the settings, as `DatasetReportSettings` makes them.

        Raises:
            DatasetError: the examples are no dataset, or the statistics none.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        settings = DatasetReportSettings.from_properties(exec_properties)
        target = artifact_utils.get_single_uri(output_dict["report"])
        page = render_report(
            artifact_utils.get_single_uri(input_dict["examples"]),
            sample_records=settings.sample_records,
            statistics=_optional_uri(input_dict, "statistics"),
            schema=_optional_uri(input_dict, "schema"),
        )
        write_artifact(target, {REPORT_FILE: page.encode()})
        logging.info("DatasetReport: %s", join(target, REPORT_FILE))


def _optional_uri(input_dict: Artifacts, name: str) -> str | None:
    return artifact_utils.get_single_uri(input_dict[name]) if input_dict.get(name) else None
