"""Memory, disk and cores, by files laid out as Linux lays them."""

import os
import shutil
import types

from pipelines.tools.doctor.machine import disk_check, machine_checks, memory_limit
from tests.pipelines.tools.doctor.checks import by_name


def test_the_least_limit_of_all_cgroups_above_counts(tmp_path):
    inner = tmp_path / "pod/container"
    inner.mkdir(parents=True)
    assert memory_limit(tmp_path, "/pod/container") is None
    (inner / "memory.max").write_text("max\n")
    assert memory_limit(tmp_path, "/pod/container") is None
    (tmp_path / "pod/memory.max").write_text("2000000000\n")
    assert memory_limit(tmp_path, "/pod/container") == 2_000_000_000
    (inner / "memory.max").write_text("1000000000\n")
    assert memory_limit(tmp_path, "/pod/container") == 1_000_000_000
    (tmp_path / "memory").mkdir()  # version 1
    (tmp_path / "memory/memory.limit_in_bytes").write_text(str(2**63 - 4096))
    assert memory_limit(tmp_path, "/") is None


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
