"""The page of `tfx-shards report`, from Python.

write_report("datasets/photos", "report.html")
"""

from pipelines.tools.report import render_report, write_report

__all__ = ["render_report", "write_report"]
