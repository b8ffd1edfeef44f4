"""Charts as SVG paths and rectangles, in units of the chart's own box; the page draws them.

chart = histogram(statistics)
chart.bars, chart.statistics
"""

import dataclasses
from collections.abc import Mapping, Sequence

from pipelines.tools.report.sample import Statistics

__all__ = ["Bar", "Histogram", "LabelRow", "balance_of", "histogram", "label_rows", "wave_path"]

WIDTH, HEIGHT = 320.0, 72.0


@dataclasses.dataclass(frozen=True)
class Bar:
    """A rectangle of a chart, of the series with that number."""

    x: float
    y: float
    width: float
    height: float
    series: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """How numbers are spread in each split: shares of the split, so that splits compare.

    Args:
        name: of what is counted.
        statistics: by split; they share their bins.
        bars: of all series, side by side in each bin.
    """

    name: str
    statistics: Sequence[Statistics]
    bars: Sequence[Bar]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelRow:
    """A label: its count by split, and its share of each split, in [0, 1], beside the largest."""

    label: str
    counts: Sequence[int]
    shares: Sequence[float]


def histogram(statistics: Sequence[Statistics]) -> Histogram:
    """A histogram of one thing in several splits."""
    bins = len(statistics[0].counts)
    most = max(max(s.counts) / s.count for s in statistics)
    slot = WIDTH / bins
    width = slot * 0.9 / len(statistics)
    bars = [
        Bar(
            x=round(number * slot + series * width, 2),
            y=round(HEIGHT - count / s.count / most * HEIGHT, 2),
            width=round(width, 2),
            height=round(count / s.count / most * HEIGHT, 2),
            series=series,
        )
        for series, s in enumerate(statistics)
        for number, count in enumerate(s.counts)
        if count
    ]
    return Histogram(name=statistics[0].name, statistics=statistics, bars=bars)


def label_rows(
    labels: Mapping[str, Mapping[str, int]], splits: Sequence[str], *, most: int
) -> tuple[list[LabelRow], int]:
    """The most frequent labels, and how many there are in all."""
    totals: dict[str, int] = {}
    for counts in labels.values():
        for label, count in counts.items():
            totals[label] = totals.get(label, 0) + count
    sizes = [max(sum(labels.get(split, {}).values()), 1) for split in splits]
    shown = sorted(totals, key=lambda label: (-totals[label], label))[:most]
    found = {label: [labels.get(split, {}).get(label, 0) for split in splits] for label in shown}
    shares = {
        label: [n / size for n, size in zip(found[label], sizes, strict=True)] for label in shown
    }
    largest = max((share for row in shares.values() for share in row), default=1.0) or 1.0
    rows = [
        LabelRow(label=label, counts=found[label], shares=[s / largest for s in shares[label]])
        for label in shown
    ]
    return rows, len(totals)


def balance_of(sizes: Sequence[int]) -> float | None:
    """The largest over the mean: 1 where all are equal; None where nothing is known."""
    return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else None


def wave_path(peaks: Sequence[float]) -> str:
    """A wave form as the `d` of an SVG path in a box of 320 by 40."""
    step = WIDTH / max(len(peaks), 1)
    lines = [
        f"M{(n + 0.5) * step:.1f} {20 - max(19 * peak, 0.5):.1f}V{20 + max(19 * peak, 0.5):.1f}"
        for n, peak in enumerate(peaks)
    ]
    return "".join(lines)
