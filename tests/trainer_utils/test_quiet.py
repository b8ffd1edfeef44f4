"""What an epoch writes to stderr at TensorFlow's own log level: nothing of records or batches.

TensorFlow fixes its log level when it is loaded, and the other tests lower it, so this file is also
the program that reads: `python test_quiet.py DATASETS` reads each mode and writes its name first.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from trainer_utils import distribute, input_fn
from trainer_utils.format import Feature

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_SECONDS = 400
MODE = "=== "
MOST_LINES = 20  # of two epochs: TensorFlow warns where an iterator begins or ends, whoever made it
_ERROR = re.compile(r"^[\d-]+ [\d:.]+: [EF] ")


# --- The program ---


def modes(folder: str) -> dict[str, Callable[[], Any]]:
    """Datasets to read, by what is asked for."""
    large, photos = f"{folder}/large", f"{folder}/photos"
    asked: dict[str, Callable[[], Any]] = {}

    def add(uri: str, **settings: Any) -> None:
        name = f"{Path(uri).name} {settings}"
        asked[name] = lambda: input_fn(uri, **{"seed": 1, **settings})

    for remainder in (None, "drop", "pad", "balance"):
        add(large, shuffle="global", remainder=remainder, batch_size=16)
    add(large, batch_size=None)
    add(large, batch_size=24, echoing=2, state=3, repeat=2, on_corrupt="skip")
    add(large, batch_size=24, input_context=tf.distribute.InputContext(3, 2, 6))
    add(photos, features="raw", augment="random_resized_crop", image_size=(16, 16), batch_size=8)
    add(photos, features="sound", batch_size=8)
    add(photos, features=["tokens", "image"], image_size=(9, 9), ragged=True, batch_size=8)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    asked["mirrored"] = lambda: distribute(strategy, large, batch_size=16)
    return asked


def read_all(folder: str) -> None:
    """Reads two epochs of each mode."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for name, make in modes(folder).items():
        os.write(2, f"{MODE}{name}\n".encode())
        dataset = make()
        for _ in range(2):
            assert sum(1 for _ in dataset), name


# --- The tests ---


@pytest.fixture
def datasets(tmp_path, photos, write_dataset) -> Path:
    """Large records, and such of many features."""
    from tests.make import wav  # not in the program, where `tests` may be another

    ids = {"id": Feature(type="int"), "data": Feature(type="string")}
    rows = [{"id": [n], "data": [bytes([n % 256]) * 100_000]} for n in range(110)]
    write_dataset(tmp_path / "large", {"train": [rows[:36], rows[36:]]}, ids)
    extra = {"encoding": "raw", "image_shape": [40, 48, 3]}
    features = {
        "image": Feature(type="string", shape=(40, 48, 3)),
        "raw": Feature(type="string", extra=extra),
        "sound": Feature(type="string", extra={"encoding": "wav", "channels": 1}),
        "tokens": Feature(type="int", shape=(5,), dense=False),
    }
    rows = [
        {
            "image": [tf.io.encode_jpeg(photo).numpy()],
            "raw": [photo.tobytes()],
            "sound": [wav()],
            "tokens": [*range(1, 2 + number % 5)],
        }
        for number, photo in enumerate(photos)
    ]
    write_dataset(tmp_path / "photos", {"train": [rows[:11], rows[11:]]}, features)
    return tmp_path


def test_no_epoch_of_any_mode_writes_lines_of_errors(datasets):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    told = subprocess.run(
        [sys.executable, __file__, str(datasets)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**environment, "PYTHONPATH": str(REPOSITORY)},
    )
    assert not told.returncode, told.stderr[-3000:]
    _, *parts = told.stderr.split(MODE)
    assert len(parts) == 11
    noisy = {}
    for part in parts:
        name, *lines = part.splitlines()
        if len(lines) > MOST_LINES or any(map(_ERROR.match, lines)):
            noisy[name] = len(lines), lines[:3]
    assert not noisy


if __name__ == "__main__":
    read_all(sys.argv[1])
