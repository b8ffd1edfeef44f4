"""The page of `tfx-shards report`, from Python: with lineage, and what TFX's components found.

    write_report("datasets/photos", "report.html")
    write_report(uri, "report.html", statistics=statistics_uri, schema=schema_uri)

TFX and TensorFlow are not imported, and needed for statistics and schemas of theirs alone.
"""

from collections.abc import Callable
from typing import Any

from pipelines.lineage import find_lineage
from pipelines.tools import report
from pipelines.tools.doctor.checks import Check, bad, ok
from pipelines.tools.html import write_page
from pipelines.tools.inspection import inspect_dataset
from pipelines.tools.report.page import GivenStatistics
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import SCHEMA_FILE
from trainer_utils.storage import join, read_text

__all__ = ["render_report", "write_report"]

_MOST_VALUES = 8


def write_report(
    uri: str,
    path: str,
    *,
    sample_records: int = report.SAMPLE_RECORDS,
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
    sample_records: int = report.SAMPLE_RECORDS,
    statistics: str | None = None,
    schema: str | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The page as HTML; arguments and errors as those of `write_report`."""
    return report.render_report(
        uri,
        sample_records=sample_records,
        lineage=find_lineage(uri),
        given=_read_statistics(statistics) if statistics else {},
        more_checks=[_schema_check(schema, uri)] if schema else [],
        advance=advance,
    )


def _read_statistics(uri: str) -> dict[str, list[GivenStatistics]]:
    """By feature, those of each split."""
    from components.common.statistics import feature_name, read_statistics  # TFX's messages

    found: dict[str, list[GivenStatistics]] = {}
    for split, statistics in read_statistics(uri).items():
        for entry in statistics.features:
            found.setdefault(feature_name(entry), []).append(_of_feature(split, entry))
    return found


def _of_feature(split: str, entry: Any) -> GivenStatistics:
    kind = entry.WhichOneof("stats")
    if kind is None:
        return GivenStatistics(split=split, present=0, missing=0)
    stats = getattr(entry, kind)
    numbers = zeros = unique = None
    frequent: list[tuple[str, int]] = []
    if kind == "num_stats":
        numbers = [stats.min, stats.median, stats.mean, stats.max, stats.std_dev]
        zeros = stats.num_zeros
    if kind in ("string_stats", "bytes_stats"):
        unique = stats.unique
    if kind == "string_stats":
        top = [value for value in stats.top_values if value.frequency > 1][:_MOST_VALUES]
        frequent = [(value.value, int(value.frequency)) for value in top]
    return GivenStatistics(
        split=split,
        present=stats.common_stats.num_non_missing,
        missing=stats.common_stats.num_missing,
        numbers=numbers,
        zeros=zeros,
        unique=unique,
        frequent=frequent,
    )


def _schema_check(schema: str, uri: str) -> Check:
    from components.common.tfmd import check_agreement, parse_schema  # TFX's messages

    facts = inspect_dataset(uri)
    path = join(schema, SCHEMA_FILE)
    try:
        check_agreement(parse_schema(read_text(path), path=path), facts.features, source=facts.uri)
    except (DatasetError, OSError) as error:
        return bad("schema", str(error), "Make the schema from these examples.")
    return ok("schema", "agrees with the examples")
