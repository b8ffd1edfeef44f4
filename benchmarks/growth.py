"""Measure how cost grows with size: CPU seconds, calls, bytes and memory, with their exponents.

    python benchmarks/growth.py                                # all cases, at their own sizes
    python benchmarks/growth.py --case conversion --sizes 500000,1000000,2000000
    python benchmarks/growth.py --small                        # seconds; fails above 1.2

Each size runs in its own process. An exponent of 1 is linear. It is computed from the last two
sizes, without the cost of starting the process. A case is a function of a size. It calls
`start_counting` after its setup. With `--small`, three small sizes of each case on files run in one
process, and only calls and bytes count: their exponents are of the increases from size to size, so
that a fixed cost does not hide growth.
"""

import argparse
import math
import multiprocessing
import os
import resource
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import growth_files
import growth_launcher
import growth_reading
from growth_counting import Cost, counted, start_counting

_CLASSES = 1000
_MAX_EXPONENT = 1.2
_FEW_CALLS, _FEW_BYTES = 100, 256 << 10  # increases below these are noise


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
    from components.example_gen.input_selection import InputSelection, layout_inputs, locate
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
CASES: dict[str, Callable[[int], None]] = {
    "conversion": conversion,
    **growth_launcher.CASES,
    **growth_reading.CASES,
    **growth_files.CASES,
}
SIZES: dict[str, tuple[int, ...]] = {
    "conversion": (250_000, 500_000, 1_000_000, 2_000_000),
    **growth_launcher.SIZES,
    **growth_reading.SIZES,
    **growth_files.SIZES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    parser.add_argument("--sizes", help="such as 1000,2000; default: each case's own")
    parser.add_argument("--small", action="store_true", help="small sizes; fail above 1.2")
    arguments = parser.parse_args()
    if arguments.small:
        sys.exit(check_small(arguments.case or [*growth_files.SMALL]))
    for name in arguments.case or CASES:
        sizes = [*map(int, arguments.sizes.split(","))] if arguments.sizes else SIZES[name]
        print(
            f"{name}\n| {'size':>14} | CPU s | exp. | {'calls':>9} | exp. | {'MB':>8} | exp. "
            "| peak MB | bytes each |"
        )
        print(
            "|---------------:|------:|-----:|----------:|-----:|---------:|-----:|--------:|-----------:|"
        )
        before: tuple[int, Cost, float] | None = None
        for size in sizes:
            cost, peak, own = measure(name, size)
            exponents, each = ["", "", ""], ""
            if before is not None:
                pairs = zip(_numbers(before[1]), _numbers(cost), strict=True)
                exponents = [_exponent(before[0], size, *pair) for pair in pairs]
                each = f"{(peak - before[2]) * 1e6 / (size - before[0]):.0f}"
            print(
                f"| {size:14,} | {cost.seconds:5.1f} | {exponents[0]:>4} | {cost.calls:9,} "
                f"| {exponents[1]:>4} | {cost.bytes / 1e6:8,.1f} | {exponents[2]:>4} "
                f"| {peak:7.0f} | {each:>10} |",
                flush=True,
            )
            before = size, cost, peak
        print(f"The process itself, with its imports: {own:.0f} MB.\n")


def _numbers(cost: Cost) -> tuple[float, float, float]:
    return cost.seconds, cost.calls, cost.bytes


def _exponent(size: int, larger: int, cost: float, higher: float) -> str:
    if cost <= 0 or higher <= 0:
        return ""
    return f"{math.log(higher / cost) / math.log(larger / size):.2f}"


def check_small(names: Sequence[str]) -> int:
    """Print the exponents of calls and bytes at small sizes; return 1 if one is too large."""
    failed = 0
    for name in names:
        sizes = growth_files.SMALL[name]
        costs = _in_process(_run_small, name)
        if isinstance(costs, str):
            print(f"{name}: left out, {costs}")
            continue
        parts = []
        for unit, least, values in (
            ("calls", _FEW_CALLS, [cost.calls for cost in costs]),
            ("bytes", _FEW_BYTES, [cost.bytes for cost in costs]),
        ):
            first, second = values[1] - values[0], values[2] - values[1]
            exponent = 0.0
            if first > 0 and second > least:
                exponent = math.log(second / first) / math.log(sizes[2] / sizes[1])
            failed |= exponent > _MAX_EXPONENT
            numbers = ", ".join(f"{value:,}" for value in values)
            parts.append(f"{unit} {numbers}, exponent {exponent:.2f}")
        print(f"{name} of {sizes}: {'; '.join(parts)}", flush=True)
    if failed:
        print(f"An exponent is above {_MAX_EXPONENT}: something grows faster than the data.")
    return int(failed)


def measure(name: str, size: int) -> tuple[Cost, float, float]:
    """Return a case's cost, and the peak and initial memory of its process in MB."""
    found: tuple[Cost, float, float] = _in_process(_run, name, size)
    return found


def _in_process(function: Callable[..., None], *arguments: Any) -> Any:
    """Call a function in a separate process, and return the object that it sends."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=function, args=(sender, *arguments)
    )
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        sys.exit(f"{arguments}: the process ended early")
    process.join()
    return found


def _run(sender: Connection, name: str, size: int) -> None:
    CASES[name](1)  # exclude imports from the growth
    own = _peak()
    start_counting()
    CASES[name](size)
    sender.send((counted(), _peak(), own))


def _run_small(sender: Connection, name: str) -> None:
    costs = []
    try:
        for size in (1, *growth_files.SMALL[name]):
            start_counting()
            CASES[name](size)
            costs.append(counted())
    except BaseException as error:
        if type(error).__name__ != "Skipped":  # by pytest: the case needs a server
            raise
        sender.send(str(error))
    else:
        sender.send(costs[1:])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
