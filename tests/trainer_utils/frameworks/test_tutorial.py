"""The tutorial of language models in PyTorch and JAX; tests/docs runs it in TensorFlow only."""

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

import trainer_utils
from tests.docs.markdown import REPOSITORY, blocks
from tests.make import write_rows

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")

PAGE = REPOSITORY / "docs/tutorials/language-model.md"
NOTES = {"torch": "PyTorch", "jax": "JAX", "keras": "Keras on another backend"}


@pytest.mark.parametrize("framework", NOTES)
def test_the_blocks_of_a_framework(tmp_path, monkeypatch, framework):
    pytest.importorskip(framework)
    if framework == "keras" and importlib.util.find_spec("tensorflow") is not None:
        pytest.skip("tests/docs runs it")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for name, documents in (("manual", 80), ("modules", 20)):
        sizes = random.integers(1, 400, documents).tolist()
        rows = ({"tokens": random.integers(1, 2000, size).tolist()} for size in sizes)
        write_rows(f"{name}/latest", rows, num_shards=1)
    names: dict[str, Any] = {"trainer_utils": trainer_utils}
    shown = [block for block in blocks(PAGE) if block.language == "python"]
    (reading,) = (block for block in shown if block.text.startswith("from trainer_utils"))
    run = [reading]
    if framework == "keras":  # the model, without the line that trains it in TensorFlow
        (model,) = (block for block in shown if block.text.startswith("import keras"))
        before, _, _ = model.text.partition("train = ")
        exec(before, names)
    run += [block for block in shown if block.note == f"not run: needs {NOTES[framework]}"]
    assert len(run) == 2
    for block in run:
        exec(compile(block.text, block.place, "exec"), names)
    if "loss" in names:
        assert 3 < names["loss"].item() < 9
