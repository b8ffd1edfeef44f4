"""The recipe of SECURITY.md: a folder is signed with a key, where `model_signing` is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from trainer_utils import DatasetWriter

RECIPE = Path(__file__).parents[2] / "SECURITY.md"
pytestmark = pytest.mark.skipif(
    shutil.which("model_signing") is None or shutil.which("openssl") is None,
    reason="needs model-signing and openssl",
)


def commands() -> dict[str, str]:
    """The recipe's commands by their second word, or the first."""
    (block,) = re.findall(r"```sh\n(.*?model_signing.*?)```", RECIPE.read_text(), re.DOTALL)
    lines = [line for line in block.replace("\\\n", "").splitlines() if "install" not in line]
    return {" ".join(line.split()[:2]): line for line in lines}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_signed_dataset_is_known_again_and_a_forged_one_is_not(tmp_path):
    uri = tmp_path / "photos"
    with DatasetWriter(uri, num_shards={"train": 2}) as writer:
        for number in range(20):
            writer.write("train", {"id": number})
    recipe = commands()
    for name in ("openssl ecparam", "openssl ec", "model_signing sign", "model_signing verify"):
        done = run(recipe[name], tmp_path)
        assert done.returncode == 0, done.stderr
    for path in (uri / "manifest.json", max(uri.glob("Split-*/*"))):
        good = path.read_bytes()
        path.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        assert run(recipe["model_signing verify"], tmp_path).returncode != 0, path
        path.write_bytes(good)
    (uri / "Split-train/more").touch()
    assert run(recipe["model_signing verify"], tmp_path).returncode != 0
