"""Run one task of one program in this process and print its times as JSON, for `peers.py`.

    python benchmarks/peer_task.py web_dataset convert_photos photos/ out/

A task runs twice: the first run is that of a fresh process, whose files `peers.py` has dropped from
the page cache, the second is warm. `imports`, the seconds of the program's imports, is a figure of
the first run, apart from its `seconds`. `cpu` is the CPU time of this process
and of the children that it waited for, which depends least on how busy the machine is.
"""

import contextlib
import gc
import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any


def run_conversion(work: Any, source: str, target: str) -> list[dict[str, float]]:
    """Time both conversions, each to a folder that does not exist."""
    runs = []
    for place in (target, f"{target}-warm"):
        began, cpu = time.perf_counter(), cpu_seconds()
        work(source, place)
        runs.append({"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - cpu})
    return runs


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def read_epoch(batches: Iterable[Any], began: float) -> dict[str, float]:
    """Return the times since `began` of the first batch and of the epoch, and the records."""
    first, records, steps = 0.0, 0, 0
    for batch in batches:
        first = first or time.perf_counter() - began
        records, steps = records + len(batch[0]), steps + 1
    seconds = time.perf_counter() - began
    return {"first": first, "seconds": seconds, "records": records, "steps": steps}


def run_reading(open_reader: Any, *places: str) -> list[dict[str, float]]:
    """Time two epochs, then the first batch after resuming in the middle of one."""
    reader, runs = open_reader(*places), []
    for _ in range(2):
        began, cpu = time.perf_counter(), cpu_seconds()
        runs.append(read_epoch(reader.make(None), began))
        gc.collect()  # ends the processes of a loader
        runs[-1]["cpu"] = cpu_seconds() - cpu
    if reader.state is not None:
        middle = max(int(runs[-1]["steps"]) // 2, 1)
        source = reader.make(None)
        batches = iter(source)
        for _ in itertools.islice(batches, middle):
            pass
        state = reader.state(source, middle)
        del source, batches
        began = time.perf_counter()
        next(iter(reader.make(state)))
        runs[-1]["resume"] = time.perf_counter() - began
    return runs


def main(program: str, task: str, *places: str) -> dict[str, Any]:
    """Return the times of both runs. The first run also has `imports`."""
    began = time.perf_counter()
    module = importlib.import_module(f"peer_programs.{program}")
    imports = time.perf_counter() - began
    run = run_conversion if task.startswith("convert") else run_reading
    first, second = run(getattr(module, task), *places)
    return {"runs": [{"imports": imports, **first}, second]}


if __name__ == "__main__":
    answers = os.dup(1)  # some programs print their progress
    with open(answers, "w") as stream, contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        json.dump(main(*sys.argv[1:]), stream)
        stream.flush()
    # Threads and processes that a program leaves behind must not keep this one alive.
    os._exit(0)
