"""`benchmarks/feed_gpu.py` trains a tiny model on the CPU in each framework."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_tiny_training_has_a_ratio_of_steps(tmp_path, framework):
    pytest.importorskip(framework)
    command = [sys.executable, "benchmarks/feed_gpu.py", "--tiny", "--json"]
    command += ["--workdir", str(tmp_path), "--framework", framework, "--stored", "whole"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    (result,) = json.loads(done.stdout.splitlines()[-1]).values()
    assert result["ratio"] == pytest.approx(result["dataset"] / result["constant"])
    assert result["input alone"] > 0


def test_the_torch_model_is_resnet_50():
    pytest.importorskip("torch")
    torchvision = pytest.importorskip("torchvision")
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    import feed_models

    own = feed_models._torch_resnet(feed_models.RESNET_50)
    known = torchvision.models.resnet50()
    assert sum(p.numel() for p in own.parameters()) == sum(p.numel() for p in known.parameters())
