"""How much of the machine this process may use, and has used.

usable_cores()     # 2
free_memory()      # 21_474_836_480
"""

import os
import re
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "<quota> <period>" or "max <period>"
_MEMORY = Path("/proc/meminfo")
_UNLIMITED = 1 << 60  # bytes


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


def machine_seconds() -> float:
    """The time that all cores have spent on all processes of the machine; 0 where unknown."""
    spent = _match_text(Path("/proc/stat"), r"^cpu +(\d+ \d+ \d+) ")  # user, nice, system
    ticks = sum(map(int, spent.split())) if spent else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def free_memory(root: Path = _CGROUPS, own: str | None = None, *, machine: Path = _MEMORY) -> int:
    """Bytes that this process and its children can take before the system or a cgroup kills.

    Cgroups of version 2 are mounted at `root`; this process's is `own`, else the kernel is asked.
    """
    if own is None:
        own = _match_text(Path("/proc/self/cgroup"), r"^0::(.*)$") or "/"
    available = _match(machine, r"^MemAvailable: +(\d+) kB$")
    free = [_UNLIMITED if available is None else available << 10]
    folder = root / own.strip("/")
    for place in (folder, *folder.parents):
        limit = _match(place / "memory.max", r"^(\d+)$")
        if limit is not None:
            # What the kernel holds of files is given back at once.
            used = _match(place / "memory.current", r"^(\d+)$") or 0
            free.append(limit - used + (_match(place / "memory.stat", r"^file (\d+)$") or 0))
    return max(0, min(free))


def _match(file: Path, pattern: str) -> int | None:
    found = _match_text(file, pattern)
    return None if found is None else int(found)


def _match_text(file: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, file.read_text(), re.MULTILINE)
    except (OSError, ValueError):  # not there
        return None
    return found[1] if found else None
