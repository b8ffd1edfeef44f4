"""Measure conversion, balancing and reading on this stack; `make bench-stacks` compares two.

    python benchmarks/stacks.py --workdir bench         # a line of JSON for each work and stack
    python benchmarks/stacks.py --compare lines.txt     # a table with the ratio of the two stacks

The claim: TFX 1.21 is not slower than TFX 1.16. Rates are medians of several runs in one process,
after a warm-up. Of several lines for the same work and stack, the best counts.
"""

import argparse
import csv
import json
import os
import platform
import random
import re
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from common import make_jpegs

_PHOTOS, _ROWS, _RUNS = 1_000, 100_000, 5


def measure(workdir: Path) -> None:
    """Print the records per second of each work on this stack, a line of JSON for each."""
    from image_conversion import run_executor
    from shard_balancer import run_balancer
    from tfx.proto import example_gen_pb2

    import trainer_utils
    from components.image_example_gen import Executor as ImageExecutor
    from components.text_example_gen import Executor as TextExecutor

    def convert(kind: type, source: Path, target: Path) -> None:
        run_executor(kind, source, target, example_gen_pb2.Output())

    def read(uri: Path, **options: Any) -> None:
        for _ in trainer_utils.input_fn(str(uri), "train", batch_size=64, shuffle=True, **options):
            pass

    make_jpegs(workdir / "photos", count=_PHOTOS)
    _write_table(workdir / "table/texts.csv")
    photos, texts = workdir / "made-photos", workdir / "made-texts"
    for kind, source, made in (
        (ImageExecutor, workdir / "photos", photos),
        (TextExecutor, workdir / "table", texts),
    ):
        if not made.is_dir():
            convert(kind, source, made)
    works: dict[str, tuple[int, Callable[[Path], None]]] = {
        "photos converted": (_PHOTOS, lambda to: convert(ImageExecutor, workdir / "photos", to)),
        "texts converted": (_ROWS, lambda to: convert(TextExecutor, workdir / "table", to)),
        "photos balanced": (_PHOTOS, lambda to: run_balancer(photos, to)),
        "texts balanced": (_ROWS, lambda to: run_balancer(texts, to)),
        "photos read": (
            _PHOTOS * 2 // 3,
            lambda _: read(photos, features="image", image_size=(224, 224)),
        ),
        "texts read": (_ROWS * 2 // 3, lambda _: read(texts)),
    }
    versions = {name: metadata.version(name) for name in ("tfx", "tensorflow", "numpy")}
    for work, (records, run) in works.items():
        rate = records / _median_seconds(run, workdir / "out")
        print(json.dumps({"work": work, "rate": round(rate), "versions": versions}), flush=True)


def _median_seconds(run: Callable[[Path], None], target: Path) -> float:
    seconds = []
    for _ in range(_RUNS + 1):
        started = time.perf_counter()
        run(target)
        seconds.append(time.perf_counter() - started)
        shutil.rmtree(target, ignore_errors=True)
    return statistics.median(seconds[1:])


def _write_table(path: Path) -> None:
    words = re.findall("[a-z]+", "the quick brown fox jumps over lazy dogs while wizards juggle")
    random_state = random.Random(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label", "stars"])
        for number in range(_ROWS):
            text = " ".join(random_state.choices(words, k=16))
            writer.writerow([f"{number} {text}", ("good", "bad")[number % 2], number % 5])


def compare(path: Path) -> None:
    """Print the best rate of each work on each stack, and the newer one's ratio to the older."""
    rates: dict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            stack, work = entry["versions"]["tfx"], entry["work"]
            rates[work][stack] = max(entry["rate"], rates[work].get(stack, 0))
    old, new = sorted({stack for by_stack in rates.values() for stack in by_stack})
    print(f"{os.cpu_count()} cores, {platform.machine()}, records/s\n")
    print(f"| {'':16} | TFX {old:>6} | TFX {new:>6} | ratio |")
    print(f"|{'-' * 18}|-----------:|-----------:|------:|")
    for work, by_stack in rates.items():
        ratio = by_stack[new] / by_stack[old]
        print(f"| {work:16} | {by_stack[old]:10,} | {by_stack[new]:10,} | {ratio:5.2f} |")


def main() -> None:
    """Measure, or compare earlier measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--compare", type=Path)
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.compare)
    else:
        measure(arguments.workdir)


if __name__ == "__main__":
    main()
