"""PyTorch, JAX and Keras get the batches of a conversion from raw inputs, on 1 to 3 workers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.components.raw_inputs.raw_runs import convert
from trainer_utils import iterate

data = pytest.importorskip("torch.utils.data")
SETTINGS: dict[str, Any] = {
    "batch_size": 12,  # which three workers and four devices divide
    "shuffle": "global",
    "features": "image",
    "label": "label",
    "image_size": (16, 16),
    "remainder": "drop",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> tuple[str, str]:
    """Return raw photos, and the dataset of their conversion."""
    folder: Path = tmp_path_factory.mktemp("raw")
    draw = np.random.default_rng(5)
    for number in range(60):
        path = folder / "in" / "ab"[number % 2] / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 256, (24 + number, 32, 3), np.uint8)
        Image.fromarray(pixels).save(path)
    return str(folder / "in"), convert(folder / "in", folder / "out")


def assert_same(found: Any, expected: Any) -> None:
    count = 0
    for one, other in zip(found, expected, strict=True):
        for array, values in zip(one, other, strict=True):
            np.testing.assert_array_equal(np.asarray(array), values)
        count += 1
    assert count > 0


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("processes", [0, 2])
def test_torch_gets_the_batches_of_a_conversion(processes, world_size, places):
    from trainer_utils import torch_dataset

    for rank in range(world_size):
        workers = {"rank": rank, "world_size": world_size}
        dataset = torch_dataset(places[0], "train", **workers, **SETTINGS)
        loader = data.DataLoader(dataset, batch_size=None, num_workers=processes)
        assert_same(loader, iterate(places[1], "train", **workers, **SETTINGS))


def test_jax_gets_the_batches_of_a_conversion(places):
    pytest.importorskip("jax")
    from trainer_utils import jax_batches

    found = jax_batches(places[0], "train", **SETTINGS)
    assert_same(found, iterate(places[1], "train", **SETTINGS))


def test_keras_gets_the_batches_of_a_conversion(places, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    pytest.importorskip("keras")
    from trainer_utils import keras_dataset

    found = keras_dataset(places[0], "train", **SETTINGS)
    expected = [*iterate(places[1], "train", **SETTINGS)]
    assert_same((found[step] for step in range(len(found))), expected)
