"""A process that ends while its input is still being read ahead ends with its own code, quietly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer_utils.reading.jpegs import LARGE
from trainer_utils.format import Feature

REPOSITORY = Path(__file__).parents[3]
PHOTOS = {"features": "image", "image_size": (224, 224), "augment": "random_resized_crop"}


@pytest.mark.e2e
@pytest.mark.parametrize("settings", [PHOTOS, {"features": "text"}])
def test_a_process_ends_with_an_iterator_half_way(tmp_path, write_dataset, settings):
    rows = [{"image": [data], "text": [b"text"]} for data in LARGE * 10]
    image = Feature(type="string", shape=(90, 120, 3), extra={"sizes": "mixed"})
    features = {"image": image, "text": Feature(type="string")}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    code = (
        "from trainer_utils import input_fn\n"
        f"batches = iter(input_fn({uri!r}, repeat=True, batch_size=8, **{settings!r}))\n"
        "next(batches)\n"
        "raise SystemExit(7)\n"
    )
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=REPOSITORY,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 7
        assert "Error" not in ended.stderr
