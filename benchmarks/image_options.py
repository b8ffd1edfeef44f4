"""Compare ImageExampleGen's options for faster training: bytes on disk, and images/s read.

    python benchmarks/image_options.py --workdir bench        # 2,000 photos

`input_fn` reads each dataset with `image_size=(224, 224)` in batches of 64; raw images have that
size already.
"""

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from common import make_jpegs
from image_conversion import run_executor
from tfx.proto import example_gen_pb2

from components.image_example_gen import Executor
from trainer_utils import input_fn

_OPTIONS: dict[str, dict[str, Any]] = {
    "as they are": {},
    "resize_shorter_side=256": {"resize_shorter_side": 256},
    "resize_shorter_side=256, quality=85": {"resize_shorter_side": 256, "quality": 85},
    "encoding='raw', resize_shorter_side=224": {"resize_shorter_side": 224, "encoding": "raw"},
}


def read_rate(uri: str, runs: int = 5) -> float:
    """Return the images per second of an epoch, the median of the runs after a warm-up."""
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        images = sum(
            len(batch)
            for batch in input_fn(uri, "train+eval", features="image", image_size=(224, 224))
        )
        seconds.append(time.perf_counter() - started)
    return images / statistics.median(seconds[1:])


def main() -> None:
    """Measure all options and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=2_000)
    arguments = parser.parse_args()
    workdir = arguments.workdir.resolve()
    photos = workdir / f"photos-{arguments.count}"
    make_jpegs(photos, count=arguments.count)
    print("| option | conversion, images/s | KB an image | input_fn, images/s |")
    print("|---|---:|---:|---:|")
    for name, options in _OPTIONS.items():
        target = workdir / "out"
        shutil.rmtree(target, ignore_errors=True)
        started = time.perf_counter()
        run_executor(Executor, photos, target, example_gen_pb2.Output(), **options)
        converted = arguments.count / (time.perf_counter() - started)
        manifest = json.loads((target / "manifest.json").read_text())
        size = sum(shard["bytes"] for shard in manifest["shards"]) / arguments.count / 1000
        print(f"| {name} | {converted:.0f} | {size:.0f} | {read_rate(str(target)):.0f} |")


if __name__ == "__main__":
    main()
