"""Render the report, one HTML page about a dataset.

    write_report("datasets/photos", "report.html")
    write_report(uri, "report.html", statistics=statistics_uri, schema=schema_uri)

Counts come from the manifest. Everything that needs records comes from a sample, and the page says
so. TFX's messages are only needed for statistics and schemas written by TFX.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from components.auditing.checks import total_variation
from components.inputs.rejects import REJECT_CODES
from components.report.doctor import Check, checks_of
from components.report.html import load_template
from components.report.inspection import DatasetFacts, feature_row, inspect_dataset
from components.report.records import ExampleReader
from components.report.sample import Sample, draw_sample
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.format.lineage import Ancestor
from trainer_utils.format.naming import REJECTS_FILE, SCHEMA_FILE
from trainer_utils.storage import (
    is_host_error,
    join,
    list_names,
    path_of,
    read_text,
    write_text,
)

SAMPLE_RECORDS = 1000  # records per split
_NUMBERS = {"least": "min", "median": "median", "mean": "mean", "most": "max"}
_COLUMNS = {  # of the table of TFX's statistics
    "num_stats": {**_NUMBERS, "standard deviation": "std_dev", "zeros": "num_zeros"},
    "string_stats": {"unique": "unique"},
    "bytes_stats": {"unique": "unique"},
}
_UNITS = {  # captions of statistics
    "height": "height in pixels",
    "width": "width in pixels",
    "bytes": "size",
    "seconds": "duration in seconds",
    "sample rate": "sample rate in Hz",
    "characters": "length in characters",
    "words": "length in words",
    "values": "number of values",
}
_MAX_BEFORE = 20  # earlier datasets to look at
_MAX_LABELS, _MAX_SHARDS, _MAX_REJECTS, _MAX_VALUES = 60, 400, 5, 8


def write_report(
    uri: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    sample_records: int = SAMPLE_RECORDS,
    statistics: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Write the report atomically.

    Args:
        uri: the uri of any dataset that `inspect_dataset` reads.
        path: the file to write.
        sample_records: the maximum number of records to read from each split.
        statistics: the uri of TFX's ExampleStatistics of the dataset, to show as well.
        schema: the uri of TFX's Schema of the dataset. Disagreements with the data are findings.
        advance: called after each record with 1 and the number of records that will be read.

    Returns:
        The damage found among the records that were read, or an empty string.

    Raises:
        DatasetError: there is no such dataset, or no such statistics.
    """
    page, damage = render_report(
        uri, sample_records=sample_records, statistics=statistics, schema=schema, advance=advance
    )
    path = path_of("path", path)
    write_text(path, page, temporary_folder=os.path.dirname(path) or ".")
    return damage


def render_report(
    uri: str | os.PathLike[str],
    *,
    sample_records: int = SAMPLE_RECORDS,
    statistics: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | None = None,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[str, str]:
    """Return the page as HTML, and the damage found; see `write_report`."""
    reader = ExampleReader(uri)
    sample = draw_sample(reader, most_records=sample_records, advance=advance)
    facts = inspect_dataset(uri)
    checks = [
        *checks_of(facts),
        *([_schema_check(path_of("schema", schema), facts)] if schema else []),
    ]
    totals = facts.label_totals
    labels: dict[str, list[tuple[int, float]]] = {n: [] for n in [*totals][:_MAX_LABELS]}
    for split in facts.splits:
        counts = facts.labels.get(split, {})
        in_all = max(sum(counts.values()), 1)
        for label, rows in labels.items():  # its count, and its share of the split
            rows.append((counts.get(label, 0), counts.get(label, 0) / in_all))
    page = load_template("page.html").render(
        facts=facts,
        name=_title(facts, sample),
        units=_UNITS,
        splits=list(facts.splits),
        total_records=sum(split.records for split in facts.splits.values()),
        total_bytes=sum(split.bytes for split in facts.splits.values()),
        left_out=_left_out(facts),
        shards={name: _shards(facts, name) for name in facts.splits},
        labels=labels,
        num_labels=len(totals),
        shifts=[
            (first, second, total_variation(facts.labels[first], facts.labels[second]))
            for first, second in itertools.combinations(filter(facts.labels.get, facts.splits), 2)
        ],
        sample=sample,
        given=_read_statistics(path_of("statistics", statistics)) if statistics else {},
        types={n: feature_row(n, f, facts.classes)[1:] for n, f in facts.features.items()},
        rejects=_rejects(facts, reader),
        amiss=[check for check in checks if check.level != "ok"],
        fine=[check for check in checks if check.level == "ok"],
        steps=_steps(facts),
    )
    return page, sample.damage


def _title(facts: DatasetFacts, sample: Sample) -> str:
    """Return the name of the inputs that the dataset was converted from, else of its folder."""
    steps = (
        [] if facts.origin is None else [ancestor.made_by for ancestor in facts.origin.ancestors]
    )
    steps += [] if facts.origin is None else [facts.origin.made_by]
    for step in filter(None, steps):
        source = str(step.settings.get("input_base") or "").rstrip("/")
        if "id" in sample.features and len(sample.features["id"].tables) == 1:  # a single table
            source = next(iter(sample.features["id"].tables)) or source
        if name := source.rpartition("/")[2]:
            return name
    parts = [part for part in facts.uri.split("/") if part]  # an artifact's uri ends with a number
    return "/".join(parts[-3:] if parts[-1].isdigit() else parts[-1:])


def _shards(facts: DatasetFacts, split: str) -> dict[str, object]:
    sizes = [shard.bytes for shard in facts.splits[split].shards]
    return {
        "sizes": sizes[:_MAX_SHARDS],
        "more": max(len(sizes) - _MAX_SHARDS, 0),
        "balance": max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else None,
    }


def _left_out(facts: DatasetFacts) -> tuple[int, int, int] | None:
    """Return the inputs that were rejected, skipped and found, including earlier steps."""
    if facts.manifest is None:
        return None
    steps = [*(each.total for each in facts.left_out_before), facts.manifest.total]
    return sum(s.rejected for s in steps), sum(s.skipped for s in steps), steps[0].found


def _rejects(facts: DatasetFacts, reader: ExampleReader) -> list[dict[str, object]]:
    """Return rejects by code with a few examples, and of the steps before."""
    if facts.manifest is None:
        return []
    lists = reader.dataset.read_lines(REJECTS_FILE) if facts.manifest.reject_counts else ()
    rejects_by_step = [("", facts.manifest.reject_counts, _examples_of(lists))]
    for ancestor in facts.origin.ancestors if facts.origin else ():
        summary = ancestor.summary
        if summary is not None and summary.rejects:
            lines = _rejects_of(facts.uri, ancestor)
            rejects_by_step.append((summary.producer, summary.rejects, _examples_of(lines)))
    return [
        {
            "code": code,
            "count": count,
            "by": by,
            "examples": examples.get(code, []),
            "cause": REJECT_CODES.get(code),
        }
        for by, counts, examples in rejects_by_step
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _examples_of(lines: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    examples: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        reject = json.loads(line)
        shown = examples.setdefault(str(reject.get("code")), [])
        if len(shown) < _MAX_REJECTS:
            shown.append({"source": str(reject.get("source")), "detail": str(reject.get("detail"))})
    return examples


def _rejects_of(uri: str, ancestor: Ancestor) -> Sequence[str]:
    """Return the rejects of an earlier dataset, if it is where TFX and `convert` write it."""
    parts = uri.rstrip("/").rsplit("/", 3)
    if ancestor.made_by is None or len(parts) < 4 or not parts[-1].isdigit():
        return ()
    folder = join(parts[0], f"{ancestor.made_by.component}/{ancestor.made_by.output}")
    try:
        names = sorted(filter(str.isdigit, list_names(folder)), key=int)
        for name in names[-_MAX_BEFORE:]:
            dataset = open_dataset(join(folder, name), inspect=False)
            if dataset.digest == ancestor.digest:
                return dataset.read_lines(REJECTS_FILE)
    except (DatasetError, OSError):  # the page says how many there were
        return ()
    return ()


def _steps(facts: DatasetFacts) -> list[tuple[str, dict[str, str]]]:
    """Return the steps that made the dataset in order, each with its settings."""
    if facts.manifest is None:
        return []
    settings_by_step = [(facts.manifest.producer, facts.manifest.config)]
    if facts.origin:
        steps = [*(each.made_by for each in facts.origin.ancestors), facts.origin.made_by]
        settings_by_step = [(step.component, step.settings) for step in steps if step is not None]

    def shown(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return [
        (who, {n: shown(v) for n, v in sorted(settings.items())})
        for who, settings in settings_by_step
    ]


def _read_statistics(uri: str) -> dict[str, list[dict[str, object]]]:
    """Return, for each feature, one table row per split, with the columns of its kind."""
    from components.schema.tfmd import feature_name, read_statistics  # TFX's messages

    rows_by_feature: dict[str, list[dict[str, object]]] = {}
    for split, statistics in read_statistics(uri).items():
        for entry in statistics.features:
            kind = entry.WhichOneof("stats")
            stats: Any = getattr(entry, kind) if kind else None
            present = stats.common_stats.num_non_missing if kind else 0
            missing = stats.common_stats.num_missing if kind else 0
            row = {"split": split, "present": present, "missing": missing}
            for column, field in _COLUMNS.get(kind or "", {}).items():
                row[column] = getattr(stats, field)
            if kind == "string_stats":
                top = [value for value in stats.top_values if value.frequency > 1][:_MAX_VALUES]
                row["frequent"] = ", ".join(
                    f"{entry.value} ({entry.frequency:,.0f})" for entry in top
                )
            rows_by_feature.setdefault(feature_name(entry), []).append(row)
    return rows_by_feature


def _schema_check(schema: str, facts: DatasetFacts) -> Check:
    from components.schema.tfmd import check_agreement, parse_schema  # TFX's messages

    path = join(schema, SCHEMA_FILE)
    try:
        check_agreement(parse_schema(read_text(path), path=path), facts.features, source=facts.uri)
    except (DatasetError, OSError) as error:
        if is_host_error(error):
            raise
        return Check("schema", "bad", str(error), "Make the schema from these examples.")
    return Check("schema", "ok", "agrees with the examples")
