"""Options of steps, in the package that Kubeflow reads."""

from typing import Any

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.kubeflow.steps import apply_options, read_options
from tests.make import refusing


def package() -> list[dict[str, Any]]:
    """Return a package with two steps of one component, a third-party trainer and an importer."""
    ours = {"command": ["sh", "from components.kubeflow.run import x"], "image": "i"}
    tfx = {"args": ["--", "--executor_class_path", "components.x.Executor"], "image": "i"}
    executors = {
        "exec-gen": {"container": ours},
        "exec-tfx": {"container": tfx},
        "exec-train": {"container": {"image": "i", "env": [{"name": "A", "value": "0"}]}},
        "exec-import": {"importer": {}},
    }
    components = {f"comp-{e[5:]}": {"executorLabel": e} for e in executors}
    steps = {"gen": "gen", "gen-2": "gen", "Tfx": "tfx", "Trainer": "train", "import": "import"}
    tasks = {s: {"componentRef": {"name": f"comp-{c}"}} for s, c in steps.items()}
    root = {"dag": {"tasks": tasks}}
    return [{"root": root, "components": components, "deploymentSpec": {"executors": executors}}]


def applied(*platform: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    """Return the task, the container and the Kubernetes settings of each step."""
    spec, *others = apply_options([*package(), *platform], read_options(options))
    # Kubeflow's parser refuses unknown fields.
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    configs = others[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if others else {}
    found = {}
    for name, task in spec["root"]["dag"]["tasks"].items():
        label = spec["components"][task["componentRef"]["name"]]["executorLabel"]
        container = spec["deploymentSpec"]["executors"][label].get("container", {})
        found[name] = {"task": task, "container": container, "config": configs.get(label, {})}
    return found


@pytest.mark.parametrize("gpu", [{"Trainer": 2}, ["Trainer=2"]])
def test_only_requesting_steps_get_gpus(gpu):
    steps = applied(gpu=gpu)
    accelerator = {"count": "2", "type": "nvidia.com/gpu"}
    assert steps["Trainer"]["container"]["resources"] == {"accelerator": accelerator}
    assert "resources" not in steps["gen"]["container"]
    other = applied(gpu=1, gpu_type=["amd.com/gpu"])["gen"]["container"]["resources"]
    assert other == {"accelerator": {"count": "1", "type": "amd.com/gpu"}}


def test_our_steps_are_retried_by_default():
    def counts(**options: Any) -> dict[str, int | None]:
        steps = applied(**options)
        return {n: s["task"].get("retryPolicy", {}).get("maxRetryCount") for n, s in steps.items()}

    assert counts() == {"gen": 2, "gen-2": 2, "Tfx": 2, "Trainer": None, "import": None}
    assert counts(retries=0)["gen"] == 0
    assert counts(retries=["Trainer=5"]) == {**counts(), "Trainer": 5}


RAW = {"constant": "raw", "mountPath": "/raw"}
OUT = {"constant": "out", "mountPath": "/out"}
SECRET = {"secretName": "s3", "mountPath": "/etc/s3"}
TOKEN = {"secretName": "hub", "keyToEnv": [{"secretKey": "token", "envVar": "HUB_TOKEN"}]}
BIG = {"key": "pool", "operator": "Equal", "value": "big"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def folders(*sizes: tuple[str, str]) -> list[dict[str, str]]:
    names = [{"volumeName": f"tfx-shards-scratch-{index}"} for index in range(len(sizes))]
    return [
        {**name, "mountPath": path, **({"sizeLimit": size} if size else {})}
        for name, (path, size) in zip(names, sizes, strict=True)
    ]


@pytest.mark.parametrize(
    ("options", "of_all", "of_trainer"),
    [
        (
            {"volumes": ["raw:/raw", "Trainer:out:/out"]},
            {"pvcMount": [RAW]},
            {"pvcMount": [RAW, OUT]},
        ),
        (
            {"scratch": ["/tmp/", "/work:10Gi", "Trainer=/tmp:500G"]},
            {"emptyDirMounts": folders(("/tmp", ""), ("/work", "10Gi"))},
            {"emptyDirMounts": folders(("/tmp", "500G"), ("/work", "10Gi"))},
        ),
        (
            {"secrets": ["s3:/etc/s3", "Trainer=hub:token:HUB_TOKEN"]},
            {"secretAsVolume": [SECRET]},
            {"secretAsVolume": [SECRET], "secretAsEnv": [TOKEN]},
        ),
        (
            {"tolerations": ["Trainer=nvidia.com/gpu:NoSchedule", "pool=big"]},
            {"tolerations": [BIG]},
            {"tolerations": [BIG, GPU]},
        ),
    ],
)
def test_options_apply_to_all_steps_or_to_one(options, of_all, of_trainer, subtests):
    steps = applied(**options)
    for name in ("gen", "gen-2", "Tfx"):
        with subtests.test(name=name):
            assert steps[name]["config"] == of_all
    assert steps["Trainer"]["config"] == of_trainer
    assert steps["import"]["config"] == {}


def test_invalid_options_are_refused(subtests):
    for option, value in (
        ("gpu", -1),
        ("gpu", {"Trainr": 1}),
        ("cpu", "Trainr=1"),
        ("gpu_type", "nvidia"),
        ("cpu", "many"),
        ("memory", "8ki"),
        ("retries", "often"),
        ("tolerations", "a:Never"),
        ("secrets", "s3:key:1A"),
        ("env", "A"),
        ("volumes", "Trainr:raw:/raw"),
        ("volumes", {"Raw": "/raw"}),
        ("scratch", "//"),
        ("scratch", "/tmp:0"),
    ):
        with subtests.test(option=option), refusing(option):
            applied(**{option: value})
