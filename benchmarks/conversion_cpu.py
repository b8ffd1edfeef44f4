"""Profile the CPU time per photo of ImageExampleGen's engine against a plain loop.

    python benchmarks/conversion_cpu.py --workdir bench --target /dev/shm/bench --count 1000

Both run in this process, in turn, in one thread and without TFX. So their ratio is meaningful even
on a busy machine. The loop reads a file, encodes an example of two features, frames it with
google-crc32c and writes it. With `--tensorflow` a loop with TensorFlow's writer runs as well. `list
and plan` is the part of the process that hands out the work.

The goals: 1.3 times the loop of TensorFlow's writer, and 10 µs a photo to list and plan.
"""

import argparse
import cProfile
import pstats
import shutil
import statistics
import struct
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
from photos import make_jpegs

from components import steps
from components.example_gen.settings import ImageSettings
from trainer_utils.format import encode_example

_PROFILED = 30  # functions


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def run_loop(photos: Path, target: Path) -> dict[str, float]:
    """Write photos with the least work: no split, no order, no decoding, no reading back."""
    with (target / "data").open("wb") as stream:
        for path in sorted(photos.rglob("*.jpg")):
            with path.open("rb", buffering=0) as photo:
                data = photo.read()
            features = {"image": data, "label": path.parent.name.encode()}
            record = b"".join(encode_example(features))
            head = struct.pack("<Q", len(record))
            stream.write(b"".join((head, _masked(head), record, _masked(record))))
    return {}


def run_tensorflow_loop(photos: Path, target: Path) -> dict[str, float]:
    """Write photos with TensorFlow's writer, like the author of a stock ExampleGen."""
    from plain_loops import run_loop as run

    run(photos, target)
    return {}


def run_engine(photos: Path, target: Path) -> dict[str, float]:
    """Run the engine in one process; return its times, including the launcher's part."""
    from components.runtime.runners import Runner

    uri, runner = str(target / "examples"), Runner(processes=1)
    started = time.process_time()
    conversion = steps.conversion_of(str(photos), ImageSettings(), runner)
    plan = conversion.plan(uri)
    conversion.key()
    listed = time.process_time() - started
    started = time.process_time()
    conversion.write(plan, uri)
    return {"list and plan": listed, "write": time.process_time() - started}


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--target", type=Path, default=Path("/dev/shm/bench"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tensorflow", action="store_true", help="a loop of its writer as well")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    photos = arguments.workdir.resolve() / f"photos-{arguments.count}"
    megabytes = make_jpegs(photos, count=arguments.count)
    ways: dict[str, Callable[[Path, Path], dict[str, float]]]
    ways = {"plain loop": run_loop, "engine": run_engine}
    if arguments.tensorflow:
        ways["plain TFRecordWriter loop"] = run_tensorflow_loop
    spent: dict[str, list[float]] = {}
    for run in range(arguments.runs + 1):
        for name, way in ways.items():
            shutil.rmtree(arguments.target, ignore_errors=True)
            arguments.target.mkdir(parents=True)
            started = time.process_time()
            shares = way(photos, arguments.target)
            shares = {name: time.process_time() - started, **shares}
            for share, seconds in shares.items() if run else ():
                spent.setdefault(share, []).append(seconds)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    print(f"{arguments.count} photos, {megabytes:.0f} MB, median of {arguments.runs} runs\n")
    print("| µs of CPU a photo | median | least | times the loop |\n|---|---:|---:|---:|")
    for name, seconds in medians.items():
        least, ratio = min(spent[name]), seconds / medians["plain loop"]
        figures = [seconds / arguments.count * 1e6, least / arguments.count * 1e6]
        print(f"| {name} | {figures[0]:.0f} | {figures[1]:.0f} | {ratio:.2f} |")
    if arguments.profile:
        shutil.rmtree(arguments.target)
        profile = cProfile.Profile()
        profile.runcall(run_engine, photos, arguments.target)
        pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILED)
    shutil.rmtree(arguments.target)


if __name__ == "__main__":
    main()
