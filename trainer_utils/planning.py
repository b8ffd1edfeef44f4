"""`plan`: what each worker will read of a dataset.

print(plan(uri, "train", workers=8, batch_size=256, remainder="pad"))
"""

from typing import Any

from trainer_utils.dataset.location import Artifacts
from trainer_utils.dataset.selection import digest_of, earlier_digests, open_sources
from trainer_utils.options import InputOptions, choose_options
from trainer_utils.order import InputOrder, InputPlan, plan_workers
from trainer_utils.order.mixing import mix_ranges

__all__ = ["plan"]


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
        The plan. Without `shuffle`, and with `"global"`, workers have no ranges of their own, so
        that each one's shards are all shards.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to go on from.
        DatasetError: as `input_fn`.
    """
    own = ("split", "workers", "replicas", "options")
    chosen = choose_options(options, settings, of="plan", arguments=own)
    sources = open_sources(artifact_uri, split, apart=chosen.weights is not None)
    order = InputOrder(
        mix_ranges([source.ranges for source in sources], chosen.weights),
        chosen,
        num_workers=workers,
        num_replicas=replicas or workers,
        digest=digest_of(sources),
        earlier_digests=earlier_digests(sources),
    )
    return plan_workers(order)
