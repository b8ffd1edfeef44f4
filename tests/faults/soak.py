"""Long work in one process, and what it holds after each round: memory, threads, files, lines.

found = soak("global", uri, log)          # 50 epochs; `READINGS` has the names
growth(found, "rss_bytes")                # bytes a round, after the rounds that warm up
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS = 50
WARM_UP = 0.3  # of the rounds
SECONDS = 450
_IMAGES: dict[str, Any] = {"batch_size": 32, "image_size": (32, 32), "features": ["image", "id"]}
READINGS: dict[str, dict[str, Any]] = {
    "windowed": {**_IMAGES, "shuffle": 64},
    "global": {**_IMAGES, "shuffle": "global"},
    "cached": {**_IMAGES, "cache": {}},
    "augmented": {**_IMAGES, "augment": "flip"},
    "not decoded": {"batch_size": 32, "features": "id"},
}


def soak(program: str, source: Path, log: Path) -> list[dict[str, int]]:
    """What a process of its own held after each round.

    Args:
        program: a name of `READINGS`, `iterate` or `input_fn anew`.
        source: a dataset.
        log: gets what it prints.
    """
    with log.open("wb") as stderr:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.soak", program, str(source)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "MALLOC_ARENA_MAX": "2"},
            timeout=SECONDS,
            check=True,
        )
    found: list[dict[str, int]] = json.loads(done.stdout)
    return found


def growth(rounds: list[dict[str, int]], what: str) -> float:
    """How much of it is added by a round: the slope of a line through those after the warm-up."""
    values = [found[what] for found in rounds[round(WARM_UP * len(rounds)) :]]
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


def _held() -> dict[str, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss_bytes": pages * os.sysconf("SC_PAGESIZE"),
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "log_bytes": os.fstat(2).st_size,
    }


def _epochs(uri: str, settings: Mapping[str, Any]) -> Iterator[int]:
    """Reads one input pipeline again and again; how many records each time."""
    import tensorflow as tf

    from trainer_utils import input_fn

    options = tf.data.Options()
    options.autotune.enabled = False  # it grows buffers as it sees fit
    dataset = input_fn(uri, "train", repeat=False, **settings).with_options(options)
    while True:
        yield sum(1 for _ in dataset)


def _pipelines(uri: str) -> Iterator[int]:
    """Makes an input pipeline anew for each epoch."""
    from trainer_utils import input_fn

    while True:
        yield sum(1 for _ in input_fn(uri, "train", repeat=False, **_IMAGES))


def _arrays(uri: str) -> Iterator[int]:
    from trainer_utils import iterate

    while True:
        yield sum(1 for _ in iterate(uri, "train", **_IMAGES))


_OTHERS: dict[str, Callable[[str], Iterator[int]]] = {
    "input_fn anew": _pipelines,
    "iterate": _arrays,
}


def _main(program: str, source: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    reading = READINGS.get(program)
    rounds = _OTHERS[program](source) if reading is None else _epochs(source, reading)
    found, counts = [], set()
    for _ in range(EPOCHS):
        counts.add(next(rounds))
        found.append(_held())
    assert len(counts) == 1, counts
    json.dump(found, replies)
    replies.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
