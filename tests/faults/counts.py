"""How much the long part does: `TFX_SHARDS_SHARE=0.1 make test-faults` does a tenth of it.

long(400)                            # 40
"""

import os

__all__ = ["SHARE", "long"]

SHARE = float(os.environ.get("TFX_SHARDS_SHARE", "1"))


def long(count: int) -> int:
    """So many of the long part, by the share that was asked for; at least one."""
    return max(1, round(count * SHARE))
