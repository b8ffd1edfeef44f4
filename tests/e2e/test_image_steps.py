"""The images, made of the Dockerfile's steps and run as hardened pods run them: `make test-image`.

Read-only but for `/tmp`, without rights, network or home, as a user that the image does not know.
The steps are walked over a root that debootstrap makes; 300 packages are fetched the first time.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from PIL import Image

from components import kubeflow
from pipelines.kubeflow import compile_pipeline
from tests.e2e import image_steps
from tests.e2e.kubeflow.launcher import Cluster, Pod

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.image]
REPOSITORY = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfx-shards/image"
UID, GID = 12345, 23456
URI = "minio://mlpipeline/v2/run/1"
OTHERS = Path(__file__).parent / "kubeflow/pipelines_of_others.py"
TRAIN = """
import os, sys
import numpy as np
import tensorflow as tf
import trainer_utils

with trainer_utils.DatasetWriter("/minio/data", num_shards={"train": 2}) as writer:
    for number in range(32):
        image = np.full((8, 8, 3), number, np.uint8)
        writer.write("train", {"image": image, "label": number % 2})
train = trainer_utils.distribute(
    tf.distribute.get_strategy(), "/minio/data", "train", batch_size=8, features="image",
    label="label", image_size=(8, 8),
)
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="sgd", loss=loss)
history = trainer_utils.fit(
    model, tf.distribute.get_strategy(), train, epochs=2, backup_dir="/minio/backup",
    backup_every=1, verbose=0,
)
model.save(sys.argv[1])
print(f"epochs={len(history.history['loss'])}")
"""


def built(target: str) -> image_steps.Image:
    if not os.environ.get("TFX_SHARDS_IMAGE"):
        pytest.skip("TFX_SHARDS_IMAGE is not set: make test-image sets it")
    if lacking := image_steps.why_not():
        pytest.skip(lacking)
    (base,) = re.findall(r"^BASE := (\S+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    return image_steps.build_image(REPOSITORY, target, CACHE, base=base)


@pytest.fixture(scope="module")
def image() -> image_steps.Image:
    return built("pipelines")


@pytest.fixture(scope="module")
def trainer() -> image_steps.Image:
    return built("trainer")


@pytest.fixture
def pod(tmp_path, photos) -> dict[str, Path]:
    """The volumes of a pod: raw photos, and where the launcher's copies go, the user's own."""
    for number, photo in enumerate(photos):
        path = tmp_path / f"gcs/photos/{number % 2}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path)
    (tmp_path / "minio").mkdir()
    os.chown(tmp_path / "minio", UID, GID)
    return {"/gcs": tmp_path / "gcs", "/minio": tmp_path / "minio"}


def run(image: image_steps.Image, pod: dict[str, Path], *command: str) -> tuple[int, str]:
    done = image.run(command, uid=UID, gid=GID, volumes=pod, unset=["HOME"])
    return done.returncode, done.stdout


def defaults(component: str) -> dict:
    """What Kubeflow's driver fills in."""
    inputs = getattr(kubeflow, component).component_spec.inputs
    return {name: one.default for name, one in inputs.items() if "@" not in str(one.type)}


def step(component: str, parameters: dict, output: str, *inputs: str, value: str = "") -> list[str]:
    """The command of a native component, as Kubeflow's launcher fills it in.

    Args:
        component: its name.
        parameters: and their values.
        output: the artifact that it gives.
        inputs: the artifacts that it takes.
        value: the parameter that it gives; empty: none.
    """

    def artifacts(names: Sequence[str]) -> dict:
        return {
            name: {"artifacts": [{"name": name, "uri": f"{URI}/{name}", "metadata": {}}]}
            for name in names
        }

    given = {
        "inputs": {
            "parameterValues": {**defaults(component), **parameters},
            "artifacts": artifacts(inputs),
        },
        "outputs": {
            "artifacts": artifacts([output]),
            "parameters": {value: {"outputFile": f"/tmp/kfp/outputs/{value}"}} if value else {},
            "outputFile": "/tmp/kfp_outputs/output_metadata.json",
        },
    }
    container = getattr(kubeflow, component).component_spec.implementation.container
    parts = [*container.command, *container.args]
    return [json.dumps(given) if part == "{{$}}" else part for part in parts]


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


def test_the_components_run_where_nothing_but_the_outputs_and_tmp_can_be_written(
    image, pod, tmp_path
):
    pod["/tmp"] = tmp_path / "tmp"
    pod["/tmp"].mkdir()
    os.chown(pod["/tmp"], UID, GID)
    given = {"input_base": "/gcs/photos"}
    status, text = run(image, pod, *step("image_example_gen", given, "examples"))
    assert status == 0, text
    made = pod["/minio"] / "mlpipeline/v2/run/1"
    assert json.loads((made / "examples/manifest.json").read_text())["splits"].keys() == {
        "train",
        "eval",
    }
    small = {"num_shards": 2, "memory_bytes": 1 << 20}
    balance = step("shard_balancer", small, "balanced_examples", "examples")
    status, text = run(image, pod, *balance)
    assert status == 0, text
    audit = step("dataset_audit", {}, "anomalies", "examples", value="num_findings")
    status, text = run(image, pod, *audit)
    assert status == 0, text
    assert int((pod["/tmp"] / "kfp/outputs/num_findings").read_text()) > 0
    balanced = "/minio/mlpipeline/v2/run/1/balanced_examples"
    status, text = run(image, pod, "tfx-shards", "verify", balanced)
    assert status == 0, text
    assert {path.name for path in made.iterdir()} == {"examples", "balanced_examples", "anomalies"}


class HardenedPods:
    """Runs the launcher's pods in the image, with no more than its volumes to write to."""

    def __init__(
        self, image: image_steps.Image, inputs: Path, *, scratch: Sequence[str] = ()
    ) -> None:
        self.image = image
        self.inputs = inputs
        self.writable = ["/minio", *scratch]

    def run(self, command: Sequence[str], environment: Mapping[str, str], pod: Pod) -> int:
        volumes = {path: pod.folder / path.lstrip("/") for path in self.writable}
        for folder in volumes.values():
            folder.mkdir(parents=True, exist_ok=True)
        # The launcher runs in the pod, as its user.
        subprocess.run(["chown", "--recursive", f"{UID}:{GID}", str(pod.folder)], check=True)
        set_variables = [f"{name}={value}" for name, value in environment.items()]
        status, text = run(
            self.image,
            {**volumes, "/gcs": self.inputs},
            *("env", *set_variables),
            *(part.replace(str(pod.folder), "") for part in command),
        )
        pod.log.write_text(text)
        return status


def scratch_of(package: Path) -> set[tuple[str, ...]]:
    """The folders that are mounted empty, of each container of a package."""
    spec, *platform = yaml.safe_load_all(package.read_text())
    configs = platform[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    executors = [
        name for name, one in spec["deploymentSpec"]["executors"].items() if "container" in one
    ]
    return {
        tuple(mount["mountPath"] for mount in configs[name]["emptyDirMounts"]) for name in executors
    }


def test_the_ready_pipeline_trains_a_model_with_an_empty_tmp_and_no_other_folder(
    image, pod, tmp_path
):
    package = tmp_path / "pipeline.yaml"
    settings = {"image": "example/it:1", "pipeline_root": "minio://mlpipeline/v2"}
    compile_pipeline("image", str(package), **settings, scratch="/tmp")
    assert scratch_of(package) == {("/tmp",)}
    pods = HardenedPods(image, pod["/gcs"], scratch=["/tmp"])
    cluster = Cluster(tmp_path / "pods", pods)
    given = {"input_base": "/gcs/photos", "num_shards": "1", "batch_size": 2, "train_steps": 2}
    done = cluster.run(package, given)
    assert {"ImageExampleGen-inputs", "StatisticsGen", "ShardBalancer", "Trainer"} <= set(done.pods)
    made = cluster.below(done.uri("ShardBalancer", "balanced_examples"))
    assert json.loads(made["manifest.json"])["splits"].keys() == {"train", "eval"}
    assert done.metadata("ShardBalancer", "balanced_examples")["written"] == 30
    model = cluster.below(done.uri("Trainer", "model"))
    assert "Format-Serving/saved_model.pb" in model


def test_the_trainers_image_has_what_trainers_need_and_no_tfx(trainer, pod):
    assert trainer.user == "1000:0"
    status, text = run(trainer, {**pod, "/tmp": pod["/minio"]}, *trainer.command)
    assert (status, "trainer_utils" in text) == (0, True), text
    folders = ["HOME=/home/tfx", "TMPDIR=/minio"]
    status, text = run(trainer, pod, "env", *folders, "python", "-m", "pip", "check")
    assert status == 0, text
    program = "import importlib.util as u; print([n for n in ('tfx', 'apache_beam', 'kfp', 'keras')"
    status, text = run(trainer, pod, "python", "-c", f"{program} if u.find_spec(n)])")
    assert text.splitlines()[-1] == "['kfp', 'keras']"
    status, text = run(
        trainer, pod, "sh", "-c", "command -v g++ cc; id -u; touch /tmp/a /home/tfx/a"
    )
    assert text.splitlines()[0] == str(UID)
    assert text.count("Read-only file system") == 2


def test_a_worker_of_a_training_job_writes_and_reads_a_dataset_and_trains(trainer, pod, tmp_path):
    (pod["/gcs"] / "train.py").write_text(TRAIN)
    # As Kubernetes does: the runtime's command, and a job's arguments.
    runtime = next(yaml.safe_load_all((REPOSITORY / "docs/kubeflow-trainer.yaml").read_text()))
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = jobs[0]["template"]["spec"]["template"]["spec"]["containers"]
    command = [*container["command"], "python", "/gcs/train.py", "/minio/model.keras"]
    (tmp_path / "tmp").mkdir()
    os.chown(tmp_path / "tmp", UID, GID)
    status, text = run(trainer, {**pod, "/tmp": tmp_path / "tmp"}, *command)
    assert (status, "epochs=2" in text) == (0, True), text
    assert (pod["/minio"] / "model.keras").stat().st_uid == UID
    status, text = run(trainer, pod, "tfx-shards", "verify", "/minio/data")  # which needs none
    assert status == 0, text
