"""`plan`: what each worker will read of a dataset.

print(plan(uri, "train", workers=8, batch_size=256, remainder="pad"))
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.dataset.location import Artifacts
from trainer_utils.dataset.selection import Source, digest_of, mean_bytes, open_sources
from trainer_utils.format import ConfigError, DatasetError, canonical_split
from trainer_utils.format.printable import printable
from trainer_utils.format.settings import number
from trainer_utils.format.spelling import did_you_mean
from trainer_utils.options import InputOptions, choose_options
from trainer_utils.order import InputOrder, InputPlan, plan_workers
from trainer_utils.order.mixing import mix_ranges
from trainer_utils.reading.packing import packed_sources

__all__ = ["check_has_records", "order_of", "plan"]

_logger = logging.getLogger(__name__)


def plan(
    artifact_uri: Artifacts,
    split: str | None = None,
    *,
    workers: int = 1,
    replicas: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> InputPlan:
    """Works out what each worker will read.

    Args:
        artifact_uri, split, options, settings: as `input_fn` takes them.
        workers: how many.
        replicas: of all workers together, a multiple of the workers. None: one each.

    Returns:
        The plan.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to go on from.
        DatasetError: as `input_fn`.
    """
    own = ("split", "workers", "replicas", "options")
    chosen = choose_options(options, settings, of="plan", arguments=own)
    workers = number(1)("workers", workers)
    replicas = workers if replicas is None else number(1)("replicas", replicas)
    sources = open_sources(artifact_uri, split, apart=chosen.weights is not None)
    sources = packed_sources(sources, chosen)
    order = order_of(sources, chosen, num_workers=workers, num_replicas=replicas)
    return plan_workers(order)


def order_of(
    sources: Sequence[Source],
    options: InputOptions,
    *,
    num_workers: int = 1,
    num_replicas: int | None = None,
) -> InputOrder:
    """The order in which workers read the records of some sources.

    Args:
        sources: what is read.
        options: how.
        num_workers, num_replicas: as `InputOrder` takes them.

    Raises:
        ConfigError: as `InputOrder`; or a callback is for a split that there is not.
    """
    for name in ("pre_batching_callback", "post_batching_callback"):
        _check_splits(name, getattr(options, name), sources)
    return InputOrder(
        mix_ranges([source.ranges for source in sources], options.weights),
        options,
        num_workers=num_workers,
        num_replicas=num_replicas,
        mean_record_bytes=mean_bytes(sources),
        digest=digest_of(sources),
    )


def _check_splits(name: str, callbacks: object, sources: Sequence[Source]) -> None:
    """Refuses functions for splits that no dataset has, but for the usual names of splits."""
    there = dict.fromkeys(split for source in sources for split in source.dataset.shards)
    for split in callbacks if isinstance(callbacks, Mapping) else ():
        if split not in there and (not isinstance(split, str) or canonical_split(split) is None):
            raise ConfigError(
                f"{name}[{split!r}]: expected one of the splits {', '.join(there)}."
                f"{did_you_mean(split, there)}".removesuffix("."),
                setting=name,
                value=split,
            )


def check_has_records(sources: Sequence[Source], options: InputOptions) -> None:
    """Tells of an input without records: a warning, since a split may be empty on purpose.

    Raises:
        DatasetError: it is to be repeated without end, and nothing would ever come of it.
    """
    if any(source.num_records for source in sources):
        return
    splits = ", ".join(dict.fromkeys(repr(source.split) for source in sources))
    places = ", ".join(dict.fromkeys(str(source.place) for source in sources))
    if options.repeat is True:
        raise DatasetError(f"split {splits}: expected records to repeat, got none ({places})")
    _logger.warning("split %s has no records: there are no batches (%s)", splits, printable(places))
