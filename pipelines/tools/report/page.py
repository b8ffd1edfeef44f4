"""The report: everything that is known of a dataset, laid out as one page.

page = render_report("datasets/photos")
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence

from pipelines.tools.doctor.checks import Check
from pipelines.tools.doctor.dataset import dataset_checks
from pipelines.tools.html import load_template
from pipelines.tools.inspection import DatasetFacts, feature_row, inspect_dataset
from pipelines.tools.records import ExampleReader
from pipelines.tools.report.charts import (
    Histogram,
    balance_of,
    histogram,
    label_rows,
    wave_path,
)
from pipelines.tools.report.sample import FeatureSample, draw_sample
from trainer_utils.auditing.shifts import total_variation
from trainer_utils.format.naming import REJECTS_FILE

__all__ = ["GivenStatistics", "render_report"]

SAMPLE_RECORDS = 1000  # of each split
_MOST_LABELS, _MOST_SHARDS, _MOST_REJECTS = 60, 400, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenStatistics:
    """What somebody else counted of one feature in all records of a split.

    None is what TFDV does not count for its kind. The page shows it beside its own sample.

    Args:
        split: that they are of.
        present, missing: examples with and without the feature.
        numbers: `least`, `median`, `mean`, `most` and `standard deviation`, of numbers.
        zeros: how many numbers are 0.
        unique: different values.
        frequent: values with their counts, the most frequent first.
    """

    split: str
    present: int
    missing: int
    numbers: Sequence[float] | None = None
    zeros: int | None = None
    unique: int | None = None
    frequent: Sequence[tuple[str, int]] = ()


def render_report(
    uri: str,
    *,
    sample_records: int = SAMPLE_RECORDS,
    lineage: str | None = None,
    given: Mapping[str, Sequence[GivenStatistics]] | None = None,
    more_checks: Sequence[Check] = (),
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The page as HTML.

    Args:
        uri: of any dataset that `inspect_dataset` reads.
        sample_records: of each split, at the most, that are read.
        lineage: where the dataset comes from, as text, if that is known.
        given: what somebody else counted, by feature.
        more_checks: findings beside those of `dataset_checks`.
        advance: called after each record with 1, and how many records will be read.

    Raises:
        DatasetError: there is no such dataset.
    """
    facts = inspect_dataset(uri)
    reader = ExampleReader(uri)
    sample = draw_sample(reader, most_records=sample_records, advance=advance)
    splits = list(facts.splits)
    labels, num_labels = label_rows(facts.labels, splits, most=_MOST_LABELS)
    checks = [*dataset_checks(uri), *more_checks]
    return load_template("report/page.html").render(
        facts=facts,
        name=_name(facts.uri),
        splits=splits,
        total_records=sum(split.records for split in facts.splits.values()),
        total_bytes=sum(split.bytes for split in facts.splits.values()),
        shards={name: _shard_bars(facts, name) for name in splits},
        labels=labels,
        num_labels=num_labels,
        shifts=[
            (first, second, total_variation(facts.labels[first], facts.labels[second]))
            for first, second in itertools.combinations(filter(facts.labels.get, splits), 2)
        ],
        sample=sample,
        given={name: sorted(found, key=_by_split(splits)) for name, found in (given or {}).items()},
        types={
            name: feature_row(name, feature, facts.classes)[1:]
            for name, feature in facts.features.items()
        },
        histograms={name: _histograms(found) for name, found in sample.features.items()},
        rejects=_rejects(facts, reader),
        checks=checks,
        settings=_settings(facts),
        lineage=lineage,
        wave=wave_path,
    )


def _by_split(splits: list[str]) -> Callable[[GivenStatistics], int]:
    """Sorts statistics as the dataset has its splits, and what it has not last."""
    places = {split: place for place, split in enumerate(splits)}
    return lambda statistics: places.get(statistics.split, len(places))


def _name(uri: str) -> str:
    """The end of its path; of an artifact, which is a number, also whose it is."""
    parts = [part for part in uri.split("/") if part]
    return "/".join(parts[-3:] if parts[-1].isdigit() else parts[-1:])


def _shard_bars(facts: DatasetFacts, split: str) -> dict[str, object]:
    sizes = [shard.bytes for shard in facts.splits[split].shards]
    most = max(sizes, default=0) or 1
    return {
        "shown": [(size, size / most) for size in sizes[:_MOST_SHARDS]],
        "more": max(len(sizes) - _MOST_SHARDS, 0),
        "balance": balance_of(sizes),
    }


def _histograms(found: FeatureSample) -> list[Histogram]:
    by_name = itertools.groupby(found.statistics, key=lambda statistics: statistics.name)
    return [histogram(list(group)) for _, group in by_name]


def _rejects(facts: DatasetFacts, reader: ExampleReader) -> list[dict[str, object]]:
    """Counts by code, and some of each."""
    if facts.manifest is None or not facts.manifest.reject_counts:
        return []
    examples: dict[str, list[dict[str, str]]] = {}
    for line in reader.dataset.read_lines(REJECTS_FILE):
        reject = json.loads(line)
        shown = examples.setdefault(str(reject.get("code")), [])
        if len(shown) < _MOST_REJECTS:
            shown.append({"source": str(reject.get("source")), "detail": str(reject.get("detail"))})
    counts = sorted(facts.manifest.reject_counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"code": c, "count": n, "examples": examples.get(c, [])} for c, n in counts]


def _settings(facts: DatasetFacts) -> list[tuple[str, str]]:
    if facts.manifest is None:
        return []
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in sorted(facts.manifest.config.items())
    ]
