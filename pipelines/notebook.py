"""Show the artifacts of our components in a notebook, as a report in the output of the cell.

    from pipelines.notebook import register_visualizations

    register_visualizations()
    context.run(images)
    context.show(images.outputs["examples"])        # context is TFX's InteractiveContext

TFX itself has visualizations of statistics, schemas and anomalies, but not of examples.
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

_SAMPLE_RECORDS = 200  # per split
_HEIGHT = 640  # pixels


class _ExamplesVisualization(visualizations.ArtifactVisualization):
    """The report of an Examples artifact."""

    ARTIFACT_TYPE = standard_artifacts.Examples

    def display(self, artifact: Artifact) -> str:
        return _show(render_report(artifact.uri, sample_records=_SAMPLE_RECORDS)[0])


class _ReportVisualization(visualizations.ArtifactVisualization):
    """The page of a DatasetReport; for any other File artifact its uri."""

    ARTIFACT_TYPE = simple_artifacts.File

    def display(self, artifact: Artifact) -> str:
        path = join(artifact.uri, REPORT_FILE)
        return _show(read_text(path) if exists(path) else html.escape(os.fspath(artifact.uri)))


def register_visualizations() -> None:
    """Make `InteractiveContext.show` show Examples artifacts and the pages of DatasetReport."""
    registry = visualizations.get_registry()
    registry.register(_ExamplesVisualization)
    registry.register(_ReportVisualization)


def _show(page: str) -> str:
    """Show a page in a separate frame, which isolates its styles and cannot run scripts."""
    attributes = f'width="100%" height="{_HEIGHT}"'
    frame = f'<iframe sandbox srcdoc="{html.escape(page)}" {attributes}></iframe>'
    display(HTML(frame))
    return frame
