"""Shared helpers of the benchmarks: photos, medians of alternating runs, a table.

photos = make_jpegs(folder, count=3000)
compare({"ours": run_ours, "plain loop": run_loop}, records=3000, megabytes=321.0, target=…)
"""

import os
import platform
import shutil
import statistics
import textwrap
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from photos import make_jpegs

__all__ = ["compare", "make_jpegs", "texts_of_this_machine"]

_PACKAGES = ("tensorflow", "tfx", "apache-beam", "numpy", "pillow")


def texts_of_this_machine(*, count: int, characters: int) -> list[str]:
    """Return real English: different pieces of the texts of the installed packages."""
    words: list[str] = []
    for package in sorted(metadata.distributions(), key=lambda d: d.metadata["Name"].lower()):
        words += (package.read_text("METADATA") or "").split()
        if len(words) > 40 * count:
            break
    lines = textwrap.wrap(" ".join(words), characters)
    return list(dict.fromkeys(lines))[:count]


def compare(
    peers: dict[str, Callable[[Path], None]],
    *,
    records: int,
    megabytes: float,
    target: Path,
    runs: int = 3,
    others_cpu_seconds: Callable[[], float] = lambda: 0.0,
) -> dict[str, float]:
    """Run all peers in turn, `runs` times after a warm-up, and print a table.

    Args:
        peers: the functions by name. The others are compared with the first one. Each gets an empty
            folder to write to; creating and removing it is not timed.
        records: the number of records that one run handles.
        megabytes: the MB that one run handles.
        target: the folder to write to.
        runs: the number of timed runs of each peer.
        others_cpu_seconds: returns the CPU seconds of long-running processes that work for a peer.

    Returns:
        Records per second by name, from the median of the runs.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    spent: dict[str, list[float]] = {name: [] for name in peers}
    cpu_seconds = lambda: _cpu_seconds() + others_cpu_seconds()  # noqa: E731
    for run in range(runs + 1):
        for name, work in peers.items():
            shutil.rmtree(target, ignore_errors=True)  # left by an interrupted run
            target.mkdir(parents=True)
            started, cpu = time.perf_counter(), cpu_seconds()
            work(target)
            if run:
                seconds[name].append(time.perf_counter() - started)
                spent[name].append(cpu_seconds() - cpu)
            shutil.rmtree(target)
    rates = {name: records / statistics.median(times) for name, times in seconds.items()}
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in _PACKAGES)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    print(f"{versions}\n{records} records, {megabytes:.0f} MB, median of {runs} runs\n")
    first = next(iter(rates.values()))
    print(f"| {'':32} | records/s | MB/s | ours is | us of CPU |")
    print(f"|{'-' * 34}|----------:|-----:|--------:|----------:|")
    for name, rate in rates.items():
        speed = rate * megabytes / records
        # CPU time depends least on how busy the machine is.
        cpu = statistics.median(spent[name]) / records * 1e6
        print(f"| {name:32} | {rate:9.0f} | {speed:4.0f} | {first / rate:6.2f}x | {cpu:9.0f} |")
    print()
    return rates


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
