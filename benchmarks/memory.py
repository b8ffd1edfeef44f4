"""Show that settings bound memory, not the data: peaks of separate processes.

    python benchmarks/memory.py --workdir bench  # 1 and 10 million rows; 20 epochs; a 1 GB buffer

Resident memory includes pages of mapped libraries. TensorFlow and TFX alone take some 700 MB, which
the first line of each group shows.
"""

import argparse
import multiprocessing
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from text_conversion import write_tables

_MEGA = 1_000_000


def nothing() -> None:
    import tensorflow  # noqa: F401
    from tfx import v1  # noqa: F401


def convert(table: Path, target: Path) -> None:
    from image_conversion import run_executor
    from tfx.proto import example_gen_pb2

    from components.text_example_gen import Executor

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    splits = [example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=1)]
    config = example_gen_pb2.SplitConfig(splits=splits)
    run_executor(Executor, table.parent, target, example_gen_pb2.Output(split_config=config))


def read(uri: str, epochs: int, **settings: Any) -> None:
    """Print the resident memory after each quarter of the epochs."""
    import trainer_utils

    dataset = trainer_utils.input_fn(uri, "train", batch_size=256, **settings)
    for epoch in range(1, epochs + 1):
        for _ in dataset:
            pass
        if epoch % max(epochs // 4, 1) == 0:
            print(f"  after epoch {epoch}: {_resident():.0f} MB resident")


def measured(name: str, work: Callable[..., None], *arguments: Any, **settings: Any) -> None:
    """Run work in a new process and print its peak."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_run, args=(name, work, arguments, settings))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{name}: exit status {process.exitcode}")


def _run(name: str, work: Callable[..., None], arguments: Any, settings: Any) -> None:
    work(*arguments, **settings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MEGA
    print(f"{name}: at most {peak:.0f} MB", flush=True)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / _MEGA


def repeat_rows(table: Path, times: int) -> Path:
    """Write the table with its rows repeated `times` times, and return its path."""
    target = table.parent.parent / f"csv-{times}-times" / "data.csv"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        header, rows = table.read_bytes().split(b"\n", 1)
        with target.open("wb") as stream:
            stream.write(header + b"\n")
            for _ in range(times):
                stream.write(rows)
    return target


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    workdir = parser.parse_args().workdir.resolve()
    table, _ = write_tables(workdir, rows=_MEGA)
    measured("TensorFlow and TFX imported", nothing)
    measured("1 million rows, TextExampleGen", convert, table, workdir / "rows")
    measured("10 million rows", convert, repeat_rows(table, 10), workdir / "many-rows")
    rows, many_rows = str(workdir / "rows"), str(workdir / "many-rows")
    measured("input_fn, 1 million rows in order, 20 epochs", read, rows, 20, shuffle=False)
    measured("input_fn, shuffled, 20 epochs", read, rows, 20)
    measured("input_fn, 10 million rows in order", read, many_rows, 2, shuffle=False)
    measured("input_fn, 10 million rows, shuffled globally", read, many_rows, 2, shuffle="global")


if __name__ == "__main__":
    main()
