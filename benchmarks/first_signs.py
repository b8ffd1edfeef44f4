"""Measure how long a user waits for the first sign of each task, from the start of a process.

    python benchmarks/first_signs.py --workdir bench   # 1,000 photos of ImageNet's kind

- `tfx-shards convert` on a terminal: its first line, the first byte of a shard, its end.
- `convert --dry-run`, and the error for a misspelt setting: their ends.
- a trainer: its first batch, shuffled, with and without the import of TensorFlow.

Each is the median of the runs. The claim: a first line within 1 s, a plan or an error within 2 s.
"""

import argparse
import os
import pty
import shutil
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from common import make_jpegs

_TFX_SHARDS = str(Path(sys.executable).with_name("tfx-shards"))
_FIRST_BATCH = textwrap.dedent("""\
    import sys, time
    import tensorflow
    imported = time.time()
    from trainer_utils import input_fn
    next(iter(input_fn(sys.argv[1], batch_size=64, image_size=(224, 224))))
    print(imported, time.time())
""")


def main() -> None:
    """Measure each task several times, and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workdir", type=Path, default=Path("build/bench"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    photos = arguments.workdir / f"photos-{arguments.count}"
    make_jpegs(photos, count=arguments.count)
    out = arguments.workdir / "out"
    waits: dict[str, list[float]] = {}
    for _ in range(arguments.runs):
        shutil.rmtree(out, ignore_errors=True)
        for name, seconds in (
            *_conversion(photos, out),
            *_refusals(photos, arguments.workdir / "not-made"),
            *_first_batch(out),
        ):
            waits.setdefault(name, []).append(seconds)
    shutil.rmtree(out)
    for name, each in waits.items():
        print(
            f"{name:48} {statistics.median(each):6.2f} s   of {', '.join(f'{s:.2f}' for s in each)}"
        )


def _conversion(photos: Path, out: Path) -> Iterable[tuple[str, float]]:
    """Yield the waits of a complete conversion on a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    found: dict[str, float] = {}
    over = threading.Event()

    def watch_shards() -> None:
        while not over.is_set():
            if any(path.stat().st_size for path in _existing(out)):
                found["convert: first byte of a shard"] = time.perf_counter() - started
                return
            time.sleep(0.01)

    watcher = threading.Thread(target=watch_shards)
    started = time.perf_counter()
    with subprocess.Popen(
        [_TFX_SHARDS, "convert", str(photos), str(out)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
    ) as process:
        os.close(follower)
        watcher.start()
        try:
            while block := os.read(leader, 1 << 16):
                if block.strip():
                    found.setdefault("convert: first line", time.perf_counter() - started)
        except OSError:  # Linux's end of a terminal that no process has open
            pass
    os.close(leader)
    over.set()
    watcher.join()
    if process.returncode:
        sys.exit(f"tfx-shards convert ended with {process.returncode}")
    return [*sorted(found.items(), key=lambda item: item[1]), ("convert: end", _since(started))]


def _existing(out: Path) -> Iterable[Path]:
    """Yield shards that are being written, under any temporary name."""
    for path in out.parent.rglob("*tfrecord*"):
        if path.is_file():
            yield path


def _refusals(photos: Path, out: Path) -> Iterable[tuple[str, float]]:
    for name, options in (
        ("convert --dry-run: end", ["--dry-run"]),
        ("convert --shard-byts 1: refused", ["--shard-byts", "1"]),
        ("convert with a wrong value: refused", ["--splits", "train:no"]),
    ):
        started = time.perf_counter()
        subprocess.run(
            [_TFX_SHARDS, "convert", str(photos), str(out), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        yield name, _since(started)


def _first_batch(out: Path) -> Iterable[tuple[str, float]]:
    started = time.time()
    said = subprocess.run(
        [sys.executable, "-c", _FIRST_BATCH, str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    imported, served = map(float, said.stdout.split())
    yield "input_fn: first batch, from process start", served - started
    yield "input_fn: first batch, TensorFlow imported", served - imported


def _since(started: float) -> float:
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
