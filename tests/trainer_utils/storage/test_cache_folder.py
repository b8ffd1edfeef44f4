"""Test the cache's folder: its limit, its owner, evictions, and killed processes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer_utils import ConfigError
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder

OWN = 64 << 10  # the maximum size of the cache's own files
REPOSITORY = Path(__file__).parents[3]


def name(number: int) -> str:
    return f"{number:016x}-shard"


def taken(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def part(copy: int, number: int, size: int = PART_BYTES) -> bytes:
    return random.Random(copy * 1000 + number).randbytes(size)


def test_stored_parts_are_visible_to_every_process(tmp_path, subtests):
    size = 2 * PART_BYTES + 5000
    copy = CacheFolder(str(tmp_path)).open(name(0), size)
    assert not copy.holds(0, 1)
    assert copy.store(2, part(0, 2, 5000))
    assert copy.store(0, part(0, 0))
    again = CacheFolder(str(tmp_path)).open(name(0), size)
    for one in (copy, again):
        with subtests.test(one=one):
            assert one.holds(0, PART_BYTES)
            assert one.holds(2 * PART_BYTES, size)
            assert not one.holds(PART_BYTES - 1, PART_BYTES + 1)
            assert not one.holds(0, size)
            assert one.read(0, PART_BYTES) == part(0, 0)
            assert one.read(2 * PART_BYTES, size) == part(0, 2, 5000)
    again.forget(5, 6)
    assert not copy.holds(0, 1)


def test_limit_holds_and_stored_parts_stay(tmp_path):
    most = 5 * PART_BYTES + OWN
    cache = CacheFolder(str(tmp_path), most)
    copies = [cache.open(name(n), 4 * PART_BYTES) for n in range(2)]
    kept = [(n, at) for at in range(4) for n in range(2) if copies[n].store(at, part(n, at))]
    assert kept == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert cache.is_full
    assert taken(tmp_path) <= most
    for n, at in kept:
        begin, end = at * PART_BYTES, (at + 1) * PART_BYTES
        assert copies[n].holds(begin, end)
        assert copies[n].read(begin, end) == part(n, at)
    assert copies[0].store(0, part(0, 0))  # already stored


def test_stale_copies_are_removed_for_new_ones(tmp_path, subtests):
    most = 3 * PART_BYTES + OWN
    for age, number in ((5000, 1), (10_000, 2), (0, 3)):
        with subtests.test(age=age):
            copy = CacheFolder(str(tmp_path), most).open(name(number), PART_BYTES // 2)
            assert copy.store(0, part(number, 0, PART_BYTES // 2))
            path = tmp_path / "shards" / name(number)
            del copy
            os.utime(path, (time.time() - age,) * 2)
    cache = CacheFolder(str(tmp_path), most)
    copy = cache.open(name(9), 3 * PART_BYTES)
    assert copy.store(0, part(9, 0))
    assert copy.store(1, part(9, 1))
    left = {path.name for path in (tmp_path / "shards").iterdir()}
    assert name(2) not in left  # the oldest is removed first
    assert {name(3), name(9)} <= left
    assert taken(tmp_path) <= most


def test_default_limit_is_half_of_the_free_disk(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert CacheFolder(str(tmp_path)).most_bytes == pytest.approx(free / 2, rel=0.2)


def test_only_copies_are_removed(tmp_path):
    cache = CacheFolder(str(tmp_path), OWN + PART_BYTES)
    theirs = [tmp_path / "precious", Path(cache.path, "notes.txt"), Path(cache.path, "x.part")]
    for path in theirs:
        path.write_bytes(b"mine")
    os.symlink(theirs[0], Path(cache.path, name(77)))
    for path in (*theirs, Path(cache.path, name(77))):
        os.utime(path, (0, 0), follow_symlinks=False)
    for number in range(4):
        if (copy := cache.open(name(number), PART_BYTES)) is not None:
            copy.store(0, part(number, 0))
    assert [path.read_bytes() for path in theirs] == [b"mine"] * 3
    cache.remove(name(0))
    assert not Path(cache.path, name(0)).exists()


def test_processes_share_a_limit_and_survive_a_killed_one(tmp_path):
    most = 40 * PART_BYTES + OWN
    code = f"""
import itertools, os
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder
cache = CacheFolder({str(tmp_path)!r}, {most})
copies = [cache.open(f"{{n:016x}}-shard", 8 * PART_BYTES) for n in range(16)]
for number in itertools.count(os.getpid()):
    copies[number % 16].store(number // 16 % 8, bytes(PART_BYTES))
    if number == os.getpid() + 5:
        print("at work", flush=True)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == b"at work\n"
        processes[0].send_signal(signal.SIGKILL)
        ends, seen = time.monotonic() + 2, 0
        while time.monotonic() < ends:
            seen = max(seen, taken(tmp_path))
            assert seen <= most
        assert seen > most / 2
        assert all(process.poll() is None for process in processes[1:])
    finally:
        for process in processes:
            process.kill()


def test_folder_that_others_may_write_to_raises(tmp_path, monkeypatch, subtests):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    CacheFolder()
    (own,) = tmp_path.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    CacheFolder()
    own.chmod(0o777)
    with pytest.raises(ConfigError, match=r"\(mode 777\)"):
        CacheFolder()
    shutil.move(own, tmp_path / "theirs")
    for make in (lambda: own.symlink_to(tmp_path / "theirs"), lambda: own.write_bytes(b"")):
        with subtests.test(make=make):
            make()
            with pytest.raises(ConfigError, match="got no folder"):
                CacheFolder()
            own.unlink()
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    (tmp_path / "tfx-shards-4000000").mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="got one of user"):
        CacheFolder()
