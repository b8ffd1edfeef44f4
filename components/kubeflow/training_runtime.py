"""What Kubeflow Trainer is told: a runtime for TensorFlow, and a TrainJob each time.

    python -m components.kubeflow.training_runtime --image IMAGE | kubectl apply -f -

    runtime = training_runtime("registry.example/me/tfx-shards-trainer:0.2.0")
    job = train_job_manifest(["python", "train.py"], workers=4, gpu=1)

Trainer has no runtime for TensorFlow. This one takes the policy of PyTorch, whose variables say
what `TF_CONFIG` needs, and puts `python -m trainer_utils.cluster` before the program.
What belongs to the cluster (volumes, secrets) is in the runtime: the fields of a TrainJob for it
have another name in each release of Trainer, and `trainer` is the same in all.

Source: https://github.com/kubeflow/trainer, `trainjob_types.go`, `trainingruntime_types.go`.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence

import yaml

from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.settings import number

__all__ = ["DATASET_VARIABLE", "RUNTIME", "WORKER_JOB", "train_job_manifest", "training_runtime"]

API_GROUP, API_VERSION = "trainer.kubeflow.org", "v1alpha1"
RUNTIME = "tensorflow-distributed"
WORKER_JOB = "node"  # Trainer knows the workers' job and container by this name
DATASET_VARIABLE = "DATASET_URI"
TF_PORT = 2222  # of `trainer_utils.cluster`
_COMMAND = ("python", "-m", "trainer_utils.cluster")
# A pod is <job>-node-0-<index>-<suffix>, of which 63 characters are a host's name.
_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|[MGTPE]i?)?")


def training_runtime(
    image: str,
    *,
    name: str = RUNTIME,
    volumes: Mapping[str, str] | None = None,
    secrets: Sequence[str] = (),
    max_restarts: int = 3,
) -> JsonObject:
    """A `ClusterTrainingRuntime`, with which TrainJobs train by `MultiWorkerMirroredStrategy`.

    Workers of TensorFlow do not outlive one another: where one fails, all are started again, and go
    on from the backup of `trainer_utils.fit`.

    Args:
        image: with `trainer_utils` in it, such as `make image` builds for trainers.
        name: of the runtime, by which jobs refer to it.
        volumes: where each worker mounts persistent volume claims: paths by claim. `/tmp` is there.
        secrets: whose keys are variables of each worker's environment.
        max_restarts: how often all workers are started again before the job has failed.

    Returns:
        The manifest, as `kubectl apply` takes it in JSON or YAML.

    Raises:
        ConfigError: an argument is not allowed.
    """
    _check_image(image)
    _check_name("name", name)
    number(0)("max_restarts", max_restarts)
    mounts: list[JsonObject] = [{"name": "tmp", "mountPath": "/tmp"}]
    sources: list[JsonObject] = [{"name": "tmp", "emptyDir": {}}]
    for index, (claim, path) in enumerate((volumes or {}).items()):
        _check_name("volumes", claim)
        if not isinstance(path, str) or not path.startswith("/"):
            raise ConfigError.of("volumes", path, allowed="absolute paths by claim")
        volume = f"claim-{index}"
        mounts.append({"name": volume, "mountPath": path})
        sources.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
    container: JsonObject = {
        "name": WORKER_JOB,
        "image": image,
        "command": list(_COMMAND),
        "ports": [{"containerPort": TF_PORT}],
        "volumeMounts": mounts,
    }
    if secrets:
        for secret in secrets:
            _check_name("secrets", secret)
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in secrets]
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": sources}
    job = {
        "name": WORKER_JOB,
        "template": {
            "metadata": {"labels": {f"{API_GROUP}/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
    }
    jobs = {"failurePolicy": {"maxRestarts": max_restarts}, "replicatedJobs": [job]}
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": 1}},
            "template": {"spec": jobs},
        },
    }


def train_job_manifest(
    program: Sequence[str],
    *,
    workers: int = 1,
    name: str = "train",
    runtime: str = RUNTIME,
    image: str = "",
    environment: Mapping[str, str] | None = None,
    cpu: str = "",
    memory: str = "",
    gpu: int = 0,
    gpu_type: str = "nvidia.com/gpu",
) -> JsonObject:
    """A `TrainJob`, in which each worker runs the same program.

    Args:
        program: the program and its arguments; Kubernetes fills in `$(VARIABLE)`.
        workers: how many, a pod each.
        name: how the job's name begins, of which Kubernetes makes one of its own.
        runtime: the `ClusterTrainingRuntime`.
        image: in place of the runtime's.
        environment: variables of each worker.
        cpu, memory: of each worker, such as `8` and `32Gi`; empty: what the cluster gives.
        gpu, gpu_type: how many of which device each worker has.

    Returns:
        The manifest.

    Raises:
        ConfigError: an argument is not allowed.
    """
    if isinstance(program, str) or not program or not all(isinstance(p, str) for p in program):
        rule = 'a program and its arguments, such as ["python", "train.py"]'
        raise ConfigError.of("program", program, allowed=rule)
    number(1)("workers", workers)
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name):
        rule = "lower-case letters, digits and hyphens, a letter first, 40 at the most"
        raise ConfigError.of("name", name, allowed=rule)
    _check_name("runtime", runtime)
    trainer: JsonObject = {"numNodes": workers, "args": list(program)}
    if image:
        _check_image(image)
        trainer["image"] = image
    if environment:
        trainer["env"] = _variables(environment)
    resources = _resources(cpu, memory, gpu, gpu_type)
    if resources:
        trainer["resourcesPerNode"] = {"requests": resources, "limits": resources}
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": "TrainJob",
        "metadata": {"generateName": f"{name}-"},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer},
    }


def _resources(cpu: str, memory: str, gpu: int, gpu_type: str) -> dict[str, Json]:
    resources: dict[str, Json] = {}
    for setting, quantity in (("cpu", cpu), ("memory", memory)):
        if quantity and not (isinstance(quantity, str) and _QUANTITY.fullmatch(quantity)):
            raise ConfigError.of(setting, quantity, allowed="a quantity such as 8, 500m or 32Gi")
        if quantity:
            resources[setting] = quantity
    if number(0)("gpu", gpu):
        if not isinstance(gpu_type, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", gpu_type):
            rule = "a resource of Kubernetes such as nvidia.com/gpu"
            raise ConfigError.of("gpu_type", gpu_type, allowed=rule)
        resources[gpu_type] = str(gpu)
    return resources


def _variables(environment: Mapping[str, str]) -> list[Json]:
    for variable, value in environment.items():
        if not _VARIABLE.fullmatch(variable) or not isinstance(value, str):
            rule = "texts by the names of variables"
            raise ConfigError.of("environment", {variable: value}, allowed=rule)
        if variable.startswith("PET_"):  # Trainer's webhook refuses these too
            rule = "names without PET_, which Kubeflow Trainer sets itself"
            raise ConfigError.of("environment", variable, allowed=rule)
    return [{"name": variable, "value": environment[variable]} for variable in sorted(environment)]


def _check_image(image: str) -> None:
    if not isinstance(image, str) or not re.fullmatch(r"\S+", image):
        raise ConfigError.of("image", image, allowed="a container image")


def _check_name(setting: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError.of(setting, name, allowed="names of Kubernetes, in lower case")


def main(arguments: Sequence[str]) -> int:
    """Prints the runtime as YAML; 0 where it worked."""
    parser = argparse.ArgumentParser(
        prog="python -m components.kubeflow.training_runtime", allow_abbrev=False
    )
    parser.add_argument("--image", required=True)
    parser.add_argument("--name", default=RUNTIME)
    parser.add_argument("--volume", action="append", default=[], metavar="CLAIM=PATH")
    parser.add_argument("--secret", action="append", default=[], metavar="NAME")
    parser.add_argument("--max-restarts", type=int, default=3)
    given = parser.parse_args(arguments)
    pairs = [text.partition("=") for text in given.volume]
    try:
        manifest = training_runtime(
            given.image,
            name=given.name,
            volumes={claim: path for claim, _, path in pairs},
            secrets=given.secret,
            max_restarts=given.max_restarts,
        )
    except ConfigError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(yaml.safe_dump(manifest, sort_keys=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
