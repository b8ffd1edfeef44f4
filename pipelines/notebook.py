"""What a notebook shows of our components' artifacts: their report, in the cell below.

    from pipelines.notebook import register_visualizations

    register_visualizations()
    context.run(images)
    context.show(images.outputs["examples"])        # context is TFX's InteractiveContext

TFX has visualizations of statistics, schemas and anomalies, and none of examples.
"""

import html
import os

from IPython.display import HTML, display
from tfx.orchestration.experimental.interactive import visualizations
from tfx.types import Artifact, standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.report.page import render_report
from components.steps import REPORT_FILE
from trainer_utils.storage import exists, join, read_text

_SAMPLE_RECORDS = 200  # of each split
_HEIGHT = 640  # pixels


class _ExamplesVisualization(visualizations.ArtifactVisualization):
    """The report of an Examples artifact."""

    ARTIFACT_TYPE = standard_artifacts.Examples

    def display(self, artifact: Artifact) -> str:
        return _show(render_report(artifact.uri, sample_records=_SAMPLE_RECORDS)[0])


class _ReportVisualization(visualizations.ArtifactVisualization):
    """The page that DatasetReport wrote; of another File its name."""

    ARTIFACT_TYPE = simple_artifacts.File

    def display(self, artifact: Artifact) -> str:
        path = join(artifact.uri, REPORT_FILE)
        return _show(read_text(path) if exists(path) else html.escape(os.fspath(artifact.uri)))


def register_visualizations() -> None:
    """Lets `InteractiveContext.show` show Examples artifacts and what DatasetReport wrote."""
    registry = visualizations.get_registry()
    registry.register(_ExamplesVisualization)
    registry.register(_ReportVisualization)


def _show(page: str) -> str:
    """In a frame of its own, so that the page's styles are its own; it may run nothing."""
    attributes = f'width="100%" height="{_HEIGHT}"'
    frame = f'<iframe sandbox srcdoc="{html.escape(page)}" {attributes}></iframe>'
    display(HTML(frame))
    return frame
