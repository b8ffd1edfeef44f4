"""The blocks of docs/torch.md for PyTorch run as written; its training script resumes exactly."""

import collections
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trainer_utils
from tests.docs.markdown import REPOSITORY, blocks

torch = pytest.importorskip("torch")
pipelines = pytest.importorskip("pipelines", reason="datasets are converted from photos")

PYTHON = [block for block in blocks(REPOSITORY / "docs/torch.md") if block.language == "python"]
RECORDS = 50
LOGGING = """
            if os.environ.get("KILL_AT") == str(step):
                os.kill(os.getpid(), 9)
            with open(f"{os.environ['LOG']}-{distributed.get_rank()}", "a") as log:
                print([step, *labels.tolist()], file=log)
"""


def write_photos(folder: Path, classes: int, photos: int) -> None:
    """Write small photos, divided among classes."""
    rng = np.random.default_rng(0)
    for number in range(photos):
        path = folder / f"kind{number % classes:03}" / f"photo{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (24, 32, 3), np.uint8)).save(path)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Convert photos of five classes into `out/`."""
    folder = tmp_path_factory.mktemp("torch")
    write_photos(folder / "photos", 5, 300)
    pipelines.convert(folder / "photos", folder / "out", splits={"train": 1})
    return folder


def noted(note: str) -> list[Any]:
    found = [block for block in PYTHON if block.note == f"not run: needs {note}"]
    assert found, f"expected a block that needs {note}"
    return found


def names_of_page(model: Any) -> dict[str, Any]:
    """Return the names that the page expects from the reader or from the blocks before."""
    names: dict[str, Any] = {"trainer_utils": trainer_utils, "torch": torch, "model": model}
    (script,) = (block for block in PYTHON if "kill and resume" in block.note)
    definition = script.text[script.text.index("def make_model") : script.text.index("def main")]
    exec(definition, {"nn": torch.nn}, names)
    names["reading"] = {"features": "image", "label": "label", "image_size": (224, 224)}
    return names


def test_blocks_of_pytorch_run(world, tmp_path, monkeypatch):
    shapes: list[tuple[int, ...]] = []
    names = names_of_page(torch.nn.Linear(1, 1))
    names["train_step"] = lambda images, labels: shapes.append(tuple(images.shape[1:]))
    (tmp_path / "out").symlink_to(world / "out")
    monkeypatch.chdir(tmp_path)
    for block in noted("PyTorch"):
        exec(compile(block.text, block.place, "exec"), names)
    assert collections.Counter(shapes) == {(3, 224, 224): 6, (224, 224, 3): 6}
    resumed = trainer_utils.torch_loader("out/", "train", batch_size=256, **names["reading"])
    resumed.load_state_dict(torch.load("run.pt")["input"])
    assert resumed.epoch == 3


@pytest.mark.parametrize("package", ["torchvision", "lightning", "accelerate"])
def test_blocks_of_other_packages_run(world, tmp_path, monkeypatch, package):
    pytest.importorskip(package, reason="of the extra `frameworks-test`")
    (tmp_path / "out").symlink_to(world / "out")
    monkeypatch.chdir(tmp_path)
    names = names_of_page(None)
    (block,) = noted(package if package == "torchvision" else package.title())
    exec(compile(block.text, block.place, "exec"), names)
    if package == "torchvision":
        assert names["images"].shape == (64, 3, 224, 224)
        assert names["labels"].shape == (64, 5)
    if package == "lightning":
        saved = torch.load("checkpoints/last.ckpt", weights_only=False)
        assert saved["global_step"] == 10  # two epochs of five steps
    if package == "accelerate":
        assert names["loader"].epoch == 1
        names["accelerator"].load_state("state")
        assert names["loader"].epoch == 1


def test_the_notebook_trains_and_resumes(tmp_path, monkeypatch):
    def make_photos(folder: str) -> None:
        rng = np.random.default_rng(0)
        for number in range(300):
            path = tmp_path / folder / f"kind{number % 5}" / f"photo{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            colour = 50 * (number % 5) + rng.integers(0, 40, (24, 32, 3))
            Image.fromarray(colour.astype(np.uint8)).save(path)
        (tmp_path / folder / "kind0/broken.jpg").write_bytes(b"none")

    monkeypatch.setattr("pipelines.examples.demo_photos.make_photos", make_photos)
    monkeypatch.chdir(tmp_path)
    cells = json.loads((REPOSITORY / "docs/tutorials/pytorch.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sources[0].startswith("%pip install ")  # the only cell that needs a network
    names: dict[str, Any] = {}
    for place, source in enumerate(sources[1:], 1):
        exec(compile(source, f"pytorch.ipynb, code cell {place}", "exec"), names)
    assert (names["result"].written, names["result"].rejected) == (300, 1)
    assert names["train"].epoch == 5
    assert names["accuracy"] > 0.5


def train(folder: Path, ranks: int, log: str, **environment: str) -> int:
    """Run the page's script on some ranks, and return the exit status."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*launcher, f"--nproc-per-node={ranks}", "train.py"],
        cwd=folder,
        env={**os.environ, "LOG": log, **environment},
        capture_output=True,
        timeout=300,
        check=False,
    ).returncode


def labels_by_step(folder: Path, log: str) -> dict[int, list[int]]:
    """Return the sorted labels of each step, of all ranks together."""
    steps: dict[int, list[int]] = collections.defaultdict(list)
    for path in folder.glob(f"{log}-*"):
        for step, *labels in map(json.loads, path.read_text().splitlines()):
            steps[step] = sorted(steps[step] + labels)
    return dict(steps)


@pytest.mark.slow
def test_the_training_script_resumes_on_fewer_ranks(tmp_path):
    write_photos(tmp_path / "photos", RECORDS, RECORDS)  # each photo has its own label
    pipelines.convert(tmp_path / "photos", tmp_path / "out", splits={"train": 1})
    (script,) = (block for block in PYTHON if "kill and resume" in block.note)
    assert "3, 50  #" in script.text
    source = script.text.replace("3, 50  #", "3, 2  #")
    loop = "        for images, labels in loader:\n"
    assert source.count(loop) == 1
    (tmp_path / "train.py").write_text(source.replace(loop, loop + LOGGING.lstrip("\n")))

    assert train(tmp_path, 1, "whole") == 0
    whole = labels_by_step(tmp_path, "whole")
    (tmp_path / "run.pt").rename(tmp_path / "whole.pt")
    assert len(whole) == 6  # two steps in each of three epochs
    for epoch in range(3):
        assert sorted(whole[2 * epoch] + whole[2 * epoch + 1]) == list(range(RECORDS))

    assert train(tmp_path, 2, "killed", KILL_AT="3") != 0
    saved = torch.load(tmp_path / "run.pt")["step"]
    assert saved == 2
    shutil.copy(tmp_path / "run.pt", tmp_path / "killed.pt")
    assert train(tmp_path, 1, "resumed") == 0
    before = {n: labels for n, labels in labels_by_step(tmp_path, "killed").items() if n < saved}
    assert {**before, **labels_by_step(tmp_path, "resumed")} == whole
