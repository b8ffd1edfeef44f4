"""Cores, memory, disk and shared memory that this process may use.

for check in machine_checks():
    print(check.message)
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipelines.tools.doctor.checks import Check, bad, ok, warn
from trainer_utils.machine import memory_limit, usable_cores
from trainer_utils.text_output import human_bytes

__all__ = ["disk_check", "machine_checks"]

_SHARED = Path("/dev/shm")
_LITTLE_MEMORY = 4 << 30  # TFX takes 1 GiB, ShardBalancer another by default, a trainer as much
_LITTLE_DISK, _NO_DISK = 10 * 10**9, 10**9
_LITTLE_SHARED = 1 << 30  # Docker gives 64 MiB, which NCCL does not do with
_UNLIMITED = 1 << 60


def machine_checks() -> Iterator[Check]:
    """All of them."""
    yield _cores()
    yield _memory()
    yield disk_check("disk", tempfile.gettempdir())
    yield _shared_memory()


def _cores() -> Check:
    usable, there = usable_cores(), os.cpu_count() or 1
    message = f"{usable} of {there} that this process may use"
    if usable < there:
        return warn(
            "cores",
            f"{message}: TensorFlow starts threads for all {there}",
            f"Set OMP_NUM_THREADS={usable} and TF_NUM_INTRAOP_THREADS={usable}; input_fn keeps to "
            "the limit by itself.",
        )
    return ok("cores", message)


def _memory() -> Check:
    limit = memory_limit()
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        there = _UNLIMITED
    usable = min(there, limit or _UNLIMITED)
    message = human_bytes(usable)
    if limit is not None and limit < there:
        message += f", the limit of the container (cgroup), of {human_bytes(there)}"
    if usable < _LITTLE_MEMORY:
        return warn(
            "memory",
            message,
            "Raise it, or set memory_bytes= of ShardBalancer and shuffle_bytes= of input_fn.",
        )
    return ok("memory", message)


def disk_check(name: str, folder: str, *, needed: int = 0) -> Check:
    """Free space in a folder.

    Args:
        name: of the check.
        folder: a local one, or one that will be made.
        needed: in bytes.
    """
    place = Path(os.path.abspath(folder))
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{human_bytes(free)} free in {folder!r}"
    cure = "Make room, or set TMPDIR." if name == "disk" else "Make room."
    if free < max(needed, _NO_DISK):
        if free < _NO_DISK:
            return bad(name, message, cure)
        message += f", less than the {human_bytes(needed)} that writing it again takes"
        return warn(name, message, cure)
    return ok(name, message) if free >= _LITTLE_DISK else warn(name, message, cure)


def _shared_memory() -> Check:
    if not _SHARED.is_dir():
        return ok("shared memory", f"no {_SHARED} on this system")
    size = shutil.disk_usage(_SHARED).total
    message = f"{human_bytes(size)} in {_SHARED}"
    if size < _LITTLE_SHARED:
        return warn(
            "shared memory",
            f"{message}: several GPUs (NCCL) and processes that share batches need more",
            "Run the container with --shm-size=1g, or mount a memory volume there.",
        )
    return ok("shared memory", message)
