"""The page of `tfx-shards report`, from Python: with lineage, and what TFX's components found.

    write_report("datasets/photos", "report.html")
    write_report(uri, "report.html", statistics=statistics_uri, schema=schema_uri)

TFX and TensorFlow are not imported, and needed for statistics and schemas of theirs alone.
"""

from collections.abc import Callable
from typing import Any

from pipelines.lineage import find_lineage
from pipelines.tools.doctor import Check
from pipelines.tools.html import write_page
from pipelines.tools.inspection import inspect_dataset
from pipelines.tools.report import SAMPLE_RECORDS, render_page
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import SCHEMA_FILE
from trainer_utils.storage import join, read_text

__all__ = ["render_report", "write_report"]

_MOST_VALUES = 8


def write_report(
    uri: str,
    path: str,
    *,
    sample_records: int = SAMPLE_RECORDS,
    statistics: str | None = None,
    schema: str | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Writes the page, whole or not at all.

    Args:
        uri: of any dataset that `inspect_dataset` reads.
        path: of the file.
        sample_records: of each split, at the most, that are read.
        statistics: the uri of TFX's ExampleStatistics of it, which the page shows too.
        schema: the uri of TFX's Schema of it; where the two disagree is a finding.
        advance: called after each record with 1, and how many records will be read.

    Raises:
        DatasetError: there is no such dataset, or no such statistics.
    """
    page = render_report(
        uri,
        sample_records=sample_records,
        statistics=statistics,
        schema=schema,
        advance=advance,
    )
    write_page(path, page)


def render_report(
    uri: str,
    *,
    sample_records: int = SAMPLE_RECORDS,
    statistics: str | None = None,
    schema: str | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The page as HTML; arguments and errors as those of `write_report`."""
    return render_page(
        uri,
        sample_records=sample_records,
        lineage=find_lineage(uri),
        given=_read_statistics(statistics) if statistics else {},
        more_checks=[_schema_check(schema, uri)] if schema else [],
        advance=advance,
    )


def _read_statistics(uri: str) -> dict[str, list[dict[str, object]]]:
    """By feature, those of each split."""
    from components.common.statistics import feature_name, read_statistics  # TFX's messages

    found: dict[str, list[dict[str, object]]] = {}
    for split, statistics in read_statistics(uri).items():
        for entry in statistics.features:
            found.setdefault(feature_name(entry), []).append(_of_feature(split, entry))
    return found


def _of_feature(split: str, entry: Any) -> dict[str, object]:
    """A row of the table of one feature; its columns are those of its kind."""
    kind = entry.WhichOneof("stats")
    if kind is None:
        return {"split": split, "present": 0, "missing": 0}
    stats = getattr(entry, kind)
    common = stats.common_stats
    row = {"split": split, "present": common.num_non_missing, "missing": common.num_missing}
    if kind == "num_stats":
        row |= {"least": stats.min, "median": stats.median, "mean": stats.mean, "most": stats.max}
        row |= {"standard deviation": stats.std_dev, "zeros": stats.num_zeros}
    if kind in ("string_stats", "bytes_stats"):
        row["unique"] = stats.unique
    if kind == "string_stats":
        top = [value for value in stats.top_values if value.frequency > 1][:_MOST_VALUES]
        row["frequent"] = ", ".join(f"{value.value} ({value.frequency:,.0f})" for value in top)
    return row


def _schema_check(schema: str, uri: str) -> Check:
    from components.common.tfmd import check_agreement, parse_schema  # TFX's messages

    facts = inspect_dataset(uri)
    path = join(schema, SCHEMA_FILE)
    try:
        check_agreement(parse_schema(read_text(path), path=path), facts.features, source=facts.uri)
    except (DatasetError, OSError) as error:
        return Check("schema", "bad", str(error), "Make the schema from these examples.")
    return Check("schema", "ok", "agrees with the examples")
