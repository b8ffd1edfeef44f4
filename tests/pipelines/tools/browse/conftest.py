"""A dataset to browse, with texts that would be markup."""

import io
import os

import pytest
from PIL import Image

from trainer_utils.format import Feature

HOSTILE = "<script>alert(1)</script>\x1b[31m\"'{{7*7}}"


@pytest.fixture(scope="module")
def dataset(photos, write_dataset, tmp_path_factory):
    def example(n):
        stream = io.BytesIO()
        Image.fromarray(photos[n % 30]).save(stream, "PNG")
        return {
            "image": [stream.getvalue()],
            "label": [n % 2],
            "filename": [f"{'Dog' if n % 2 else 'cat'}/{n:04d}.png".encode()],
            "note": [HOSTILE.encode()],
            "vector": [float(n), 2.0],
        }

    examples = [example(n) for n in range(100)]
    uri = write_dataset(
        tmp_path_factory.mktemp("browse") / "dataset",
        {"train": [examples[:30], examples[30:90]], "eval": [examples[90:]]},
        {"label": Feature(type="int")},
    )
    os.mkdir(f"{uri}/vocab")
    with open(f"{uri}/vocab/label.txt", "w") as stream:
        stream.write("cat\ndog\n")
    return uri
