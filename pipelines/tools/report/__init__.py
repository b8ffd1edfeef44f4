"""One page that shows what is in a dataset, for people; it needs no network and runs no script.

    from pipelines.report import write_report

    write_report("datasets/photos", "report.html")

Counts are the manifest's; what only records can tell comes from a sample of them, which the page
says. TensorFlow is not imported.
"""

from pipelines.tools.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
