"""The datasets of the last spans, of those that ExampleGens have written below a `dataset_root`.

window = latest_window("/mnt/datasets", num_spans=3)
window.uris, window.spans

It stands for TFX's Resolver with a rolling `RangeConfig`, which open-source Kubeflow has not.
"""

import dataclasses
import logging
from collections.abc import Iterable

from components.kubeflow.dataset_records import DatasetRecord, is_whole, records_by_span
from trainer_utils.format import ConfigError, DatasetError

__all__ = ["SpanWindow", "latest_window"]


@dataclasses.dataclass(frozen=True)
class SpanWindow:
    """The datasets of some spans, ascending by span."""

    spans: tuple[int, ...]
    uris: tuple[str, ...]


def latest_window(
    root: str, *, num_spans: int, first_span: int = 0, source: str = ""
) -> SpanWindow:
    """The window, as TFX's `RollingRange` counts it; of each span the newest version.

    A dataset that is gone or not whole counts as none. Spans without a dataset are passed over:
    the window is of numbers, so that it has fewer datasets then.

    Args:
        root: a `dataset_root`.
        num_spans: how many numbers the window has.
        first_span: no span before it is taken.
        source: datasets whose record's source contains it; needed where there are several sources.

    Raises:
        ConfigError: `num_spans` is not allowed, or `root` has spans of several sources.
        DatasetError: there is no dataset in the window.
    """
    if num_spans < 1:
        raise ConfigError.of("num_spans", num_spans, allowed="a number of at least 1")
    records = [
        one for by_span in records_by_span(root).values() for one in by_span if source in one.source
    ]
    _check_source(records, root)
    newest = _newest([one for one in records if is_whole(one.uri)])
    last = max(newest, default=-1)
    taken = [
        newest[span]
        for span in range(max(first_span, last - num_spans + 1), last + 1)
        if span in newest
    ]
    if not taken:
        raise DatasetError(
            f"dataset_root {root!r}: expected datasets of spans, found none in the window of "
            f"{num_spans}, from span {first_span} on. Write them with this dataset_root, of "
            "input_patterns with {SPAN}.",
            path=root,
        )
    logging.info("spans: %s", ", ".join(f"{one.span} ({one.uri})" for one in taken))
    return SpanWindow(
        tuple(one.span for one in taken if one.span is not None), tuple(one.uri for one in taken)
    )


def _check_source(records: Iterable[DatasetRecord], root: str) -> None:
    sources = sorted({one.source for one in records})
    if len(sources) > 1:
        raise ConfigError(
            f"dataset_root {root!r}: expected the spans of one source, found "
            f"{'; '.join(sources)}. Name one by source, or keep each below a root of its own.",
            setting="source",
            value=sources,
        )


def _newest(records: Iterable[DatasetRecord]) -> dict[int, DatasetRecord]:
    """Of each span the record of the highest version, of these the latest."""
    ordered = sorted(records, key=lambda one: (one.version or 0, one.seconds))
    return {one.span: one for one in ordered if one.span is not None}
