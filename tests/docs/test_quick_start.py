"""The training example of the README works for other folders, with any number of classes."""

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("tfx", reason="it converts with TFX")
from tests.docs.markdown import REPOSITORY, blocks

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
COLOURS = {"ash": (90, 90, 90), "beech": (200, 60, 40), "cedar": (40, 160, 60)}


def test_readme_example_trains_on_three_classes(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(24):
            pixels = rng.normal(colour, 25, (48, 64, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    readme = [b for b in blocks(REPOSITORY / "README.md") if b.language == "python"]
    (example,) = (block for block in readme if "model.fit(" in block.text)
    found: dict = {}
    exec(compile(example.text, "README.md", "exec"), found)
    train, model = found["train"], found["model"]
    assert (train.class_names, train.num_classes) == (sorted(COLOURS), len(COLOURS))
    assert sorted(train.features) == ["image", "label"]
    loss, _ = model.evaluate(found["evaluation"], verbose=0)
    assert loss < 2 * np.log(len(COLOURS))  # higher if pixels were not scaled
    model.fit(train, epochs=25, verbose=0)
    assert model.evaluate(found["evaluation"], verbose=0)[1] > 0.8
