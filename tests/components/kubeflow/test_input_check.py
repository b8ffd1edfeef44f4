"""Inputs of a step are checked as they are."""

import numpy as np

import trainer_utils
from tests.make import jpeg, write_files


def test_photos_of_many_sizes_are_checked_as_they_are(tmp_path):
    from components import steps
    from components.example_gen.settings import ImageSettings
    from components.kubeflow.input_check import check_input

    sizes = np.random.default_rng(0).integers(20, 60, (24, 2)).tolist()
    photos = {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n, size=tuple(s)) for n, s in enumerate(sizes)}
    uri = str(tmp_path / "out")
    steps.convert(str(write_files(tmp_path / "photos", photos)), uri, ImageSettings())
    found = check_input(uri, batch_size=256, seconds=0.05)
    batches = trainer_utils.input_fn(uri, batch_size=1, image_size=(8, 8))
    assert found["records"] == len(list(batches))
    assert found["records_per_second"] > 0
    only = {"batch_size": 4, "seconds": 0.05, "input_options": {"features": ["label"]}}
    assert check_input(uri, **only)["steps"] == -(-found["records"] // 4)
