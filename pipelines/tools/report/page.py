"""The report: everything that is known of a dataset, laid out as one page.

page = render_page("datasets/photos")
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence

from pipelines.tools.doctor import Check, dataset_checks
from pipelines.tools.html import load_template
from pipelines.tools.inspection import DatasetFacts, feature_row, inspect_dataset
from pipelines.tools.records import ExampleReader
from pipelines.tools.report.sample import draw_sample
from trainer_utils.auditing.shifts import total_variation
from trainer_utils.format.naming import REJECTS_FILE

__all__ = ["SAMPLE_RECORDS", "render_page"]

SAMPLE_RECORDS = 1000  # of each split
_MOST_LABELS, _MOST_SHARDS, _MOST_REJECTS = 60, 400, 5


def render_page(
    uri: str,
    *,
    sample_records: int = SAMPLE_RECORDS,
    lineage: str | None = None,
    given: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
    more_checks: Sequence[Check] = (),
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The page as HTML.

    Args:
        uri: of any dataset that `inspect_dataset` reads.
        sample_records: of each split, at the most, that are read.
        lineage: where the dataset comes from, as text, if that is known.
        given: what somebody else counted of all records: rows of a table by feature, each with
            `split` and the same further columns.
        more_checks: findings beside those of `dataset_checks`.
        advance: called after each record with 1, and how many records will be read.

    Raises:
        DatasetError: there is no such dataset.
    """
    facts, reader = inspect_dataset(uri), ExampleReader(uri)
    sample = draw_sample(reader, most_records=sample_records, advance=advance)
    checks = [*dataset_checks(uri), *more_checks]
    parts = [part for part in facts.uri.split("/") if part]  # an artifact's ends with a number
    totals = facts.label_totals
    labels = sorted(totals, key=lambda label: (-totals[label], label))[:_MOST_LABELS]
    config = facts.manifest.config if facts.manifest else {}
    return load_template("report/page.html").render(
        facts=facts,
        name="/".join(parts[-3:] if parts[-1].isdigit() else parts[-1:]),
        splits=list(facts.splits),
        total_records=sum(split.records for split in facts.splits.values()),
        total_bytes=sum(split.bytes for split in facts.splits.values()),
        left_out=_left_out(facts),
        shards={name: _shards(facts, name) for name in facts.splits},
        labels={label: [_share(facts, split, label) for split in facts.splits] for label in labels},
        num_labels=len(totals),
        shifts=[
            (first, second, total_variation(facts.labels[first], facts.labels[second]))
            for first, second in itertools.combinations(filter(facts.labels.get, facts.splits), 2)
        ],
        sample=sample,
        given=given or {},
        types={n: feature_row(n, f, facts.classes)[1:] for n, f in facts.features.items()},
        rejects=_rejects(facts, reader),
        amiss=[check for check in checks if check.level != "ok"],
        fine=[check for check in checks if check.level == "ok"],
        settings={
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in sorted(config.items())
        },
        lineage=lineage,
    )


def _share(facts: DatasetFacts, split: str, label: str) -> tuple[int, float]:
    """How often a label occurs, and its share of the split."""
    counts = facts.labels.get(split, {})
    return counts.get(label, 0), counts.get(label, 0) / max(sum(counts.values()), 1)


def _shards(facts: DatasetFacts, split: str) -> dict[str, object]:
    sizes = [shard.bytes for shard in facts.splits[split].shards]
    return {
        "sizes": sizes[:_MOST_SHARDS],
        "more": max(len(sizes) - _MOST_SHARDS, 0),
        "balance": max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else None,
    }


def _left_out(facts: DatasetFacts) -> tuple[int, int, int] | None:
    """Inputs that this step and those before rejected and skipped, of all that were found."""
    if facts.manifest is None:
        return None
    steps = [*(each.total for each in facts.left_out_before), facts.manifest.total]
    return sum(s.rejected for s in steps), sum(s.skipped for s in steps), steps[0].found


def _rejects(facts: DatasetFacts, reader: ExampleReader) -> list[dict[str, object]]:
    """Counts by code, and some of each; of the steps before, counts alone."""
    if facts.manifest is None:
        return []
    examples: dict[str, list[dict[str, str]]] = {}
    for line in reader.dataset.read_lines(REJECTS_FILE) if facts.manifest.reject_counts else ():
        reject = json.loads(line)
        shown = examples.setdefault(str(reject.get("code")), [])
        if len(shown) < _MOST_REJECTS:
            shown.append({"source": str(reject.get("source")), "detail": str(reject.get("detail"))})
    found = [("", facts.manifest.reject_counts, examples)]
    found += [(each.producer, each.rejects, {}) for each in facts.left_out_before]
    return [
        {"code": code, "count": count, "by": by, "examples": some.get(code, [])}
        for by, counts, some in found
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
