"""How much of the machine this process may use, and has used.

usable_cores()     # 2
"""

import os
from pathlib import Path

__all__ = ["cpu_seconds", "usable_cores"]

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "<quota> <period>" or "max <period>"


def usable_cores() -> int:
    """Cores that the scheduler and the container's quota leave to this process, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()
        limit = -(-int(quota) // int(period))
    except (OSError, ValueError):
        return max(1, cores or 1)
    return max(1, min(cores or 1, limit))


def cpu_seconds() -> float:
    """The time that all cores together have spent on this process."""
    spent = os.times()
    return spent.user + spent.system
