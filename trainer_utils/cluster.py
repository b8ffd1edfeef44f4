"""`TF_CONFIG` from what a cluster tells its processes, for `MultiWorkerMirroredStrategy`.

    trainer_utils.cluster.set_tf_config()           # before the strategy is made
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    python -m trainer_utils.cluster python train.py     # the same for a program as it is

Kubeflow Trainer v2 has no runtime for TensorFlow: its jobs get the variables of PyTorch's torchrun.
Slurm and plain lists of hosts are understood as well; Kubeflow's older TFJob sets TF_CONFIG. Under
MPI set `WORKER_HOSTS` and `WORKER_INDEX`. (TensorFlow's SlurmClusterResolver sorts hosts by name,
so that n10 gets the rank of n2.)
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from trainer_utils.format import ConfigError

__all__ = ["Cluster", "cluster_from_environment", "set_tf_config"]

Environment = Mapping[str, str]

PORT = 2222  # TFJob's
# A pod of a JobSet: <jobset>-<replicated job>-<job index>-<pod index>, in a subdomain <jobset>.
_POD = re.compile(r"(?P<job>(?P<jobset>.+)-[^-]+-\d+)-(?P<index>\d+)")
_HOSTS_RULE = "hosts such as n[01-03,7],gpu1"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that train together.

    Attributes:
        workers: `host:port` of each.
        index: which of them this process is.
        source: who said so: `"Kubeflow Trainer"`, `"Slurm"`, …

    Raises:
        ConfigError: it cannot be.
    """

    workers: tuple[str, ...]
    index: int
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.index < len(self.workers):
            rule = f"an index in [0, {len(self.workers)}) of the workers of {self.source}"
            raise ConfigError.of("index", self.index, allowed=rule)
        twice = {worker for worker in self.workers if self.workers.count(worker) > 1}
        if twice:
            raise ConfigError.of("workers", sorted(twice), allowed="each address once")

    @property
    def tf_config(self) -> str:
        """The JSON that TensorFlow reads from `TF_CONFIG`.

        Source: https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
        """
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})


def set_tf_config(environment: Environment | None = None, *, port: int = PORT) -> Cluster | None:
    """Sets `TF_CONFIG` for this process, where it is one of several workers.

    It goes before making a strategy. Where `TF_CONFIG` is set already, and where there is one
    worker alone, nothing is changed.

    Args:
        environment: what to go by. None: this process's.
        port: on which the workers listen; a host's second one takes the next.

    Returns:
        The cluster; None where this process works alone.

    Raises:
        ConfigError: as `cluster_from_environment`.
    """
    found = cluster_from_environment(os.environ if environment is None else environment, port=port)
    if found is None or len(found.workers) == 1:
        return None
    if found.source != "TF_CONFIG":
        os.environ["TF_CONFIG"] = found.tf_config
    return found


def cluster_from_environment(environment: Environment, *, port: int = PORT) -> Cluster | None:
    """The cluster that the environment of a process describes.

    | source | variables |
    |---|---|
    | `TF_CONFIG`: TFJob, Vertex AI | its JSON |
    | Kubeflow Trainer v2, its torch policy | `PET_NNODES`, `PET_NODE_RANK`, `PET_MASTER_ADDR` |
    | JobSet, plain policy | `JOB_COMPLETION_INDEX`, `HOSTNAME`, `NUM_NODES` |
    | plain | `WORKER_HOSTS` (`a:1,b:1`), `WORKER_INDEX` |
    | Slurm | `SLURM_PROCID`, `SLURM_STEP_NODELIST`, `SLURM_STEP_TASKS_PER_NODE` |
    | torchrun on one host | `RANK`, `WORLD_SIZE`, `LOCAL_WORLD_SIZE` |

    Args:
        environment: of one worker.
        port: as `set_tf_config` takes it.

    Returns:
        The cluster; None where no variable speaks of one.

    Raises:
        ConfigError: a variable is missing beside its companions, or has a value that cannot be.
    """
    finders: Sequence[Callable[[Environment, int], Cluster | None]] = (
        _of_tf_config,
        _of_torch_policy,
        _of_host_list,
        _of_jobset,
        _of_slurm,
        _of_torchrun,
    )
    for find in finders:
        found = find(environment, port)
        if found is not None:
            return found
    return None


def _of_tf_config(environment: Environment, port: int) -> Cluster | None:
    text = environment.get("TF_CONFIG", "")
    if text in ("", "{}"):
        return None
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        chiefs = cluster.get("chief", cluster.get("master", []))
        workers = (*chiefs, *cluster.get("worker", []))
        index = int(task["index"]) + (len(chiefs) if task["type"] == "worker" else 0)
        if task["type"] not in ("chief", "master", "worker"):
            return None  # an evaluator, or a parameter server, trains with nobody
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        rule = '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}'
        raise ConfigError.of("TF_CONFIG", text, allowed=rule) from error
    return Cluster(workers, index, "TF_CONFIG")


def _of_torch_policy(environment: Environment, port: int) -> Cluster | None:
    if "PET_NNODES" not in environment:
        return None
    nodes = _number(environment, "PET_NNODES")
    master = environment.get("PET_MASTER_ADDR", "")
    host, _, domain = master.partition(".")
    prefix = host.removesuffix("-0")
    if nodes > 1 and prefix == host:
        rule = "the name of the first of a TrainJob's pods, which ends with -0 before its domain"
        raise ConfigError.of("PET_MASTER_ADDR", master, allowed=rule)
    names = [f"{prefix}-{index}" for index in range(nodes)] if nodes > 1 else [host]
    workers = tuple(f"{name}.{domain}:{port}" if domain else f"{name}:{port}" for name in names)
    return Cluster(workers, _number(environment, "PET_NODE_RANK"), "Kubeflow Trainer")


def _of_jobset(environment: Environment, port: int) -> Cluster | None:
    if "JOB_COMPLETION_INDEX" not in environment or "NUM_NODES" not in environment:
        return None
    nodes = _number(environment, "NUM_NODES")
    host = environment.get("HOSTNAME", "")
    pod = _POD.fullmatch(host)
    if pod is None:
        rule = "the name of a JobSet's pod, <jobset>-<job>-<number>-<index>"
        raise ConfigError.of("HOSTNAME", host, allowed=rule)
    workers = tuple(f"{pod['job']}-{index}.{pod['jobset']}:{port}" for index in range(nodes))
    return Cluster(workers, _number(environment, "JOB_COMPLETION_INDEX"), "JobSet")


def _of_host_list(environment: Environment, port: int) -> Cluster | None:
    if "WORKER_HOSTS" not in environment:
        return None
    hosts = [host.strip() for host in environment["WORKER_HOSTS"].split(",")]
    workers = tuple(host if ":" in host else f"{host}:{port}" for host in hosts if host)
    return Cluster(workers, _number(environment, "WORKER_INDEX"), "WORKER_HOSTS")


def _of_slurm(environment: Environment, port: int) -> Cluster | None:
    if "SLURM_PROCID" not in environment:
        return None
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    nodes = _first_of(environment, *names, beside="SLURM_PROCID")
    tasks = _first_of(
        environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", beside="SLURM_PROCID"
    )
    hosts = expand_hosts(nodes)
    counts = expand_counts(tasks)
    if len(counts) != len(hosts):
        rule = f"a count for each of the {len(hosts)} nodes of {nodes}"
        raise ConfigError.of("SLURM_STEP_TASKS_PER_NODE", tasks, allowed=rule)
    # The numbers of tasks go up node by node, as srun hands them out by default.
    workers = _addresses(zip(hosts, counts, strict=True), port)
    return Cluster(workers, _number(environment, "SLURM_PROCID"), "Slurm")


def _of_torchrun(environment: Environment, port: int) -> Cluster | None:
    if not {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"} <= set(environment):
        return None
    count = _number(environment, "WORLD_SIZE")
    if _number(environment, "LOCAL_WORLD_SIZE") != count:
        rule = "WORLD_SIZE, since nothing says the addresses of other hosts' workers. "
        rule += "Set WORKER_HOSTS and WORKER_INDEX"
        raise ConfigError.of("LOCAL_WORLD_SIZE", environment["LOCAL_WORLD_SIZE"], allowed=rule)
    workers = _addresses([("localhost", count)], port)
    return Cluster(workers, _number(environment, "RANK"), "torchrun")


def expand_hosts(text: str) -> list[str]:
    """The hosts of Slurm's short form: `"n[01-03,7],gpu1"` is n01, n02, n03, n7, gpu1.

    Source: https://slurm.schedmd.com/scontrol.html, `show hostnames`

    Raises:
        ConfigError: it is not of that form.
    """
    hosts: list[str] = []
    if not re.fullmatch(r"(?:[^\[\]]|\[[^\[\]]+\])+", text):
        raise ConfigError.of("SLURM_STEP_NODELIST", text, allowed=_HOSTS_RULE)
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        names = [pieces[0]]
        for ranges, rest in zip(pieces[1::2], pieces[2::2], strict=True):
            numbers = [number for one in ranges.split(",") for number in _range(one, text)]
            names = [f"{name}{number}{rest}" for name in names for number in numbers]
        hosts += names
    if not all(re.fullmatch(r"[\w.:-]+", host) for host in hosts):
        raise ConfigError.of("SLURM_STEP_NODELIST", text, allowed=_HOSTS_RULE)
    return hosts


def expand_counts(text: str) -> list[int]:
    """The counts of Slurm's short form: `"2(x3),1"` is 2, 2, 2, 1.

    Raises:
        ConfigError: it is not of that form.
    """
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            raise ConfigError.of("SLURM_STEP_TASKS_PER_NODE", text, allowed="such as 2(x3),1")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _range(text: str, whole: str) -> list[str]:
    first, dash, last = text.strip().partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ConfigError.of("SLURM_STEP_NODELIST", whole, allowed=_HOSTS_RULE)
    numbers = range(int(first), int(last or first) + 1)
    return [str(number).zfill(len(first)) for number in numbers]


def _addresses(
    slots: "Sequence[tuple[str, int]] | zip[tuple[str, int]]", port: int
) -> tuple[str, ...]:
    """The workers of each host, each on a port of its own."""
    taken: dict[str, int] = {}
    addresses = []
    for host, count in slots:
        for _ in range(count):
            addresses.append(f"{host}:{port + taken.get(host, 0)}")
            taken[host] = taken.get(host, 0) + 1
    return tuple(addresses)


def _number(environment: Environment, name: str) -> int:
    value = environment.get(name, "")
    if not value.isdecimal():
        raise ConfigError.of(name, value, allowed="a number in the environment")
    return int(value)


def _first_of(environment: Environment, *names: str, beside: str) -> str:
    for name in names:
        if environment.get(name):
            return environment[name]
    raise ConfigError(
        f"{names[0]}: expected in the environment of a process that {beside} is set for, got none",
        setting=names[0],
    )


def main(arguments: Sequence[str]) -> None:
    """Sets `TF_CONFIG`, and becomes the program that is named."""
    if not arguments:
        print("usage: python -m trainer_utils.cluster PROGRAM [ARGUMENT...]", file=sys.stderr)
        raise SystemExit(2)
    try:
        found = set_tf_config()
    except ConfigError as error:
        print(f"trainer_utils.cluster: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if found is not None:
        print(
            f"Worker {found.index} of {len(found.workers)}, by {found.source}: "
            f"{found.workers[found.index]}",
            file=sys.stderr,
            flush=True,
        )
    os.execvp(arguments[0], list(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
