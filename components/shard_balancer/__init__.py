"""ShardBalancer: any Examples artifacts to one dataset of equal, globally shuffled shards.

from components.shard_balancer import plan

print(plan("examples/", num_shards=8))      # what it would do, without doing it
"""

from typing import Any

__all__ = ["plan"]


def __getattr__(name: str) -> Any:
    if name != "plan":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from components.shard_balancer.planning import plan  # imports Beam: only who plans waits

    return plan
