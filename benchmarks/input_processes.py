"""Measure the cost of batches by threads and by processes for the trainer's interpreter.

    python benchmarks/input_processes.py --workdir bench

The trainer's CPU is the time that its process spends on a photo. It limits the photos per second,
on any number of cores. Then decoding is replaced by a wait of equal length, so that eight processes
differ from one even on two cores.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from photos import make_jpegs

from trainer_utils import DatasetWriter, ImageOptions, iterate
from trainer_utils.runtime.machine import cpu_seconds

_WAIT_SECONDS = 0.004


def wait(image, rng):
    """Simulate the work on an image; other processes run in the meantime."""
    time.sleep(_WAIT_SECONDS)
    return image


def write(photos: Path, uri: str) -> None:
    with DatasetWriter(uri, num_shards={"train": 8}) as writer:
        for path in sorted(photos.rglob("*.jpg")):
            writer.write("train", {"image": path.read_bytes()})


def measure(uri: str, processes: int, **settings: object) -> tuple[float, float]:
    """Return seconds and the trainer's CPU seconds per photo, without the first epoch."""
    source = iterate(uri, batch_size=64, features="image", processes=processes, **settings)
    for _ in source:
        pass
    begin, cpu, count = time.perf_counter(), cpu_seconds(), 0
    for batch in source:
        count += len(batch)
    return (time.perf_counter() - begin) / count, (cpu_seconds() - cpu) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    uri = str(given.workdir / "input-processes")
    if not (Path(uri) / "manifest.json").exists():
        photos = given.workdir / "input-processes-photos"
        make_jpegs(photos, count=given.count)
        write(photos, uri)
    small = {"image_size": (224, 224), "image": ImageOptions(dct_scaling=True)}
    print("processes   us a photo   us of the trainer's CPU")
    for processes in (0, 1, 2):
        runs = [measure(uri, processes, **small) for _ in range(given.runs)]
        wall, cpu = (1e6 * statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{processes:9}   {wall:10.0f}   {cpu:10.0f}")
    sys.path.insert(0, str(Path(__file__).parent))
    from input_processes import wait as waiting  # the name that other processes import

    print(f"each image waits {1000 * _WAIT_SECONDS:.0f} ms:")
    for processes in (1, 8):
        wall, _ = measure(uri, processes, image_size=(32, 32), augment=[waiting])
        print(f"{processes:9}   {1e6 * wall:10.0f}")


if __name__ == "__main__":
    main()
