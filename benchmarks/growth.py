"""Measure how CPU seconds and peak memory grow with size, and print the exponents.

    python benchmarks/growth.py                                # all cases, at their own sizes
    python benchmarks/growth.py --case conversion --sizes 500000,1000000,2000000

Each size runs in its own process. An exponent of 1 is linear. It is computed from the last two
sizes, without the cost of starting the process. A case is a function of a size. It calls
`start_counting` after its setup.
"""

import argparse
import math
import multiprocessing
import os
import resource
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import growth_reading

_CLASSES = 1000
_started = 0.0


def start_counting() -> None:
    """Exclude everything used so far from the case's cost."""
    global _started
    _started = time.process_time()


class _Entry:
    """An entry as returned by `os.scandir`, of a simulated file or folder."""

    def __init__(self, folder: str, name: str, status: os.stat_result) -> None:
        self.name, self.path, self._status = name, f"{folder}/{name}", status

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self._status.st_mode)

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._status


class _Tree:
    """A simulated `os.scandir` of `train/<1,000 classes>/<photos>`, unordered like a disk."""

    def __init__(self, base: str, size: int) -> None:
        self._base, self._each = base, -(-size // _CLASSES)
        self._file, self._folder = os.stat(__file__), os.stat(base)

    def __call__(self, path: str) -> Any:
        below = os.path.relpath(path, self._base)
        depth = 0 if below == "." else below.count("/") + 1
        names = {
            0: ["train"],
            1: [f"n{number * 7919 % 10**8:08d}" for number in range(_CLASSES)],
        }.get(depth)
        if names is None:
            stem = below.rpartition("/")[2]
            return _Scan(
                _Entry(path, f"{stem}_{number * 48271 % 2147483647}.JPEG", self._file)
                for number in range(self._each)
            )
        return _Scan(_Entry(path, name, self._folder) for name in names)


class _Scan:
    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __enter__(self) -> Iterator[_Entry]:
        return self._entries

    def __exit__(self, *error: object) -> None:
        pass


def conversion(size: int) -> None:
    """List class folders of `size` photos, plan their shards, and make each shard's task.

    The folders are simulated: a disk would add its time for each file, and inodes.
    """
    from components.example_gen.file_plan import plan_shards
    from components.example_gen.inputs import InputSelection, layout_inputs, locate
    from components.example_gen.settings import ImageSettings
    from components.layouts.reading import read_layout

    settings = ImageSettings(target_shard_bytes=32 << 20)
    with tempfile.TemporaryDirectory() as base:
        start_counting()
        with mock.patch.object(os, "scandir", _Tree(base, size)):
            located = locate(InputSelection(base=base), is_source_file=bool)
        (inputs,) = layout_inputs(located, columns={})
        listing = read_layout(inputs, layout="auto")
        plan = plan_shards(listing, partition=None, settings=settings)
        assert sum(len(task.argument.entries) for task in plan.tasks) == listing.found >= size


# Cases by name: a function of a size.
CASES: dict[str, Callable[[int], None]] = {"conversion": conversion, **growth_reading.CASES}
SIZES: dict[str, tuple[int, ...]] = {
    "conversion": (250_000, 500_000, 1_000_000, 2_000_000),
    **growth_reading.SIZES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    parser.add_argument("--sizes", help="such as 1000,2000; default: each case's own")
    arguments = parser.parse_args()
    for name in arguments.case or CASES:
        sizes = [*map(int, arguments.sizes.split(","))] if arguments.sizes else SIZES[name]
        print(f"{name}\n| {'size':>11} | CPU s | us each | exponent | peak MB | bytes each |")
        print("|------------:|------:|--------:|---------:|--------:|-----------:|")
        before: tuple[int, float, float] | None = None
        for size in sizes:
            seconds, peak, own = measure(name, size)
            exponent, each = "", ""
            if before is not None:
                growth = math.log(size / before[0])
                exponent = f"{math.log(seconds / before[1]) / growth:.2f}"
                each = f"{(peak - before[2]) * 1e6 / (size - before[0]):.0f}"
            print(
                f"| {size:11,} | {seconds:5.1f} | {seconds / size * 1e6:7.2f} | {exponent:>8} "
                f"| {peak:7.0f} | {each:>10} |",
                flush=True,
            )
            before = size, seconds, peak
        print(f"The process itself, with its imports: {own:.0f} MB.\n")


def measure(name: str, size: int) -> tuple[float, float, float]:
    """Return a case's CPU seconds, and the peak and initial memory of its process in MB."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(name, size, sender))
    process.start()
    sender.close()
    try:
        found: tuple[float, float, float] = receiver.recv()
    except EOFError:
        sys.exit(f"{name} of {size:,}: the process ended early")
    process.join()
    return found


def _run(name: str, size: int, sender: Connection) -> None:
    CASES[name](1)  # exclude imports from the growth
    own = _peak()
    start_counting()
    CASES[name](size)
    sender.send((time.process_time() - _started, _peak(), own))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
