"""The cores that this process may use."""

import os

import pytest

from trainer_utils import machine


@pytest.fixture
def set_machine(monkeypatch, tmp_path):
    """Puts the process on so many cores, under a cgroup with this `cpu.max` (None: no file)."""

    def change(cores: int, cpu_max: str | None) -> None:
        limit = tmp_path / "cpu.max"
        if cpu_max is not None:
            limit.write_text(cpu_max)
        monkeypatch.setattr(machine, "_CGROUP_LIMIT", limit)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)

    return change


@pytest.mark.parametrize(
    ("cores", "cpu_max", "expected"),
    [
        # no quota: all cores that the scheduler grants
        (8, None, 8),
        (8, "max 100000\n", 8),
        (1, "max 100000\n", 1),
        # a quota is rounded up to whole cores, and is never more than the scheduler grants
        (8, "300000 100000\n", 3),
        (8, "250000 100000\n", 3),
        (8, "201000 100000\n", 3),
        (8, "50000 100000\n", 1),
        (8, "1000 100000\n", 1),
        (2, "800000 100000\n", 2),
        (8, "20000 10000\n", 2),
        # what no kernel writes is no quota
        (8, "", 8),
        (8, "garbage\n", 8),
        (8, "two cores\n", 8),
        (8, "200000\n", 8),
        (8, "200000 100000 1\n", 8),
        (0, "garbage\n", 1),
    ],
)
def test_a_quota_lowers_the_cores_of_the_scheduler(set_machine, cores, cpu_max, expected):
    set_machine(cores, cpu_max)
    assert machine.usable_cores() == expected


@pytest.mark.parametrize(("count", "expected"), [(6, 6), (None, 1)])
def test_where_there_is_no_affinity_all_cores_count(set_machine, monkeypatch, count, expected):
    set_machine(3, "max 100000\n")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert machine.usable_cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_a_process_bound_to_one_core_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert machine.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
