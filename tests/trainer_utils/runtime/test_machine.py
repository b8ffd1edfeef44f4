"""The cores and the memory that this process may use, from simulated files of Linux."""

import errno
import os

import numpy as np
import pytest

from tests.make import run_python
from trainer_utils.core import extras
from trainer_utils.core.extras import forget_listed_folders, installed_version
from trainer_utils.runtime import machine


@pytest.fixture
def set_machine(monkeypatch, tmp_path):
    """Set the scheduler's cores and the text of `cpu.max` (None: no file); return the cores."""

    def change(cores: int, cpu_max: str | None):
        if cpu_max is not None:
            (tmp_path / "cpu.max").write_text(cpu_max)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
        return lambda: machine.usable_cores(tmp_path, tmp_path / "own")

    return change


@pytest.fixture
def version_1(tmp_path):
    """Write the cgroups of version 1 of a process in `/pod/container`, below two mounts."""
    own = tmp_path / "own"
    own.write_text("5:cpu,cpuacct:/pod/container\n4:memory:/pod/container\n0::/\n")
    for name in ("cpu", "memory"):
        (tmp_path / f"mounts/{name}/pod/container").mkdir(parents=True)
    return tmp_path / "mounts", own


@pytest.mark.parametrize(
    ("cores", "cpu_max", "expected"),
    [
        # no quota: all cores that the scheduler grants
        (8, None, 8),
        (8, "max 100000\n", 8),
        # a quota is rounded up to whole cores, and is never more than the scheduler grants
        (8, "201000 100000\n", 3),
        (8, "50000 100000\n", 1),
        (2, "800000 100000\n", 2),
        # invalid values are no quota
        (8, "200000\n", 8),
        (0, "garbage\n", 1),
    ],
)
def test_a_quota_lowers_the_cores_of_the_scheduler(set_machine, cores, cpu_max, expected):
    usable_cores = set_machine(cores, cpu_max)
    assert usable_cores() == expected


@pytest.mark.parametrize(
    ("folder", "quota", "expected"),
    [
        (".", "150000", 2),
        ("pod", "100000", 1),
        ("pod/container", "250000", 3),
        ("pod", "-1", 8),
        (".", None, 8),
    ],
)
def test_a_quota_of_version_1_lowers_the_cores(version_1, monkeypatch, folder, quota, expected):
    root, own = version_1
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (root / "cpu" / folder / "cpu.cfs_period_us").write_text("100000\n")
    if quota is not None:
        (root / "cpu" / folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    assert machine.usable_cores(root, own) == expected


def test_a_container_sees_its_own_limit_under_the_hosts_path(version_1, tmp_path):
    root, _ = version_1
    own = tmp_path / "of the host"
    own.write_text("4:memory:/docker/0123\n3:cpu:/docker/0123\n")
    (root / "memory/memory.limit_in_bytes").write_text("5000000\n")
    assert machine.free_memory(root, own, machine=tmp_path / "none") == 5_000_000


def test_memory_limits_of_version_1_count_without_the_page_cache(version_1, tmp_path):
    root, own = version_1
    folder = root / "memory/pod"
    (root / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (folder / "memory.limit_in_bytes").write_text("3000000\n")
    (folder / "memory.usage_in_bytes").write_text("2500000\n")
    stat = "cache 1\ntotal_inactive_file 400000\ntotal_active_file 100000\n"
    (folder / "memory.stat").write_text(stat)
    assert machine.free_memory(root, own, machine=tmp_path / "none") == 1_000_000


def test_without_affinity_all_cores_count(set_machine, monkeypatch, subtests):
    usable_cores = set_machine(3, "max 100000\n")
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, expected in ((6, 6), (None, 1)):
        with subtests.test(count=count):
            monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
            assert usable_cores() == expected


def test_free_memory_is_the_least_of_machine_and_cgroups(tmp_path):
    inner = tmp_path / "pod/container"
    inner.mkdir(parents=True)
    whole, own = tmp_path / "meminfo", tmp_path / "own"
    own.write_text("0::/pod/container\n")

    def free() -> int:
        return machine.free_memory(tmp_path, own, machine=whole)

    assert free() > 1 << 50  # no file has a limit
    whole.write_text("MemTotal:  9000 kB\nMemAvailable:    4000 kB\n")
    assert free() == 4000 << 10
    (tmp_path / "pod/memory.max").write_text("3000000\n")
    assert free() == 3_000_000
    (tmp_path / "pod/memory.current").write_text("2500000\n")
    (tmp_path / "pod/memory.stat").write_text("anon 1500000\nfile 1000000\nfile_mapped 7\n")
    assert free() == 1_500_000
    (inner / "memory.max").write_text("10\n")
    (inner / "memory.current").write_text("20\n")
    assert free() == 0


def test_free_memory_is_at_most_the_machines_memory():
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < machine.free_memory() <= there


@pytest.mark.parametrize("library", ["importlib", "importlib_metadata"])
def test_a_package_is_found_after_a_failed_listing(monkeypatch, library):
    if library == "importlib_metadata":  # once imported, it replaces Python's search
        pytest.importorskip(library)
    forget_listed_folders()
    listed, refused = os.listdir, []

    def refuse(path):
        if path not in refused:
            refused.append(path)
            raise OSError(errno.ENOMEM, "no memory")
        return listed(path)

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(extras, "_versions", {})
    assert installed_version("numpy") == np.__version__
    assert refused
    assert installed_version("no-such-package") == "not installed"


FORKED = """
import os, threading, time, warnings
from trainer_utils.runtime.single_flight import SingleFlightCache

made, is_begun, may_end = SingleFlightCache(4), threading.Event(), threading.Event()

def make():
    is_begun.set()
    may_end.wait()
    return "parent's"

thread = threading.Thread(target=made.get, args=("key", make))
thread.start()
is_begun.wait()
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, for a fork with threads
child = os.fork()
if not child:
    is_right = "key" not in made and made.get("key", lambda: "child's") == "child's"
    os._exit(0 if is_right else 1)
deadline = time.monotonic() + 20
while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
    time.sleep(0.01)
may_end.set()
print(ended[1] if ended[0] else "hangs", made.get("key", lambda: "again"))
if not ended[0]:
    os.kill(child, 9)
"""


def test_a_forked_process_makes_its_parents_pending_values():
    run = run_python(FORKED)
    assert (run.stdout.split(" ", 1), run.stderr) == (["0", "parent's\n"], "")
