"""The image, made of the Dockerfile's steps and run as a hardened pod runs it: `make test-image`.

Read-only, without rights, network, `/tmp` or home, as a user that the image does not know. The
steps are walked over a root that debootstrap makes; 200 packages are fetched the first time.
"""

import json
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e import image_steps

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.image]
REPOSITORY = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfx-shards/image"
UID, GID = 12345, 23456
URI = "minio://mlpipeline/v2/run/1"


@pytest.fixture(scope="module")
def image() -> image_steps.Image:
    if not os.environ.get("TFX_SHARDS_IMAGE"):
        pytest.skip("TFX_SHARDS_IMAGE is not set: make test-image sets it")
    if lacking := image_steps.why_not():
        pytest.skip(lacking)
    (base,) = re.findall(r"^BASE := (\S+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    return image_steps.build_image(REPOSITORY, "pipelines", CACHE, base=base)


@pytest.fixture
def pod(tmp_path, photos) -> dict[str, Path]:
    """The volumes of a pod: raw photos, and where the launcher's copies go, the user's own."""
    for number, photo in enumerate(photos[:12]):
        path = tmp_path / f"gcs/photos/{number % 2}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path)
    (tmp_path / "minio").mkdir()
    os.chown(tmp_path / "minio", UID, GID)
    return {"/gcs": tmp_path / "gcs", "/minio": tmp_path / "minio"}


def run(image: image_steps.Image, pod: dict[str, Path], *command: str) -> tuple[int, str]:
    done = image.run(command, uid=UID, gid=GID, volumes=pod, unset=["HOME"])
    return done.returncode, done.stdout


def step(component: str, parameters: dict, output: str, **inputs: str) -> list[str]:
    """The command of a native component, as Kubeflow's launcher fills it in."""

    def artifacts(names: list[str]) -> dict:
        return {
            name: {"artifacts": [{"name": name, "uri": f"{URI}/{name}", "metadata": {}}]}
            for name in names
        }

    given = {
        "inputs": {"parameterValues": parameters, "artifacts": artifacts([*inputs])},
        "outputs": {
            "artifacts": artifacts([output]),
            "outputFile": "/tmp/kfp_outputs/output_metadata.json",
        },
    }
    command = ["python", "-m", "components.kubeflow.run", component]
    command += ["--executor-input", json.dumps(given)]
    for name, path in inputs.items():
        command += ["--path", "inputs", name, path]
    return [*command, "--path", "outputs", output, f"/minio/mlpipeline/v2/{output}"]


def test_it_starts_as_a_user_without_rights_and_has_all_it_needs(image, pod):
    assert image.user == "1000:0"
    status, text = run(image, pod, *image.command)
    assert (status, "components.kubeflow" in text) == (0, True), text
    folders = ["HOME=/home/tfx", "TMPDIR=/minio"]  # which pip asks for, and we do not
    _, text = run(image, pod, "env", *folders, "python", "-m", "pip", "check")
    missing = re.findall(r"^\S+ \S+ (requires (\S+), which is not installed\.|.*)$", text, re.M)
    assert {name for _, name in missing} == {"ipython", "ipywidgets"}, text  # no notebooks there
    status, text = run(image, pod, "sh", "-c", "command -v g++ cc; id -u; touch /tmp/a /home/tfx/a")
    assert text.splitlines()[0] == str(UID)
    assert text.count("Read-only file system") == 2
    assert status == 1


def test_the_components_run_where_nothing_but_the_outputs_can_be_written(image, pod):
    given = {"input_base": "/gcs/photos"}
    status, text = run(image, pod, *step("image_example_gen", given, "examples"))
    assert status == 0, text
    made = pod["/minio"] / "mlpipeline/v2"
    assert json.loads((made / "examples/manifest.json").read_text())["splits"].keys() == {
        "train",
        "eval",
    }
    inputs = {"examples": "/minio/mlpipeline/v2/examples"}
    small = {"num_shards": 2, "memory_bytes": 1 << 20}
    status, text = run(image, pod, *step("shard_balancer", small, "balanced_examples", **inputs))
    assert status == 0, text
    status, text = run(image, pod, *step("dataset_audit", {}, "anomalies", **inputs))
    assert status == 0, text
    status, text = run(image, pod, "tfx-shards", "verify", "/minio/mlpipeline/v2/balanced_examples")
    assert status == 0, text
    assert {path.name for path in made.iterdir()} == {"examples", "balanced_examples", "anomalies"}
