"""The README's block for PyTorch reads a folder of photos, some of them damaged."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.docs.markdown import REPOSITORY, blocks

torch = pytest.importorskip("torch")
pytest.importorskip("components", reason="raw folders are read by the package components")


def test_readme_trains_pytorch_on_a_raw_folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for number in range(200):
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (32, 40, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:100])
    monkeypatch.chdir(tmp_path)
    (block,) = (
        block for block in blocks(REPOSITORY / "README.md") if block.note.endswith("needs PyTorch")
    )
    batches: list[Any] = []
    names = {"train_step": lambda images, labels: batches.append((images, labels))}
    exec(compile(block.text, block.place, "exec"), names)
    images, labels = batches[0]
    assert (images.shape, images.dtype) == ((64, 3, 224, 224), torch.uint8)
    assert (labels.shape, labels.dtype) == ((64,), torch.int64)
    assert {label for _, labels in batches for label in labels.tolist()} == {0, 1}
