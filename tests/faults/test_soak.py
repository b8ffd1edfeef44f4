"""The resources of a process do not grow during long work.

python -m tests.faults.test_soak global URI     # JSON of the resources after each of 50 epochs
"""

import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer_utils import DatasetWriter

RECORDS = 320
EPOCHS, WARM_UP, SECONDS = 50, 15, 450  # rounds, rounds of warm-up, the time limit
# Maximum growth of memory per round. TensorFlow keeps the functions of a pipeline, not their data.
EPOCH_BYTES, PIPELINE_BYTES = 64 << 10, 192 << 10
_IMAGES: dict[str, Any] = {"batch_size": 32, "image_size": (32, 32), "features": ["image", "id"]}
READINGS: dict[str, dict[str, Any]] = {
    "windowed": {**_IMAGES, "shuffle": 64},
    "global": {**_IMAGES, "shuffle": "global"},
    "cached": {**_IMAGES, "cache": {}},
    "augmented": {**_IMAGES, "augment": "flip"},
    "not decoded": {"batch_size": 32, "features": "id"},
    "iterate": _IMAGES,
    "input_fn anew": _IMAGES,
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos) -> Path:
    """Write a dataset of about 2 MB of photos, so that leaked records are soon visible."""
    from PIL import Image

    uri = tmp_path_factory.mktemp("soak") / "out"
    with DatasetWriter(uri, num_shards={"train": 4}, images=["image"]) as writer:
        for number in range(RECORDS):
            stream = io.BytesIO()
            photo = Image.fromarray(photos[number % len(photos)]).resize((160, 120))
            photo.rotate(number).save(stream, "JPEG", quality=95)
            writer.write("train", {"image": stream.getvalue(), "id": number})
    return uri


def _epochs(reading: str, uri: str) -> Iterator[int]:
    """Read a dataset repeatedly and yield the number of batches each time."""
    import tensorflow as tf

    from trainer_utils import input_fn, iterate

    options = tf.data.Options()
    options.autotune.enabled = False  # autotuning would grow buffers
    read: Any = iterate if reading == "iterate" else input_fn
    settings: dict[str, Any] = {"repeat": False, **READINGS[reading]}
    found = read(uri, "train", **settings)
    if reading in ("iterate", "input_fn anew"):
        while True:
            yield sum(1 for _ in read(uri, "train", **settings))
    while True:
        yield sum(1 for _ in found.with_options(options))


def _held() -> dict[str, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss_bytes": pages * os.sysconf("SC_PAGESIZE"),
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "log_bytes": os.fstat(2).st_size,
    }


@pytest.mark.faults
@pytest.mark.parametrize("reading", READINGS)
def test_fifty_epochs_leak_nothing(dataset, tmp_path, reading):
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.test_soak", reading, str(dataset)],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "MALLOC_ARENA_MAX": "2"},
            timeout=SECONDS,
            check=True,
        )
    rounds = json.loads(done.stdout)
    assert len(rounds) == EPOCHS
    late = {name: np.array([found[name] for found in rounds[WARM_UP:]]) for name in rounds[0]}
    # The slope of a line through the values after the warm-up.
    growth = {n: np.polyfit(np.arange(len(found)), found, 1)[0] for n, found in late.items()}
    print(growth, rounds[-1])
    assert growth["rss_bytes"] <= (PIPELINE_BYTES if reading == "input_fn anew" else EPOCH_BYTES)
    assert late["threads"].max() <= rounds[0]["threads"] + 4
    assert max(growth["threads"], growth["files"]) <= 0.05
    assert len({*late["log_bytes"]}) == 1


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    numbers, found = _epochs(*sys.argv[1:]), []
    counts = set()
    for _ in range(EPOCHS):
        counts.add(next(numbers))
        found.append(_held())
    assert len(counts) == 1, counts
    json.dump(found, replies)
    replies.close()
