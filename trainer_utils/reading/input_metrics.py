"""Observe an input: export its stats as metrics, and warn if it starves its trainer.

observe_input(batches, batches.spec, batches.counters.stats)
warn_if_starved(batches.counters)
"""

from collections.abc import Callable

from trainer_utils.core.printable import printable
from trainer_utils.reading.input_spec import InputSpec
from trainer_utils.reading.input_stats import InputStats, StageCounters
from trainer_utils.reading.starvation import StarvationCheck
from trainer_utils.runtime import telemetry


def observe_input(
    owner: object,
    spec: InputSpec,
    stats: Callable[[], InputStats],
    *,
    is_read_at_end: bool = True,
) -> None:
    """Export the stats of an input as metrics until its owner is garbage-collected.

    Args:
        owner: the object that the program holds.
        spec: the contents of its batches.
        stats: returns its stats. It must not refer to the owner.
        is_read_at_end: whether `stats` may be called while garbage is collected.
    """
    uris = dict.fromkeys(printable(source.dataset.uri) for source in spec.sources)
    attributes: dict[str, str | int] = {
        "dataset": ", ".join(uris),
        "split": ", ".join(dict.fromkeys(source.split for source in spec.sources)),
        "rank": spec.worker,
    }
    telemetry.inputs.add(
        owner, attributes, lambda: _amounts_of(stats()), is_read_at_end=is_read_at_end
    )
    telemetry.export_if_used()


def warn_if_starved(counters: StageCounters) -> None:
    """Warn once if the thread that takes batches waits for them too much."""
    counters.waits.check = StarvationCheck(counters.stats, parallel="processes=…")


def _amounts_of(stats: InputStats) -> telemetry.Amounts:
    """Return stats as amounts of the metrics."""
    counts = {
        "tfx_shards.input.batches": stats.batches,
        "tfx_shards.input.records": stats.records,
        "tfx_shards.input.io": stats.record_bytes,
        "tfx_shards.input.cache.hits": stats.cache_hits,
        "tfx_shards.input.cache.misses": stats.cache_misses,
        "tfx_shards.input.substituted": stats.substituted,
    }
    amounts: dict[str, dict[str, float]] = {name: {"": count} for name, count in counts.items()}
    return {telemetry.STAGE_TIME: stats.seconds, **amounts}
