"""Run real processes that train: a test file is also the program that they run.

    reports = run_all(__file__, folder, cluster_environments(2), "train", uri)

Each gets the path of the JSON file to write, and then those arguments.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_SECONDS = 400


class Forks:
    """A process of `forks.py`, which ends with this one.

    Args:
        modules: the modules that it imports first.
        environment: its environment variables, which the modules may read when they are imported.
    """

    def __init__(self, modules: str, environment: Mapping[str, str]) -> None:
        script = str(Path(__file__).with_name("forks.py"))
        self._server = subprocess.Popen(
            [sys.executable, script, modules, str(REPOSITORY / "tests")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environment),
        )

    def ask(self, **request: Any) -> Any:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


class Program:
    """A program in a process that was forked by `forks`."""

    def __init__(self, forks: Forks, **request: Any) -> None:
        self._forks = forks
        self._pid = forks.ask(**request)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs; negative after a signal."""
        if self._status is None:
            self._status = self._forks.ask(status_of=self._pid)
        return self._status

    def kill(self) -> None:
        """Kill the process, if it has not ended, and wait for its end."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)
        while self.poll() is None:
            time.sleep(0.01)


@functools.cache
def forks_with(use_legacy_keras: str) -> Forks:
    """Start a server of forks, one for each Keras, which TensorFlow chooses when it is imported."""
    keras = "tf_keras" if use_legacy_keras else "keras"
    chosen = {"TF_USE_LEGACY_KERAS": use_legacy_keras} if use_legacy_keras else {}
    return Forks(f"tensorflow,{keras},pytest,pipelines.tools.ledger", {**inherited(), **chosen})


def inherited() -> dict[str, str]:
    """Return this process's environment, without variables that the import of TFX sets."""
    unwanted = {"TF_CONFIG", "TF_USE_LEGACY_KERAS"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "PYTHONPATH": str(REPOSITORY)}


@contextlib.contextmanager
def started(
    script: str, folder: Path, environments: Sequence[dict[str, str]], *arguments: str
) -> Iterator[list[Program]]:
    """Start one process per environment, which writes `<index>.json` and `<index>.log`."""
    with contextlib.ExitStack() as stack:
        processes = []
        for index, environment in enumerate(environments):
            process = Program(
                forks_with(environment.get("TF_USE_LEGACY_KERAS", "")),
                program=script,
                arguments=[str(folder / f"{index}.json"), *arguments],
                environment={**inherited(), **environment},
                log=str(folder / f"{index}.log"),
            )
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def run_all(
    script: str,
    folder: Path,
    environments: Sequence[dict[str, str]],
    *arguments: str,
    expected: int = 0,
) -> list[dict[str, Any]]:
    """Return the reports of all processes. If one fails, kill all and show the logs.

    Args:
        expected: the exit status of all; if it is not 0 there are no reports.
    """
    with started(script, folder, environments, *arguments) as processes:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while {process.poll() for process in processes} <= {expected, None}:
            if all(p.poll() is not None for p in processes) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        codes = [process.poll() for process in processes]  # None: timed out
    logs = [path.read_text(errors="replace")[-3000:] for path in sorted(folder.glob("*.log"))]
    assert codes == [expected] * len(processes), f"{arguments}: ended with {codes}\n" + "\n".join(
        logs
    )
    if expected:
        return []
    return [json.loads((folder / f"{index}.json").read_text()) for index in range(len(processes))]


def run_until_killed(
    script: str, folder: Path, environments: Sequence[dict[str, str]], *arguments: str
) -> None:
    """Run until SIGKILL has ended the first process; then kill all others.

    A worker may first end with an error because its peer is gone.
    """
    with started(script, folder, environments, *arguments) as processes:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while all(p.poll() is None for p in processes) and time.monotonic() < deadline:
            time.sleep(0.05)
        codes = [process.poll() for process in processes]
    assert -signal.SIGKILL in codes, codes


def cluster_environments(count: int) -> list[dict[str, str]]:
    """Return TF_CONFIG for each worker of a cluster on this machine."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(count)]}
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}
        for index in range(count)
    ]


def free_ports(count: int) -> list[int]:
    """Return free ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]
