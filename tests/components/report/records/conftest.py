"""A dataset with every kind of value."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.make import wav
from trainer_utils.format import Feature


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.fixture
def dataset(photos, write_dataset, tmp_path):
    """Two shards of `train`, of 4 and 3 records, and one of `eval`: every kind of value."""
    examples = [
        {
            "image": [encoded(photos[n], "JPEG" if n % 2 else "PNG")],
            "label": [n % 2],
            "text": [f"text number {n}".encode()],
            "sound": [wav(n, frames=100 + n)],
            "boxes": [0.5, 0.25 * n],
            "pixels": [photos[n].tobytes()],
            "many": list(range(20)),
        }
        for n in range(8)
    ]
    raw = Feature(type="string", extra={"encoding": "raw", "image_shape": [40, 48, 3]})
    uri = write_dataset(
        tmp_path / "dataset",
        {"train": [examples[:4], examples[4:7]], "eval": [examples[7:]]},
        {"pixels": raw, "label": Feature(type="int")},
    )
    (tmp_path / "dataset/vocab").mkdir()
    (tmp_path / "dataset/vocab/label.txt").write_text("cat\ndog\n")
    return uri
