"""Inputs of a step are checked as they are."""

import numpy as np
import pytest

import trainer_utils


@pytest.mark.slow
def test_photos_of_many_sizes_are_checked_as_they_are(tmp_path):
    from PIL import Image

    import pipelines
    from components.kubeflow.input_check import check_input

    rng = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (*rng.integers(20, 60, 2), 3)
        Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)).save(path)
    uri = pipelines.convert(str(tmp_path / "photos"), str(tmp_path / "out"))
    found = check_input(uri, batch_size=256, seconds=0.05)
    batches = trainer_utils.input_fn(uri, batch_size=1, image_size=(8, 8))
    assert found["records"] == len(list(batches))
    assert found["records_per_second"] > 0
    only = {"batch_size": 4, "seconds": 0.05, "input_options": {"features": ["label"]}}
    assert check_input(uri, **only)["steps"] == -(-found["records"] // 4)
