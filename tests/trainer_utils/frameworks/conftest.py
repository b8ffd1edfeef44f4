"""A dataset with every kind of feature, written without any framework."""

import numpy as np
import pytest

import trainer_utils

ROWS = 150


@pytest.fixture(scope="session")
def numbered(tmp_path_factory) -> str:
    """150 records: an id, a label of 5 classes, a weight, a text, a list, an image of 6 x 8."""
    folder = str(tmp_path_factory.mktemp("frameworks") / "numbered")
    draw = np.random.default_rng(3)
    with trainer_utils.DatasetWriter(folder, num_shards={"train": 4}) as writer:
        for number in range(ROWS):
            record = {
                "id": number,
                "label": number % 5,
                "weight": number / 8,
                "text": "word " * (number % 7),
                "list": [float(n) for n in range(number % 4)],
                "image": draw.integers(0, 256, (6, 8, 3), np.uint8),
            }
            writer.write("train", record)
    return folder
