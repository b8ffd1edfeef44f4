"""Memory, disk and cores, by files laid out as Linux lays them."""

import os
import shutil
import types

from pipelines.tools.doctor.machine import disk_check, machine_checks
from tests.pipelines.tools.doctor.checks import by_name


def test_little_memory_disk_and_shared_memory_are_told(monkeypatch):
    from pipelines.tools.doctor import machine

    monkeypatch.setattr(machine, "memory_limit", lambda: 2_000_000_000)
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    sizes = types.SimpleNamespace(total=64 << 20, free=500_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: sizes)
    checks = by_name(machine_checks())
    assert (checks["memory"].level, checks["disk"].level) == ("warn", "bad")
    assert "2.0 GB, the limit of the container (cgroup)" in checks["memory"].message
    assert "OMP_NUM_THREADS=2" in checks["cores"].cure
    assert "--shm-size" in checks["shared memory"].cure


def test_space_is_looked_for_where_the_folder_will_be(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    check = disk_check("out", str(tmp_path / "not/yet/there"), needed=free * 2)
    assert check.level in ("warn", "bad")
    assert "not/yet/there" in check.message
