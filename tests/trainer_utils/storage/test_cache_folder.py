"""The cache's folder: its bound, its owner, what goes first, and what a killed process leaves."""

import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from trainer_utils import ConfigError
from trainer_utils.storage import cache_folder
from trainer_utils.storage.cache_folder import CacheFolder

KIB = 1 << 10
OWN = 64 * KIB  # of the cache's own files
REPOSITORY = Path(__file__).parents[3]


def name(number: int) -> str:
    return f"{number:016x}-0-1.part"


def taken(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_the_bound_holds_and_what_is_used_last_goes_first(tmp_path):
    uses = {name(n): float(use) for n, use in enumerate([50, 10, 90, 20, 70])}
    cache = CacheFolder(str(tmp_path), 3 * 8 * KIB + OWN)
    for copy, use in uses.items():
        cache.put(copy, bytes(8 * KIB), use=use, use_of=uses.get)
        assert taken(tmp_path) <= cache.most_bytes
    held = {copy for copy in uses if cache.holds(copy)}
    assert held == {name(0), name(1), name(3)}  # 90 went for 20; 70 did not come in
    assert cache.get(name(1)) == bytes(8 * KIB)
    assert cache.get(name(2)) is None


def test_what_is_larger_than_the_bound_is_not_kept(tmp_path):
    cache = CacheFolder(str(tmp_path), OWN)
    assert not cache.put(name(0), b"x", use=0, use_of=lambda name: 0.0)
    assert not cache.holds(name(0))


def test_half_of_the_free_disk_is_the_bound_where_none_is_set(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert CacheFolder(str(tmp_path), None).most_bytes == pytest.approx(free / 2, rel=0.2)


def test_only_copies_are_removed(tmp_path):
    cache = CacheFolder(str(tmp_path), OWN + 16 * KIB)
    theirs = [tmp_path / "precious", Path(cache.path, "notes.txt"), Path(cache.path, "x.part")]
    for path in theirs:
        path.write_bytes(b"mine")
    os.symlink(theirs[0], Path(cache.path, name(77)))
    for number in range(9):
        cache.put(name(number), bytes(4 * KIB), use=-number, use_of=lambda name: math.inf)
    CacheFolder(str(tmp_path), 0).put(name(99), b"", use=0, use_of=lambda name: math.inf)
    assert [path.read_bytes() for path in theirs] == [b"mine"] * 3


def test_a_copy_that_is_read_stays(tmp_path):
    cache = CacheFolder(str(tmp_path), OWN + 8 * KIB)
    cache.put(name(0), bytes(8 * KIB), use=9, use_of=lambda name: 9.0)
    pinned = cache.pin(name(0))
    assert not cache.put(name(1), bytes(KIB), use=1, use_of=lambda name: 9.0)
    os.close(pinned)
    assert cache.put(name(1), bytes(KIB), use=1, use_of=lambda name: 9.0)
    assert cache.pin(name(0)) is None


def test_processes_share_one_bound_and_a_killed_one_leaves_room(tmp_path):
    """Three processes fill a folder; one is killed at its work. Watched from outside."""
    most = 40 * 16 * KIB + OWN
    code = f"""
import itertools, os
from trainer_utils.storage.cache_folder import CacheFolder
cache = CacheFolder({str(tmp_path)!r}, {most})
uses = lambda name: float(hash(name) % 97)
for number in itertools.count():
    name = f"{{number * 7919 % 500:016x}}-{{os.getpid() % 3}}-1.part"
    cache.put(name, bytes(16384), use=uses(name), use_of=uses)
    if number == 5:
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
        ends = time.monotonic() + 3
        processes[0].send_signal(signal.SIGKILL)
        seen = 0
        while time.monotonic() < ends:
            sizes = []
            for file in os.scandir(tmp_path / "shards"):
                try:
                    sizes.append(file.stat().st_size)
                except FileNotFoundError:
                    continue
            seen = max(seen, sum(sizes))
            # A listing is no snapshot: a file that was removed and the one in its place both count.
            assert sum(sizes) <= most + 3 * 16 * KIB
        assert seen > most / 2
        assert all(process.poll() is None for process in processes[1:])
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
    cache = CacheFolder(str(tmp_path), most)
    assert not list(Path(cache.path).glob("*.tmp"))
    assert int(Path(cache.path, "bytes").read_text()) <= most


class _Reader:
    """Reads one copy after the other, and knows the order of this epoch and the next."""

    def __init__(self, folder: Path, most: int, orders: list[list[str]]) -> None:
        self.cache = CacheFolder(str(folder), most)
        self.cache.begin(0.0)
        self.reads = [copy for order in orders for copy in order]
        self.epoch, self.position, self.fetched = len(orders[0]), 0, 0

    def next_use(self, copy: str) -> float | None:
        """After the one that is being read."""
        known = self.reads[: (self.position // self.epoch + 2) * self.epoch]
        if copy not in known:
            return None
        later = known[self.position + 1 :]
        return self.position + 1.0 + later.index(copy) if copy in later else math.inf

    def read(self) -> str:
        copy = self.reads[self.position]
        use = self.next_use(copy)
        if self.cache.get(copy) is None:
            self.fetched += 1
            self.cache.put(copy, bytes(8 * KIB), use=use, use_of=self.next_use)
        else:
            self.cache.expect(copy, use)
        self.position += 1
        self.cache.position = float(self.position)
        return copy


def _offline_optimum(reads: list[str], room: int) -> int:
    """Copies to fetch where what is read last of all goes first (Belady), of a whole sequence."""
    kept: dict[str, float] = {}
    fetched = 0
    for at, copy in enumerate(reads):
        fetched += copy not in kept
        later = reads[at + 1 :]
        kept[copy] = later.index(copy) + at if copy in later else math.inf
        if len(kept) > room:
            del kept[max(kept, key=kept.__getitem__)]
    return fetched


# The share of the optimum that is allowed: of readers of disjoint slices, and of the same data,
# which let copies go each by its own plan.
@pytest.mark.parametrize(
    ("slices", "second_reads_every", "seconds", "most_by_optimum"),
    [(2, 1, 0.2, 1.05), (2, 1, 2.0, 1.05), (2, 2, 0.2, 1.05), (2, 2, 2.0, 1.05), (1, 1, 0.2, 1.5)],
)
def test_readers_that_share_a_folder_keep_what_both_use_soonest(
    tmp_path, monkeypatch, slices, second_reads_every, seconds, most_by_optimum
):
    """What each says of its own copies, as a time, is what the other goes by."""
    clock = types.SimpleNamespace(now=1e9)
    clock.monotonic = clock.time = lambda: clock.now
    monkeypatch.setattr(cache_folder, "time", clock)
    room, state = 30 * slices, random.Random(0)
    most = room * 8 * KIB + OWN
    own = [[f"{number:016x}-{at}-1.part" for at in range(60)] for number in (1, slices)]
    first, second = (
        _Reader(tmp_path, most, [state.sample(names, 60) for _ in range(4)]) for names in own
    )
    reads = []
    for step in range(len(first.reads)):
        for reader in (first, second)[: 2 if step % second_reads_every == 0 else 1]:
            clock.now += seconds
            reads.append(reader.read())
        assert taken(tmp_path) <= most
    fetched = first.fetched + second.fetched
    assert fetched <= most_by_optimum * _offline_optimum(reads, room) < 0.8 * len(reads)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_write_to_is_refused(tmp_path, mode):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=rf"cache: expected '{folder}' .* \(mode {mode:o}\)"):
        CacheFolder(str(folder), None)


def test_a_link_and_a_file_are_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    os.symlink(tmp_path, tmp_path / "link")
    for path in ("file", "link"):
        with pytest.raises(ConfigError, match="got no folder"):
            CacheFolder(str(tmp_path / path), None)
