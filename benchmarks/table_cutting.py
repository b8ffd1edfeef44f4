"""Measure how fast a CSV is cut between rows, against Python's `csv`: MB per second of CPU.

    python benchmarks/table_cutting.py --megabytes 64

The rows are the same for both. `csv` parses fields as well, but there is no faster way with the
standard library to find out where a row ends.
"""

import argparse
import csv
import io
import statistics
import time
from collections.abc import Callable

import numpy as np

from components.tables.row_ends import cut, cut_range, join_cuts

_RUNS = 3
_RANGE_BYTES = 16 << 20
_WORDS = ["alpha", "be", "gamma,", "de\nlta", "the", "of", "and", 'a "word"']


def _table(kind: str, size: int) -> bytes:
    """Return a CSV of about `size` bytes."""
    stream, rng = io.StringIO(newline=""), np.random.default_rng(0)
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if kind == "no quotes":
        writer = csv.writer(stream, lineterminator="\n")
    num_words = 200 if kind == "long quoted texts" else 12
    last_word = 4 if kind != "doubled quotes" else len(_WORDS)
    while stream.tell() < 1 << 20:
        words = [_WORDS[n] for n in rng.integers(0, last_word, num_words)]
        if kind == "no quotes":
            words = [word.strip(",").replace("\n", "") for word in words]
        writer.writerow([stream.tell(), " ".join(words), "pos"])
        if kind == "ordinary quotes":
            stream.write(f'{stream.tell()},a tube of 5" or 6",neg\n')
    data = stream.getvalue().encode()
    return data * (size // len(data))


def _in_ranges(data: bytes) -> None:
    starts = range(0, len(data), _RANGE_BYTES)
    stream = io.BytesIO(data)
    cuts = [
        cut_range(stream, start, start + _RANGE_BYTES, delimiter=b",", is_first=not start)
        for start in starts
    ]
    assert None not in cuts
    for _ in join_cuts(one for one in cuts if one is not None):
        pass


def _by_csv(data: bytes) -> None:
    for _ in csv.reader(io.StringIO(data.decode(), newline="")):
        pass


def _rate(work: Callable[[bytes], object], data: bytes) -> float:
    started = time.process_time()
    work(data)
    return len(data) / 1e6 / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=64)
    size = parser.parse_args().megabytes << 20
    print("| table | cut, MB/s | in ranges, MB/s | csv module, MB/s | times |")
    print("|-------|----------:|----------------:|-----------------:|------:|")
    kinds = ("no quotes", "all quoted", "doubled quotes", "ordinary quotes", "long quoted texts")
    for kind in kinds:
        data = _table(kind, size)
        rates = [
            (
                _rate(lambda d: [*cut(io.BytesIO(d), delimiter=b",")], data),
                _rate(_in_ranges, data),
                _rate(_by_csv, data[: 8 << 20]),
            )
            for _ in range(_RUNS)
        ]
        whole, ranges, module = map(statistics.median, zip(*rates, strict=True))
        print(f"| {kind} | {whole:.0f} | {ranges:.0f} | {module:.0f} | {whole / module:.1f} |")


if __name__ == "__main__":
    main()
