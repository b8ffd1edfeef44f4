"""A dataset with every kind of feature, written without any framework."""

import numpy as np
import pytest

from tests.make import write_rows

ROWS = 150


@pytest.fixture(scope="session")
def numbered(tmp_path_factory) -> str:
    """Write 150 records: an id, a label of 5 classes, a weight, a string, a list, a 6 x 8 image."""
    draw = np.random.default_rng(3)
    rows = (
        {
            "id": number,
            "label": number % 5,
            "weight": number / 8,
            "text": "word " * (number % 7),
            "list": [float(n) for n in range(number % 4)],
            "image": draw.integers(0, 256, (6, 8, 3), np.uint8),
        }
        for number in range(ROWS)
    )
    return write_rows(tmp_path_factory.mktemp("frameworks") / "numbered", rows, num_shards=4)
