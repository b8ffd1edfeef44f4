"""TF_CONFIG from the environment variables of clusters."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import tensorflow as tf

from trainer_utils import ConfigError
from trainer_utils.cluster import cluster_from_environment, set_tf_config

POD = "train-9x-node-0-{}.train-9x"
TWO = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})
CHIEF = json.dumps(
    {"cluster": {"chief": ["c:1"], "worker": ["w:1"]}, "task": {"type": "worker", "index": 0}}
)
TORCH = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": POD.format(0)}

CASES: dict[str, tuple[dict[str, str], list[str], int]] = {
    "TFJob": ({"TF_CONFIG": TWO, "PET_NNODES": "9"}, ["a:1", "b:1"], 1),
    "TFJob with a chief": ({"TF_CONFIG": CHIEF}, ["c:1", "w:1"], 1),
    "Trainer v2": (
        {**TORCH, "PET_NODE_RANK": "1", "JOB_COMPLETION_INDEX": "1"},
        [f"{POD.format(0)}:2222", f"{POD.format(1)}:2222"],
        1,
    ),
    "Trainer v2, one node": (
        {"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": POD.format(0)},
        [f"{POD.format(0)}:2222"],
        0,
    ),
    "JobSet": (
        {"JOB_COMPLETION_INDEX": "2", "NUM_NODES": "3", "HOSTNAME": "a-b-node-0-2"},
        [f"a-b-node-0-{index}.a-b:2222" for index in range(3)],
        2,
    ),
    "plain": ({"WORKER_HOSTS": "a:7, b", "WORKER_INDEX": "0"}, ["a:7", "b:2222"], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_tensorflow_accepts_tf_config(monkeypatch, name):
    environment, workers, index = CASES[name]
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if "TF_CONFIG" in environment:
        monkeypatch.setenv("TF_CONFIG", environment["TF_CONFIG"])
    cluster = cluster_from_environment(environment)
    assert cluster is not None
    assert (list(cluster.workers), cluster.index) == (workers, index)
    found = set_tf_config(environment)
    if len(workers) == 1:
        assert found is None
        assert "TF_CONFIG" not in os.environ
        return
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = resolver.cluster_spec().as_dict()
    assert [*spec.get("chief", []), *spec["worker"]] == workers
    assert resolver.task_type == "worker"
    assert resolver.task_id == index - len(spec.get("chief", []))


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "[1]"},
        {"TF_CONFIG": TWO.replace("1}", "2}")},
        {**TORCH},
        {**TORCH, "PET_NODE_RANK": "2"},
        {**TORCH, "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "10.0.0.7"},
        {"WORKER_HOSTS": "a:1,a:1", "WORKER_INDEX": "0"},
        {"WORKER_HOSTS": "a:1"},
        {"JOB_COMPLETION_INDEX": "0", "NUM_NODES": "2", "HOSTNAME": "x"},
    ],
)
def test_impossible_variables_are_refused(environment):
    with pytest.raises(ConfigError):
        cluster_from_environment(environment)


def test_a_process_alone_is_no_cluster(subtests):
    for environment in ({}, {"TF_CONFIG": "{}"}, {"RANK": "0"}, {"HOSTNAME": "a"}):
        with subtests.test(environment=environment):
            assert cluster_from_environment(environment) is None


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command: list[Any] = [sys.executable, "-m", "trainer_utils.cluster", *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return subprocess.run(
        command, env={**inherited, **environment}, capture_output=True, text=True, check=False
    )


def test_an_unchanged_program_gets_the_variable():
    program = "import os, sys; print(os.environ['TF_CONFIG']); sys.exit(7)"
    done = run(sys.executable, "-c", program, WORKER_HOSTS="a:1,b:1", WORKER_INDEX="1")
    assert json.loads(done.stdout) == json.loads(TWO)
    assert done.returncode == 7
    assert "Worker 1 of 2, by WORKER_HOSTS: b:1" in done.stderr


def test_a_program_is_not_started_with_bad_variables():
    assert run("true", WORKER_HOSTS="a,b").returncode == 2
