"""Check that each record comes exactly once per epoch in a job that grows and shrinks.

It also measures the pause of each change.

    python benchmarks/elastic.py torch --seconds 300 --every 20
    python benchmarks/elastic.py jax
    python benchmarks/elastic.py tensorflow

Every 20 seconds a process is killed or one is added, and all are restarted, like torchrun, a JobSet
or a TrainJob does. Each worker logs the records of its rows before the collective operation of a
step. The first worker saves the token after it, and a step counts once its token is saved. The
output lists the changes, the pause of each, and the complete epochs with each record exactly once.
"""

import collections
import contextlib
import glob
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import click

import trainer_utils

RECORDS, BATCH, STEP_SECONDS, MOST = 5_000, 24, 0.02, 4  # 24 rows divide among 1 to 4 workers
TOKEN = "token.json"
Step = tuple[int, list[int], Callable[[], None]]  # number, rows here, the collective operation


def settings(folder: str) -> tuple[int, dict[str, Any]]:
    """Return the next step, and settings that resume the input at it in any framework."""
    kept: dict[str, Any] = {"step": 0, "token": None}
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, TOKEN)) as stream:
        kept = json.load(stream)
    own = {"batch_size": BATCH, "seed": 7, "repeat": True, "remainder": "drop"}
    return kept["step"], {**own, "state": kept["token"]}


def train(folder: str, rank: int, run: str, steps: Iterator[Step], save: Any) -> None:
    """Log the rows of each step; the first worker saves the token after it."""
    with open(os.path.join(folder, f"seen-{uuid.uuid4().hex}.jsonl"), "a", buffering=1) as seen:
        for step, rows, together in steps:
            seen.write(json.dumps({"run": run, "step": step, "rows": rows}) + "\n")
            time.sleep(STEP_SECONDS)
            together()
            if rank == 0:
                seen.write(json.dumps({"run": run, "kept": step, "time": time.time()}) + "\n")
                fresh = os.path.join(folder, f"{TOKEN}.{run}")
                with open(fresh, "w") as stream:
                    json.dump({"step": step + 1, "token": save(step + 1).to_json()}, stream)
                os.replace(fresh, os.path.join(folder, TOKEN))


def work_torch(folder: str) -> None:
    """Run one process of a PyTorch job, with or without torchrun."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    first, options = settings(folder)
    data = trainer_utils.torch_dataset(
        os.path.join(folder, "data"), "train", rank=rank, world_size=world, **options
    )

    def steps() -> Iterator[Step]:
        for number, batch in enumerate(torch.utils.data.DataLoader(data, batch_size=None), first):
            yield number, batch["n"].tolist(), lambda: dist.all_reduce(torch.ones(1))

    train(folder, rank, os.environ["RUN"], steps(), data.state)


def work_jax(folder: str) -> None:
    """Run one process of a JAX job."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        os.environ["COORDINATOR"], int(os.environ["WORLD"]), int(os.environ["RANK"])
    )
    first, options = settings(folder)
    data = trainer_utils.jax_batches(os.path.join(folder, "data"), "train", **options)
    total = jax.jit(jnp.sum)

    def steps() -> Iterator[Step]:
        for number, batch in enumerate(data, first):
            rows = [int(n) for shard in batch["n"].addressable_shards for n in shard.data]
            yield number, rows, lambda batch=batch: total(batch["n"]).block_until_ready()

    train(folder, jax.process_index(), os.environ["RUN"], steps(), data.state)


def work_tensorflow(folder: str) -> None:
    """Run one process of a MultiWorkerMirroredStrategy."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    first, options = settings(folder)
    data = trainer_utils.distribute(strategy, os.path.join(folder, "data"), "train", **options)

    @tf.function
    def total(batch: Any) -> Any:
        def own() -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, 1.0)

        return strategy.run(own)

    def steps() -> Iterator[Step]:
        for number, batch in enumerate(data, first):
            rows = [
                int(n) for part in strategy.experimental_local_results(batch["n"]) for n in part
            ]
            yield number, rows, lambda batch=batch: total(batch)

    rank = strategy.cluster_resolver.task_id
    train(folder, rank, os.environ["RUN"], steps(), data.state)


def notes(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the workers' log entries; the last line of a killed one may be torn."""
    for path in glob.glob(os.path.join(folder, "seen-*.jsonl")):
        with open(path) as stream:
            for line in stream:
                with contextlib.suppress(ValueError):
                    yield json.loads(line)


# Starting and killing the workers ----------------------------------------------------------------


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Job:
    """The processes of a job; each change of their number restarts all."""

    def __init__(self, folder: str, framework: str) -> None:
        self.folder, self.framework = folder, framework
        self.processes: list[subprocess.Popen[bytes]] = []

    def change(self, size: int) -> None:
        """Kill one process, like a failing machine, then restart all."""
        self.end()
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(size)]
        run = uuid.uuid4().hex
        for rank in range(size):
            environment = {"COORDINATOR": addresses[0], "WORLD": str(size), "RANK": str(rank)}
            if self.framework == "torch":  # torchrun's names
                host, _, port = addresses[0].partition(":")
                environment |= {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(size)}
            if self.framework == "tensorflow":
                cluster = {"worker": addresses}
                task = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
                environment = {"TF_CONFIG": json.dumps(task)}
            command = [sys.executable, *worker(self.framework, self.folder)]
            self.processes.append(start(command, RUN=run, **environment))

    def end(self) -> None:
        """Kill all processes."""
        random.shuffle(self.processes)
        while self.processes:
            kill(self.processes.pop())


def worker(framework: str, folder: str) -> list[str]:
    """Return the command line of a worker."""
    return [os.path.abspath(__file__), framework, "--folder", folder]


def start(command: list[str], **environment: str) -> "subprocess.Popen[bytes]":
    """Start a process in a new group; its output is dropped unless requested."""
    out = None if os.environ.get("SHOW") else subprocess.DEVNULL
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        start_new_session=True,
        stdout=out,
        stderr=out,
    )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process like the kernel does when memory runs out."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _time_of(note: dict[str, Any]) -> float:
    return float(note["time"])


def report(folder: str, changes: list[tuple[float, int]], every: float) -> bool:
    """Print the epochs and the pauses; return whether all epochs are complete."""
    found = list(notes(folder))
    # If a worker was killed between logging a step and saving its token, the last entry counts.
    last = {one["kept"]: one for one in sorted((n for n in found if "kept" in n), key=_time_of)}
    kept = sorted((step, one["time"], one["run"]) for step, one in last.items())
    runs = {step: run for step, _, run in kept}
    rows = collections.defaultdict(list)
    for one in found:
        if "rows" in one and runs.get(one["step"]) == one["run"]:
            rows[one["step"]] += one["rows"]
    times = sorted(moment for _, moment, _ in kept)
    pauses = [(a, b - a) for a, b in itertools.pairwise(times) if b - a > 0.5]
    for moment, size in changes:
        after = [f"{length:.1f}" for begin, length in pauses if -1 < begin - moment < every]
        print(f"to {size} workers: {' and '.join(after) or 'no'} s of pause")
    steps = RECORDS // BATCH
    is_good = [step for step, _, _ in kept] == list(range(len(kept)))
    for epoch in range(len(kept) // steps):
        seen = collections.Counter(
            n for step in range(epoch * steps, (epoch + 1) * steps) for n in rows[step]
        )
        is_good &= len(seen) == steps * BATCH and set(seen.values()) == {1}
    print(f"{len(kept):,} steps, {len(kept) // steps} whole epochs: each record once: {is_good}")
    return is_good


@click.command()
@click.argument("framework", type=click.Choice(["torch", "jax", "tensorflow"]))
@click.option("--seconds", default=300.0, show_default=True)
@click.option("--every", default=20.0, show_default=True, help="Seconds between changes.")
@click.option("--folder", default=None, hidden=True, help="Of a worker.")
def main(framework: str, seconds: float, every: float, folder: str | None) -> None:
    """Train on two workers, then on more and fewer."""
    if folder is not None:
        globals()[f"work_{framework}"](folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        with trainer_utils.DatasetWriter(os.path.join(folder, "data"), num_shards=8) as writer:
            for number in range(RECORDS):
                writer.write("train", {"n": number})
        job = Job(folder, framework)
        random.seed(1)
        size, changes, began = 2, [], time.time()
        job.change(size)
        try:
            while time.time() - began < seconds - every:
                time.sleep(every)
                size = random.choice([n for n in range(1, MOST + 1) if n != size])
                changes.append((time.time(), size))
                job.change(size)
            time.sleep(every)
        finally:
            job.end()
        sys.exit(0 if report(folder, changes, every) else 1)


if __name__ == "__main__":
    main()
