"""Manifests for Kubeflow Trainer, held against the definitions that it publishes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from components.kubeflow.training_runtime import main, train_job_manifest, training_runtime
from tests.components.kubeflow.trainer_cluster import MODULE, schema_errors
from trainer_utils import ConfigError

IMAGE = "registry.example/me/trainer:1"
FULL_RUNTIME = {"volumes": {"photos": "/mnt/photos"}, "secrets": ["s3"], "max_restarts": 0}
FULL_JOB = {
    "workers": 4,
    "image": IMAGE,
    "environment": {"B": "2", "A": "1"},
    "cpu": "500m",
    "memory": "1.5Gi",
    "gpu": 2,
    "gpu_type": "amd.com/gpu",
}


@pytest.fixture(scope="module")
def crds(tmp_path_factory) -> Path:
    """The definitions of Kubeflow Trainer, from its Go module."""
    if shutil.which("go") is None:
        pytest.skip("there is no go to fetch Kubeflow Trainer's definitions with")
    done = subprocess.run(
        ["go", "mod", "download", "-json", MODULE],
        cwd=tmp_path_factory.mktemp("go"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"{MODULE}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"], "manifests", "base", "crds")


@pytest.mark.parametrize("given", [{}, FULL_RUNTIME])
def test_the_runtime_is_as_kubeflow_trainer_defines_it(crds, given):
    assert schema_errors(crds, training_runtime(IMAGE, **given)) == []


@pytest.mark.parametrize("given", [{}, FULL_JOB])
def test_a_job_is_as_kubeflow_trainer_defines_it(crds, given):
    assert schema_errors(crds, train_job_manifest(["python", "train.py"], **given)) == []


def test_the_definitions_find_a_field_that_is_misspelt(crds):
    manifest = train_job_manifest(["true"])
    manifest["spec"]["trainer"]["numNode"] = 2
    (error,) = schema_errors(crds, manifest)
    assert "numNode" in error


def test_resources_and_variables_of_each_worker():
    trainer = train_job_manifest(["true"], **FULL_JOB)["spec"]["trainer"]
    resources = {"cpu": "500m", "memory": "1.5Gi", "amd.com/gpu": "2"}
    assert trainer["resourcesPerNode"] == {"requests": resources, "limits": resources}
    assert trainer["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"program": "python train.py"}, "program"),
        ({"program": []}, "program"),
        ({"workers": 0}, "workers"),
        ({"workers": True}, "workers"),
        ({"name": "Train"}, "name"),
        ({"name": "a" * 41}, "name"),
        ({"runtime": "a b"}, "runtime"),
        ({"image": "a b"}, "image"),
        ({"cpu": "many"}, "cpu"),
        ({"memory": "32 GB"}, "memory"),
        ({"gpu": -1}, "gpu"),
        ({"gpu": 1, "gpu_type": "nvidia"}, "gpu_type"),
        ({"environment": {"A": 1}}, "environment"),
        ({"environment": {"A B": "1"}}, "environment"),
        ({"environment": {"PET_NNODES": "1"}}, "environment"),
    ],
)
def test_a_job_that_cannot_be_is_refused(given, setting):
    with pytest.raises(ConfigError) as error:
        train_job_manifest(**{"program": ["true"], **given})
    assert error.value.setting == setting


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"image": ""}, "image"),
        ({"volumes": {"photos": "mnt"}}, "volumes"),
        ({"volumes": {"Photos": "/mnt"}}, "volumes"),
        ({"secrets": ["a b"]}, "secrets"),
        ({"max_restarts": -1}, "max_restarts"),
    ],
)
def test_a_runtime_that_cannot_be_is_refused(given, setting):
    with pytest.raises(ConfigError) as error:
        training_runtime(**{"image": IMAGE, **given})
    assert error.value.setting == setting


def test_the_command_prints_the_runtime(capsys):
    arguments = ["--image", IMAGE, "--volume", "photos=/mnt/photos", "--secret", "s3"]
    assert main([*arguments, "--max-restarts", "0"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == training_runtime(IMAGE, **FULL_RUNTIME)


def test_the_command_says_what_is_wrong(capsys):
    assert main(["--image", IMAGE, "--volume", "photos"]) == 1
    assert capsys.readouterr().err.startswith("ConfigError: volumes: expected absolute paths")
