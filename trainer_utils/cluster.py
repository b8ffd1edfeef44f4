"""Set `TF_CONFIG` from a cluster's environment variables, for `MultiWorkerMirroredStrategy`.

trainer_utils.cluster.set_tf_config()           # before the strategy is made
python -m trainer_utils.cluster python train.py     # the same for an unchanged program
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence

from trainer_utils.core.errors import ConfigError

__all__ = ["Cluster", "cluster_from_environment", "set_tf_config"]

Environment = Mapping[str, str]

PORT = 2222  # the default of TFJob
# A pod of a JobSet: <jobset>-<replicated job>-<job index>-<pod index>, in a subdomain <jobset>.
_POD = re.compile(r"(?P<job>(?P<jobset>.+)-[^-]+-\d+)-(?P<index>\d+)")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that train together.

    Attributes:
        workers: the `host:port` of each worker.
        index: the index of this process in `workers`.
        source: the origin of these facts, such as `"Kubeflow Trainer"`.
    """

    workers: tuple[str, ...]
    index: int
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.index < len(self.workers):
            rule = f"an index in [0, {len(self.workers)}) of the workers of {self.source}"
            raise ConfigError.of("index", self.index, allowed=rule)
        if len(set(self.workers)) < len(self.workers):
            raise ConfigError.of("workers", self.workers, allowed="each address once")

    @property
    def tf_config(self) -> str:
        """JSON that TensorFlow reads from `TF_CONFIG`."""
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})


def set_tf_config(environment: Environment | None = None, *, port: int = PORT) -> Cluster | None:
    """Set `TF_CONFIG` if this process is one of several workers and it is not set yet.

    Call it before making a strategy.

    Args:
        environment: the environment variables to read. None: this process's.
        port: the port that the workers listen on.

    Returns:
        The cluster, or None if this process works alone.

    Raises:
        ConfigError: as in `cluster_from_environment`.
    """
    cluster = cluster_from_environment(
        os.environ if environment is None else environment, port=port
    )
    if cluster is None or len(cluster.workers) == 1:
        return None
    if cluster.source != "TF_CONFIG":
        os.environ["TF_CONFIG"] = cluster.tf_config
    return cluster


def cluster_from_environment(environment: Environment, *, port: int = PORT) -> Cluster | None:
    """Return the cluster that environment variables describe.

    | source | variables |
    |---|---|
    | `TF_CONFIG`: TFJob, Vertex AI | its JSON |
    | Kubeflow Trainer v2, its torch policy | `PET_NNODES`, `PET_NODE_RANK`, `PET_MASTER_ADDR` |
    | plain | `WORKER_HOSTS` (`a:1,b:1`), `WORKER_INDEX` |
    | JobSet, plain policy | `JOB_COMPLETION_INDEX`, `HOSTNAME`, `NUM_NODES` |

    Args:
        environment: the environment variables.
        port: the port that the workers listen on, unless an address has one.

    Returns:
        The cluster, or None if no variable describes one.

    Raises:
        ConfigError: a variable is missing next to its companions, or has an impossible value.
    """
    if environment.get("TF_CONFIG", "") not in ("", "{}"):
        return _of_tf_config(environment["TF_CONFIG"])
    if "PET_NNODES" in environment:
        source, index, hosts = "Kubeflow Trainer", "PET_NODE_RANK", _hosts_of_torch(environment)
    elif "WORKER_HOSTS" in environment:
        source, index = "WORKER_HOSTS", "WORKER_INDEX"
        hosts = [*filter(None, map(str.strip, environment["WORKER_HOSTS"].split(",")))]
    elif {"JOB_COMPLETION_INDEX", "NUM_NODES"} <= set(environment):
        source, index, hosts = "JobSet", "JOB_COMPLETION_INDEX", _hosts_of_jobset(environment)
    else:
        return None
    workers = tuple(host if ":" in host else f"{host}:{port}" for host in hosts)
    return Cluster(workers, _number(environment, index), source)


def _of_tf_config(text: str) -> Cluster | None:
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        chiefs = cluster.get("chief", cluster.get("master", []))
        workers = (*chiefs, *cluster.get("worker", []))
        index = int(task["index"]) + (len(chiefs) if task["type"] == "worker" else 0)
        if task["type"] not in ("chief", "master", "worker"):
            return None  # an evaluator or a parameter server trains alone
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        rule = '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}'
        raise ConfigError.of("TF_CONFIG", text, allowed=rule) from error
    return Cluster(workers, index, "TF_CONFIG")


def _hosts_of_torch(environment: Environment) -> list[str]:
    nodes, master = _number(environment, "PET_NNODES"), environment.get("PET_MASTER_ADDR", "")
    host, dot, domain = master.partition(".")
    prefix = host.removesuffix("-0")
    if nodes == 1:
        return [master]
    if prefix == host:
        rule = "the name of the first of a TrainJob's pods, which ends with -0 before its domain"
        raise ConfigError.of("PET_MASTER_ADDR", master, allowed=rule)
    return [f"{prefix}-{index}{dot}{domain}" for index in range(nodes)]


def _hosts_of_jobset(environment: Environment) -> list[str]:
    pod = _POD.fullmatch(environment.get("HOSTNAME", ""))
    if pod is None:
        rule = "the name of a JobSet's pod, <jobset>-<job>-<number>-<index>"
        raise ConfigError.of("HOSTNAME", environment.get("HOSTNAME"), allowed=rule)
    nodes = range(_number(environment, "NUM_NODES"))
    return [f"{pod['job']}-{index}.{pod['jobset']}" for index in nodes]


def _number(environment: Environment, name: str) -> int:
    value = environment.get(name, "")
    if not value.isdecimal():
        raise ConfigError.of(name, value, allowed="a number in the environment")
    return int(value)


def main(arguments: Sequence[str]) -> None:
    """Set `TF_CONFIG`, and replace this process by the given program."""
    try:
        if not arguments:
            raise ConfigError("usage: python -m trainer_utils.cluster PROGRAM [ARGUMENT...]")
        cluster = set_tf_config()
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    if cluster is not None:
        at = f"{cluster.index} of {len(cluster.workers)}, by {cluster.source}"
        print(f"Worker {at}: {cluster.workers[cluster.index]}", file=sys.stderr, flush=True)
    os.execvp(arguments[0], list(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
