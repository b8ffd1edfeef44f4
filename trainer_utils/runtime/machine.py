"""Cores and memory that this process may use and has used.

usable_cores()     # 2
free_memory()      # 21_474_836_480
"""

import os
import re
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")
_UNLIMITED = 1 << 60  # bytes


def usable_cores(root: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> int:
    """Return the number of cores left to this process by the scheduler and the container's quota.

    Args:
        root: the mount point of cgroups of either version.
        own: the file that lists this process's cgroups.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [cores or 1]
    for folder in _cgroups(root, own, ""):
        quota = _match_text(folder / "cpu.max", r"^(\d+) \d+$")  # "max": no quota
        period = _match(folder / "cpu.max", r"^\d+ (\d+)$")
        if quota and period:
            limits.append(-(-int(quota) // period))
    for folder in _cgroups(root, own, "cpu"):
        quota = _match_text(folder / "cpu.cfs_quota_us", r"^(\d+)$")  # -1: no quota
        period = _match(folder / "cpu.cfs_period_us", r"^(\d+)$")
        if quota and period:
            limits.append(-(-int(quota) // period))
    return max(1, min(limits))


def cpu_seconds() -> float:
    """Return the seconds that all cores together have spent on this process."""
    spent = os.times()
    return spent.user + spent.system


def machine_seconds() -> float:
    """Return the seconds that all cores have spent on all processes, or 0 if unknown."""
    spent = _match_text(Path("/proc/stat"), r"^cpu +(\d+ \d+ \d+) ")  # user, nice, system
    ticks = sum(map(int, spent.split())) if spent else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def free_memory(root: Path = _CGROUPS, own: Path = _OWN_CGROUPS, *, machine: Path = _MEMORY) -> int:
    """Return the bytes that this process and its children can use before they are killed.

    Args:
        root: the mount point of cgroups of either version.
        own: the file that lists this process's cgroups.
        machine: the file that contains the machine's free memory.
    """
    available = _match(machine, r"^MemAvailable: +(\d+) kB$")
    free = [_UNLIMITED if available is None else available << 10]
    for folder in _cgroups(root, own, ""):
        limit = _match(folder / "memory.max", r"^(\d+)$")
        if limit is not None:
            # The kernel frees the page cache when memory is needed.
            used = _match(folder / "memory.current", r"^(\d+)$") or 0
            free.append(limit - used + (_match(folder / "memory.stat", r"^file (\d+)$") or 0))
    for folder in _cgroups(root, own, "memory"):
        limit = _match(folder / "memory.limit_in_bytes", r"^(\d+)$")
        if limit is not None:  # near 2**63 without a limit
            used = _match(folder / "memory.usage_in_bytes", r"^(\d+)$") or 0
            stat = folder / "memory.stat"
            for kind in ("active", "inactive"):
                used -= _match(stat, rf"^total_{kind}_file (\d+)$") or 0
            free.append(limit - used)
    return max(0, min(free))


def _cgroups(root: Path, own: Path, controller: str) -> list[Path]:
    """Return the folders of this process's cgroup and its ancestors.

    Args:
        root: the mount point of cgroups.
        own: the file that lists this process's cgroups.
        controller: a controller of version 1, such as `memory`; empty for version 2.
    """
    name = rf"(?:[^:\n]*,)?{controller}(?:,[^:\n]*)?" if controller else ""
    path = _match_text(own, rf"^\d+:{name}:(.*)$")
    mount = root / controller if controller else root
    if path is None and controller:
        return []
    # In a container the path is often the host's, which is not mounted there.
    folder = mount / (path or "/").strip("/")
    return [
        folder,
        *(folder_above for folder_above in folder.parents if folder_above.is_relative_to(mount)),
    ]


def _match(file: Path, pattern: str) -> int | None:
    text = _match_text(file, pattern)
    return None if text is None else int(text)


def _match_text(file: Path, pattern: str) -> str | None:
    try:
        match = re.search(pattern, file.read_text(), re.MULTILINE)
    except (OSError, ValueError):  # no such file
        return None
    return match[1] if match else None
