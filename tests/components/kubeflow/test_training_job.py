"""The component `train_job`, by its container's command, with processes for a cluster's pods."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from components.kubeflow.training_runtime import training_runtime
from tests.components.kubeflow.trainer_cluster import NAMESPACE, TrainerCluster
from trainer_utils.format import Feature

RUNTIME = training_runtime("example/trainer:1")
# What a name server does for real pods.
RESOLVE = """
import json, os
config = os.environ["TF_CONFIG"]
for host, address in json.loads(os.environ["TEST_HOSTS"]).items():
    config = config.replace(host, address)
os.environ["TF_CONFIG"] = config
"""
TRAIN = """
import sys
import tensorflow as tf
import trainer_utils

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
train = trainer_utils.input_fn(sys.argv[1], "train", features="x", label="y", batch_size=8)
steps = []
count = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: steps.append(step))
history = trainer_utils.fit(model, strategy, train, epochs=1, verbose=0, callbacks=[count])
print(f"replicas={strategy.num_replicas_in_sync} steps={len(steps)}")
print(f"loss={history.history['loss'][-1]}")
"""
REPORT = """
import os, sys
config = os.environ.get("TF_CONFIG", "alone")
print(f"{config} {sys.argv[1:]} {os.environ.get('MORE')}")
print("score=1"); print("score=0.5 records=7"); print("and no metric=3", file=sys.stderr)
"""


def start(cluster: TrainerCluster, folder: Path, **parameters: Any) -> subprocess.Popen[str]:
    """The step, as Kubeflow's launcher starts it; its log is in `step.log`."""
    examples = parameters.pop("examples", None)
    inputs: dict[str, Any] = {"parameterValues": {"namespace": NAMESPACE, **parameters}}
    command = [sys.executable, "-m", "components.kubeflow.run", "train_job"]
    if examples:
        inputs["artifacts"] = {"examples": {"artifacts": [{"uri": examples}]}}
        (folder / "copied").mkdir(exist_ok=True)  # what the launcher has fetched
        command += ["--path", "inputs", "examples", f"{folder}/copied"]
    artifacts = {"metrics": {"artifacts": [{"uri": "minio://b/m"}]}}
    artifacts["logs"] = {"artifacts": [{"uri": "minio://b/l"}]}
    outputs = {"artifacts": artifacts, "outputFile": str(folder / "output.json")}
    command += ["--executor-input", json.dumps({"inputs": inputs, "outputs": outputs})]
    command += ["--path", "outputs", "metrics", f"{folder}/metrics"]
    command += ["--path", "outputs", "logs", f"{folder}/logs"]
    with (folder / "step.log").open("w") as log:
        return subprocess.Popen(
            command, env={**os.environ, **cluster.environment}, stdout=log, stderr=log, text=True
        )


def run(cluster: TrainerCluster, folder: Path, **parameters: Any) -> tuple[int, str]:
    """Exit status and log."""
    with start(cluster, folder, **parameters) as step:
        try:
            code = step.wait(300)
        finally:
            step.kill()
    return code, (folder / "step.log").read_text()


def metrics(folder: Path) -> dict[str, Any]:
    written = json.loads((folder / "output.json").read_text())
    found: dict[str, Any] = written["artifacts"]["metrics"]["artifacts"][0]["metadata"]
    return found


def on_this_machine(runtime: dict[str, Any]) -> dict[str, Any]:
    """The runtime, whose image's python is the one of these tests."""
    changed = json.loads(json.dumps(runtime))
    (job,) = changed["spec"]["template"]["spec"]["replicatedJobs"]
    container = job["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][0] == "python"
    container["command"][0] = sys.executable
    return changed


@pytest.fixture
def cluster(tmp_path):
    with TrainerCluster(tmp_path, on_this_machine(RUNTIME)) as made:
        yield made


def test_the_workers_run_and_bring_their_logs_and_metrics(cluster, tmp_path):
    cluster.failing = 2  # the API server is away for a moment
    code, log = run(
        cluster,
        tmp_path,
        program=[sys.executable, "-c", REPORT, "--data", "$(DATASET_URI)"],
        examples="gs://bucket/examples",
        workers=2,
        environment={"MORE": "a b"},
    )
    assert code == 0, log
    assert metrics(tmp_path) == {"score": 0.5, "records": 7.0}
    assert cluster.deleted == ["train-x7k2p"]
    for index in range(2):
        text = (tmp_path / "logs" / f"worker-{index}.log").read_text()
        found = next(line for line in text.splitlines() if line.startswith("{"))
        config, end = json.JSONDecoder().raw_decode(found)
        assert found[end:] == " ['--data', 'gs://bucket/examples'] a b"
        assert config["task"] == {"type": "worker", "index": index}
        hosts = [f"train-x7k2p-node-0-{n}.train-x7k2p:2222" for n in range(2)]
        assert config["cluster"] == {"worker": hosts}
        assert f"[worker {index}] {found}" in log


def test_a_failure_is_told_with_its_log_and_the_job_is_deleted(cluster, tmp_path):
    program = [sys.executable, "-c", "raise SystemExit('no such column')"]
    code, log = run(cluster, tmp_path, program=program, name="mine")
    assert code == 1
    assert "[worker 0] no such column" in log
    assert "TrainJobError: TrainJob 'mine-x7k2p': expected it to complete, got Failed" in log
    assert (tmp_path / "logs" / "worker-0.log").read_text() == "no such column\n"
    assert not (tmp_path / "output.json").exists()
    assert cluster.deleted == ["mine-x7k2p"]


def test_what_a_job_waits_for_is_told_where_it_takes_too_long(cluster, tmp_path):
    cluster.unscheduled = True
    code, log = run(cluster, tmp_path, program=["true"], timeout_seconds=1)
    assert code == 1
    assert "within 1 seconds, got none (worker 0 waits: Unschedulable: 0/3 nodes" in log
    assert cluster.deleted == ["train-x7k2p"]


def test_a_refusal_says_what_to_do(cluster, tmp_path):
    cluster.refuse = lambda manifest: "trainjobs is forbidden"
    code, log = run(cluster, tmp_path, program=["true"])
    assert code == 1
    assert "'me', got 403: trainjobs is forbidden. Let the service account" in log
    assert cluster.jobs == {}


def test_a_job_whose_pods_may_not_be_seen_is_deleted(cluster, tmp_path):
    cluster.hidden = True
    code, log = run(cluster, tmp_path, program=["true"])
    assert code == 1
    assert "list its pods in 'me', got 403: pods is forbidden. Let the service account" in log
    assert cluster.deleted == ["train-x7k2p"]


def test_stopping_the_step_deletes_the_job(cluster, tmp_path):
    endless = "import time; print('begun', flush=True); time.sleep(600)"
    with start(cluster, tmp_path, program=[sys.executable, "-c", endless]) as step:
        deadline = time.monotonic() + 200
        while "begun" not in (tmp_path / "step.log").read_text():
            assert time.monotonic() < deadline, (tmp_path / "step.log").read_text()
            assert step.poll() is None, (tmp_path / "step.log").read_text()
            time.sleep(0.1)
        step.send_signal(signal.SIGTERM)
        assert step.wait(100) == 128 + signal.SIGTERM
    assert cluster.deleted == ["train-x7k2p"]


def test_the_job_belongs_to_the_pod_of_the_step(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("KFP_POD_NAME", "train-job-pod")
    monkeypatch.setenv("KFP_POD_UID", "0-1-2")
    assert run(cluster, tmp_path, program=["true"])[0] == 0
    (job,) = cluster.jobs.values()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train-job-pod", "uid": "0-1-2"}
    assert job["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"program": ["true"], "examples": "minio://b/e"}, "got 'minio://b/e'. Write it with a"),
        ({"program": ["true"], "gpu": -1}, "ConfigError: gpu: expected int at least 0, got -1"),
        ({"program": ["true"], "namespace": ""}, "ConfigError: namespace: expected the namespace"),
        ({}, "ConfigError: program: expected a program and its arguments"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_created(cluster, tmp_path, given, message):
    code, log = run(cluster, tmp_path, **given)
    assert code == 1
    assert message in log
    assert cluster.jobs == {}


@pytest.mark.e2e
def test_two_workers_train_together_on_a_dataset(cluster, tmp_path, write_dataset):
    rows = [{"x": [float(n), 1.0, 2.0], "y": [0.5]} for n in range(33)]
    features = {"x": Feature(type="float", shape=(3,)), "y": Feature(type="float")}
    uri = write_dataset(tmp_path / "dataset", {"train": [rows[:20], rows[20:]]}, features)
    program = tmp_path / "train.py"
    program.write_text(RESOLVE + TRAIN)
    code, log = run(
        cluster,
        tmp_path,
        program=[sys.executable, str(program), "$(DATASET_URI)"],
        examples=uri,
        workers=2,
    )
    assert code == 0, log
    found = metrics(tmp_path)
    assert {name: found[name] for name in ("replicas", "steps")} == {"replicas": 2, "steps": 5}
    assert found["loss"] > 0
