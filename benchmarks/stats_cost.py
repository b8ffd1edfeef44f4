"""The cost of `stats()`: inputs that count their work against inputs that do not.

    python benchmarks/stats_cost.py

Two runs alternate in one process: as released, and with counters and clocks that do nothing. The
ratio of their CPU seconds is printed for small records, the worst case, and for photos. With other
work on the machine it varies by more than counting costs. So the cost of the counting alone is
printed too.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import trainer_utils
from trainer_utils.reading import input_stats

_REPEATS = 100  # of the counting of an epoch


def write_records(folder: Path, count: int) -> str:
    """Write small records: an id and a short text."""
    with trainer_utils.DatasetWriter(folder, num_shards={"train": 4}) as writer:
        for number in range(count):
            writer.write("train", {"id": number, "text": b"some words of a review " * 4})
    return str(folder)


def write_photos(folder: Path, count: int) -> str:
    """Write JPEGs of noise that was smoothed, some 40 KB each."""
    import io

    from PIL import Image

    draw = np.random.default_rng(0)
    with trainer_utils.DatasetWriter(folder, num_shards={"train": 2}) as writer:
        for number in range(count):
            small = draw.integers(0, 256, (94, 125, 3), np.uint8)
            stream = io.BytesIO()
            Image.fromarray(small).resize((500, 375)).save(stream, "JPEG")
            writer.write("train", {"image": stream.getvalue(), "label": number % 10})
    return str(folder)


def _add_nothing(self: object, **amounts: int) -> None:
    """Replace `StageCounters.add`."""


def _without_clock(self: object, items: Iterator[Any]) -> Iterator[Any]:
    """Replace `WaitClock.measure`."""
    return items


def without_stats() -> list[Any]:
    """Return contexts that together switch counting off."""
    return [
        mock.patch.object(input_stats.StageCounters, "add", _add_nothing),
        mock.patch.object(input_stats.WaitClock, "measure", _without_clock),
    ]


def seconds_of(read: Callable[[], None], *, counts: bool) -> float:
    """Return the CPU seconds of one run, with or without counting.

    Elapsed seconds depend on what else the machine does.
    """
    patches = [] if counts else without_stats()
    for patch in patches:
        patch.start()
    try:
        started = time.process_time()
        read()
        return time.process_time() - started
    finally:
        for patch in patches:
            patch.stop()


def compare(name: str, read: Callable[[], None], runs: int) -> None:
    """Print the ratio of interleaved runs: the median, and the range of its middle half."""
    read()
    ratios = []
    for number in range(runs):
        first = bool(number % 2)
        times = {counts: seconds_of(read, counts=counts) for counts in (first, not first)}
        ratios.append(times[True] / times[False])
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"{name}: {middle:.4f} of the time without stats ({low:.4f} to {high:.4f}), {runs} pairs")


def measure_counting(name: str, source: Any) -> None:
    """Print the CPU seconds of the counting of one epoch alone, as a share of the epoch's."""
    calls = [0]
    add = input_stats.StageCounters.add

    def counted_add(self: input_stats.StageCounters, **amounts: int) -> None:
        calls[0] += 1
        add(self, **amounts)

    with mock.patch.object(input_stats.StageCounters, "add", counted_add):
        started = time.process_time()
        batches = sum(1 for _ in source)
        epoch = time.process_time() - started
    counters = input_stats.StageCounters()
    started = time.process_time()
    for _ in range(calls[0] * _REPEATS):
        counters.add(read=1, check=1, records=1, record_bytes=1)
    for _ in counters.waits.measure(iter(range(batches * _REPEATS))):
        pass
    alone = (time.process_time() - started) / _REPEATS
    print(f"{name}: counting alone takes {alone / epoch:.3%} of the CPU time of an epoch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--photos", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = write_records(Path(folder, "records"), arguments.records)
        photos = write_photos(Path(folder, "photos"), arguments.photos)
        small = trainer_utils.iterate(records, "train", batch_size=64, shuffle=True)
        large = trainer_utils.iterate(
            photos, "train", batch_size=32, image_size=(224, 224), augment=["flip", "colour"]
        )

        for name, source in (("small records", small), ("photos", large)):
            for _ in source:  # open the files
                pass
            measure_counting(name, source)

        def read_small() -> None:
            for _ in small:
                pass

        def read_large() -> None:
            for _ in large:
                pass

        compare("small records, batches of 64", read_small, arguments.runs)
        compare("photos, 224 x 224", read_large, max(arguments.runs // 3, 2))


if __name__ == "__main__":
    main()
