"""One page that shows what is in a dataset, for people; it needs no network and runs no script.

    write_report("datasets/photos", "report.html")
    write_report(uri, "report.html", statistics=statistics_uri, schema=schema_uri)

Counts are the manifest's; what only records can tell comes from a sample of them, which the page
says. TFX and TensorFlow are not imported, and needed for statistics and schemas of theirs alone.
"""

from pipelines.tools.report.page import SAMPLE_RECORDS, render_page

__all__ = ["SAMPLE_RECORDS", "render_page"]
