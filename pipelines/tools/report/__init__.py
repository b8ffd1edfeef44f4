"""One page that shows what is in a dataset, for people; it needs no network and runs no script.

    from pipelines.tools.report import render_report

    page = render_report("datasets/photos")

Counts are the manifest's; what only records can tell comes from a sample of them, which the page
says. TensorFlow is not imported.
"""

from pipelines.tools.report.page import SAMPLE_RECORDS, render_report

__all__ = ["SAMPLE_RECORDS", "render_report"]
