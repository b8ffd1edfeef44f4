"""How much of the machine this process may use, and has used.

usable_cores()     # 2
free_memory()      # 21_474_836_480
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_seconds", "free_memory", "machine_seconds", "memory_limit", "usable_cores"]

_CGROUPS = Path("/sys/fs/cgroup")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: "<quota> <period>" or "max <period>"
_MEMORY = Path("/proc/meminfo")
_UNLIMITED = 1 << 60  # bytes; cgroup v1 writes a number of that kind where there is no limit
# Of a cgroup's folder, by its version: limit, use, and what of the use can be given back at once.
_MEMORY_FILES = (
    ("memory.max", "memory.current", r"^file (\d+)$"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", r"^total_cache (\d+)$"),
)


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


def memory_limit(root: Path = _CGROUPS, own: str | None = None) -> int | None:
    """The cgroup's limit in bytes, of version 2 or 1, the least of all above; None where none is.

    Args:
        root: where cgroups are mounted.
        own: the path of this process's cgroup; None: asked of the kernel.
    """
    return min((limit for limit, _ in _memory_bounds(root, own)), default=None)


def free_memory(root: Path = _CGROUPS, own: str | None = None, *, machine: Path = _MEMORY) -> int:
    """Bytes that this process and its children can take before the system or a cgroup kills.

    Args:
        root, own: as of `memory_limit`.
        machine: the kernel's account of the whole machine.
    """
    available = _match(machine, r"^MemAvailable: +(\d+) kB$")
    free = [left for _, left in _memory_bounds(root, own)]
    return max(0, min([_UNLIMITED if available is None else available << 10, *free]))


def _memory_bounds(root: Path, own: str | None) -> Iterator[tuple[int, int]]:
    """The limit of each cgroup that this process is in, where it has one, and what is left."""
    if own is None:
        own = _match_text(Path("/proc/self/cgroup"), r"^0::(.*)$") or "/"
    folder = root / own.strip("/")
    places = [path for path in (folder, *folder.parents) if root in (path, *path.parents)]
    for place in [*places, root / "memory"]:
        for limit_file, used_file, cached in _MEMORY_FILES:
            limit = _match(place / limit_file, r"^(\d+)$")
            if limit is not None and limit < _UNLIMITED:
                used = _match(place / used_file, r"^(\d+)$") or 0
                yield limit, limit - used + (_match(place / "memory.stat", cached) or 0)


def _match(file: Path, pattern: str) -> int | None:
    found = _match_text(file, pattern)
    return None if found is None else int(found)


def _match_text(file: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, file.read_text(), re.MULTILINE)
    except (OSError, ValueError):  # not there
        return None
    return found[1] if found else None
