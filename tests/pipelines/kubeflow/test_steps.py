"""Options of steps, as they stand in the package that Kubeflow reads."""

from typing import Any

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.kubeflow.steps import StepOptions
from trainer_utils.format import ConfigError


def package() -> list[dict[str, Any]]:
    """Two steps of one component, a trainer of somebody else's, and an importer."""
    ours = {"command": ["python", "-m", "components.kubeflow.run"], "image": "i"}
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


def applied(**options: Any) -> dict[str, dict[str, Any]]:
    """By step: its task, its container and its configuration of Kubernetes."""
    spec, *others = StepOptions(**options).apply(package())
    # Kubeflow's own reader refuses a field that it does not know.
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    configs = others[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if others else {}
    found = {}
    for name, task in spec["root"]["dag"]["tasks"].items():
        label = spec["components"][task["componentRef"]["name"]]["executorLabel"]
        container = spec["deploymentSpec"]["executors"][label].get("container", {})
        found[name] = {"task": task, "container": container, "config": configs.get(label, {})}
    return found


def test_a_step_that_shares_its_executor_gets_one_of_its_own():
    steps = applied(cpu={"gen-2": "500m"}, memory=["8Gi", "gen-2=2G"])
    assert steps["gen-2"]["container"]["resources"] == {
        **{"cpuLimit": 0.5, "cpuRequest": 0.5, "memoryLimit": 2.0, "memoryRequest": 2.0}
    }
    everywhere = {"memoryLimit": 8.589934592, "memoryRequest": 8.589934592}
    for name in ("gen", "Tfx", "Trainer"):
        assert steps[name]["container"]["resources"] == everywhere


@pytest.mark.parametrize("gpu", [{"Trainer": 2}, "Trainer=2", ["Trainer=2"], {"Trainer": "2"}])
def test_gpus_are_of_the_steps_that_ask_for_them(gpu):
    steps = applied(gpu=gpu)
    assert steps["Trainer"]["container"]["resources"] == {
        "accelerator": {"count": "2", "type": "nvidia.com/gpu"}
    }
    assert "resources" not in steps["gen"]["container"]
    other = applied(gpu=1, gpu_type=["amd.com/gpu"])["gen"]["container"]["resources"]
    assert other == {"accelerator": {"count": "1", "type": "amd.com/gpu"}}


def test_our_own_steps_are_repeated_unless_it_is_said_otherwise():
    def counts(**options: Any) -> dict[str, int | None]:
        steps = applied(**options)
        return {n: s["task"].get("retryPolicy", {}).get("maxRetryCount") for n, s in steps.items()}

    assert counts() == {"gen": 2, "gen-2": 2, "Tfx": 2, "Trainer": None, "import": None}
    assert counts(retries=0)["gen"] == 0
    assert counts(retries=["Trainer=5"]) == {**counts(), "Trainer": 5}


@pytest.mark.parametrize(
    "env",
    [["A=1", "B=x=y", "Trainer=C=3"], {"": {"A": "1", "B": "x=y"}, "Trainer": {"C": "3"}}],
)
def test_variables_of_all_steps_and_of_one(env):
    steps = applied(env=env)
    usual = [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}]
    assert steps["gen"]["container"]["env"] == usual
    assert steps["Trainer"]["container"]["env"] == [*usual, {"name": "C", "value": "3"}]
    plain = applied(env={"A": "7"})["Trainer"]["container"]["env"]
    assert plain == [{"name": "A", "value": "7"}]


@pytest.mark.parametrize(
    "volumes",
    [["raw:/raw", "Trainer:out:/out"], {"": {"raw": "/raw"}, "Trainer": {"out": "/out"}}],
)
def test_volumes_of_all_steps_and_of_one(volumes):
    steps = applied(volumes=volumes)
    raw = {"constant": "raw", "mountPath": "/raw"}
    for name in ("gen", "gen-2", "Tfx"):
        assert steps[name]["config"] == {"pvcMount": [raw]}
    mounts = [raw, {"constant": "out", "mountPath": "/out"}]
    assert steps["Trainer"]["config"] == {"pvcMount": mounts}
    assert steps["import"]["config"] == {}


@pytest.mark.parametrize(
    "scratch",
    [
        ["/tmp/", "/work:10Gi", "Trainer=/tmp:500G"],
        {"": ["/tmp", "/work:10Gi"], "Trainer": "/tmp:500G"},
    ],
)
def test_empty_folders_of_all_steps_and_of_one(scratch):
    steps = applied(scratch=scratch)

    def mounted(step: str) -> dict[str, str]:
        mounts = steps[step]["config"].get("emptyDirMounts", [])
        assert len({mount["volumeName"] for mount in mounts}) == len(mounts)
        return {mount["mountPath"]: mount.get("sizeLimit", "") for mount in mounts}

    for name in ("gen", "gen-2", "Tfx"):
        assert mounted(name) == {"/tmp": "", "/work": "10Gi"}
    assert mounted("Trainer") == {"/tmp": "500G", "/work": "10Gi"}
    assert mounted("import") == {}


def test_an_empty_folder_takes_the_place_of_one_that_kfp_kubernetes_has_put_there():
    # As its `empty_dir_mount` writes it.
    theirs = [{"volumeName": n, "mountPath": f"/{n}", "sizeLimit": "1Gi"} for n in ("tmp", "data")]
    executors = {"exec-train": {"emptyDirMounts": theirs}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    _, made = StepOptions(scratch="Trainer=/tmp:2Gi").apply([*package(), platform])
    held = made["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]
    found = {mount["mountPath"]: mount["sizeLimit"] for mount in held["emptyDirMounts"]}
    assert found == {"/data": "1Gi", "/tmp": "2Gi"}


def test_secrets_and_tolerations():
    steps = applied(
        secrets=["s3:/etc/s3", "Trainer=hub:token:HUB_TOKEN"],
        tolerations=["Trainer=nvidia.com/gpu:NoSchedule", "pool=big", "spot"],
    )
    everywhere = [
        {"key": "pool", "operator": "Equal", "value": "big"},
        {"key": "spot", "operator": "Exists"},
    ]
    mounted = [{"secretName": "s3", "mountPath": "/etc/s3"}]
    assert steps["Tfx"]["config"] == {"secretAsVolume": mounted, "tolerations": everywhere}
    own = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    keys = [{"secretKey": "token", "envVar": "HUB_TOKEN"}]
    assert steps["Trainer"]["config"] == {
        "secretAsVolume": mounted,
        "secretAsEnv": [{"secretName": "hub", "keyToEnv": keys}],
        "tolerations": [*everywhere, own],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu": -1}, "gpu: expected a whole number of at least 0, got -1"),
        ({"gpu": True}, "gpu: expected .* got True"),
        ({"gpu": {"Trainr": 1}}, "gpu: expected one of the steps .* got 'Trainr'.*'Trainer'"),
        ({"cpu": ["Trainr=1"]}, "cpu: expected one of the steps .* got 'Trainr'"),
        ({"gpu": 1, "gpu_type": "nvidia"}, "gpu_type: expected a resource"),
        ({"cpu": "0"}, "cpu: expected a quantity"),
        ({"memory": "8 GB"}, "memory: expected a quantity .* got '8 GB'"),
        ({"retries": "often"}, "retries: expected a whole number"),
        ({"tolerations": "a:Never"}, "tolerations: expected KEY"),
        ({"secrets": "s3"}, "secrets: expected NAME:/FOLDER"),
        ({"secrets": "s3:key:1A"}, "secrets: expected NAME:/FOLDER"),
        ({"env": ["A"]}, "env: expected texts by variable"),
        ({"env": {"A": 1}}, "env: expected texts by variable"),
        ({"volumes": ["raw"]}, "volumes: expected absolute paths .* 'raw': ''"),
        ({"volumes": ["Trainr:raw:/raw"]}, "volumes: expected one of the steps .* got 'Trainr'"),
        ({"volumes": {"Raw": "/raw"}}, "volumes: expected absolute paths"),
        ({"memory": "8ki"}, "memory: expected a quantity .* got '8ki'"),
        ({"scratch": "tmp"}, "scratch: expected PATH"),
        ({"scratch": "//"}, "scratch: expected PATH"),
        ({"scratch": "/tmp:0"}, "scratch: expected PATH.* got '/tmp:0'"),
        ({"scratch": "/tmp:8ki"}, "scratch: expected PATH"),
        ({"scratch": ["/tmp:"]}, "scratch: expected PATH"),
        ({"scratch": {"Trainr": "/tmp"}}, "scratch: expected one of the steps .* got 'Trainr'"),
        ({"scratch": "/a", "volumes": {"c": "/a/"}}, "scratch: .* folders of gen .* '/a'.* 'c' is"),
        ({"scratch": "/a", "secrets": ["c:/a"]}, "scratch: .* folders of gen .* '/a'.* 'c' is"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        applied(**options)
