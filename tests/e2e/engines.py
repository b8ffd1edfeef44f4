"""Beam engines with separate processes, and the conversions that the tests run on them.

with worker_pool(folder, python_path=wheel) as pool, job_service(folder) as endpoint:
    convert_all(inputs, folder / "out", portable(endpoint, pool))
"""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import tensorflow as tf
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

from components.audio_example_gen import Executor as AudioExecutor
from components.image_example_gen import Executor as ImageExecutor
from components.runtime.beam import DASK_RUNNER
from components.shard_balancer import Executor as BalancerExecutor
from components.shard_balancer import plan
from components.text_example_gen import Executor as TextExecutor
from tests.make import everything as contents

# Without an image, TFX builds a package of itself for the workers, for each component.
NO_PACKAGE = "--sdk_container_image=unused"
IN_PROCESS = ("--runner=DirectRunner", NO_PACKAGE)
PHOTOS, ROWS, TABLES, CLIPS = 97, 2003, 9, 11
KINDS = ("images", "texts", "sounds", "balanced")
RECORDS = {"images": PHOTOS, "texts": ROWS, "sounds": CLIPS, "balanced": ROWS}
EXAMPLE_GEN = {
    "input_config": '{"splits": [{"name": "all", "pattern": "*"}]}',
    "output_config": "{}",
    "max_reject_fraction": 0.5,
    "target_shard_bytes": 10_000,
}
# Too little memory for train, which is scattered and gathered through the shuffle; eval fits.
BALANCER_BYTES = 3 << 20


def portable(endpoint: str, pool: str) -> list[str]:
    """Return Beam's arguments for a job service with workers from a pool."""
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={endpoint}",
        "--environment_type=EXTERNAL",
        f"--environment_config={pool}",
        NO_PACKAGE,
    ]


def hiding(folder: str, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` with an empty folder mounted over `folder`."""
    script = 'mount -t tmpfs none "$0"; exec "$@"'
    return ["unshare", "--mount", "sh", "-euc", script, folder, *command]


@contextlib.contextmanager
def worker_pool(folder: Path, *, python_path: Path, hidden: str | None = None) -> Iterator[str]:
    """Start Beam's pool of Python workers and yield its address.

    Args:
        folder: the working directory of the workers.
        python_path: the folder to import our packages from.
        hidden: a folder that is replaced by an empty one for the pool.
    """
    port = free_port()
    module = "apache_beam.runners.worker.worker_pool_main"
    command = [sys.executable, "-m", module, f"--service_port={port}"]
    command = command if hidden is None else hiding(hidden, command)
    # The pool starts its workers as `python`.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(python_path), "PATH": path}
    with running(command, port, folder / "pool.log", cwd=folder, env=environment):
        yield f"localhost:{port}"


@contextlib.contextmanager
def job_service(folder: Path) -> Iterator[str]:
    """Start Beam's job service in a process and yield its address."""
    port = free_port()
    module = "apache_beam.runners.portability.local_job_service_main"
    with running([sys.executable, "-m", module, f"--port={port}"], port, folder / "job.log"):
        yield f"localhost:{port}"


@contextlib.contextmanager
def prism(binary: str, folder: Path) -> Iterator[str]:
    """Start Prism, Beam's engine in Go, and yield the address of its job service."""
    port = free_port()
    command = [binary, f"--job_port={port}", "--serve_http=false"]
    with running(command, port, folder / "prism.log"):
        yield f"localhost:{port}"


@contextlib.contextmanager
def flink(jar: str, folder: Path) -> Iterator[str]:
    """Start Beam's Flink job server with an embedded Flink cluster, and yield its address."""
    port = free_port()
    opened = ("java.lang", "java.nio", "java.time", "java.util", "java.util.concurrent")
    command = [
        "java",
        *(
            f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened
        ),  # for Kryo of Flink
        *("-jar", jar, "--flink-master", "[local]", "--job-port", str(port)),
        *("--artifact-port", "0", "--expansion-port", "0"),
        *("--artifacts-dir", str(folder / "artifacts")),
    ]
    with running(command, port, folder / "flink.log"):
        yield f"localhost:{port}"


@contextlib.contextmanager
def dask() -> Iterator[list[str]]:
    """Start Dask's scheduler and two workers as processes, and yield Beam's arguments for them."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = f"--dask_client_address={cluster.scheduler_address}"
        yield [f"--runner={DASK_RUNNER}", address]


@contextlib.contextmanager
def running(command: Sequence[str], port: int, log: Path, **options: Any) -> Iterator[None]:
    """Run a server until the block ends, then stop it and all processes that it started."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
        try:
            wait_for(port, process, log)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(900):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args}: {log.read_text(errors='replace')[-3000:]}")
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{process.args}: no answer: {log.read_text(errors='replace')[-3000:]}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Photos, tables and audio clips; `out` has the results of the in-process runner by kind."""

    photos: Path
    tables: Path
    clips: Path
    out: Path

    @property
    def texts(self) -> Path:
        return self.made("texts")

    def made(self, kind: str) -> Path:
        return self.out / kind


# Conversions --------------------------------------------------------------------------------------


def convert(kind: str, inputs: Inputs, uri: Path | str, arguments: Sequence[str]) -> None:
    """Convert the inputs of one kind, or balance the converted texts (`balanced`)."""
    if kind == "images":
        run(ImageExecutor, {}, uri, arguments, input_base=str(inputs.photos), **EXAMPLE_GEN)
    elif kind == "texts":
        run(TextExecutor, {}, uri, arguments, input_base=str(inputs.tables), **EXAMPLE_GEN)
    elif kind == "sounds":
        run(AudioExecutor, {}, uri, arguments, input_base=str(inputs.clips), **EXAMPLE_GEN)
    else:
        given = {"examples": [examples(inputs.texts)]}
        settings = {"num_shards": "5", "memory_bytes": BALANCER_BYTES}
        run(BalancerExecutor, given, uri, arguments, **settings)


def run(
    executor: type,
    given: dict[str, Any],
    uri: Path | str,
    arguments: Sequence[str],
    **settings: Any,
) -> None:
    """Run an executor with Beam's arguments, as TFX does."""
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=list(arguments), tmp_dir=f"{uri}.tmp", unique_id="1"
    )
    output = "balanced_examples" if given else "examples"
    with mock.patch.object(sys, "argv", sys.argv[:1]):  # TFX parses sys.argv too
        executor(context).Do(given, {output: [examples(uri)]}, settings)


def examples(uri: Path | str) -> standard_artifacts.Examples:
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    return artifact


def passes(inputs: Inputs) -> dict[str, int]:
    """Return how many times the balancer writes the records of each split."""
    planned = plan(str(inputs.texts), num_shards=5, memory_bytes=BALANCER_BYTES)
    return {split.split: split.passes for split in planned.splits}


def records_in(uri: Path) -> int:
    """Return the number of records, counted by TensorFlow's reader."""
    shards = sorted(map(str, uri.glob("Split-*/*")))
    return sum(1 for _ in tf.data.TFRecordDataset(shards))


def check_engine(inputs: Inputs, arguments: Sequence[str], folder: Path) -> None:
    """Check that an engine writes the same bytes as the in-process runner for all kinds."""
    for kind in KINDS:
        convert(kind, inputs, folder / kind, arguments)
        assert contents(folder / kind) == contents(inputs.made(kind)), kind
