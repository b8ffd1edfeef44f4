"""Run real processes that train: a test file is also the program that they run.

    reports = run_all(__file__, folder, cluster_environments(2), "train", uri)

Each gets the path of the JSON file to write, and then those arguments.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_SECONDS = 400
# `tests` is no package, and another distribution installs one of that name.
_PROGRAM = """
import runpy, sys, types
sys.modules["tests"] = tests = types.ModuleType("tests")
tests.__path__ = [sys.argv[1]]
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextlib.contextmanager
def started(
    script: str, folder: Path, environments: Sequence[dict[str, str]], *arguments: str
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start one process per environment, which writes `<index>.json` and `<index>.log`."""
    unwanted = {"TF_CONFIG", "TF_USE_LEGACY_KERAS"}  # importing TFX sets the latter in this process
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    with contextlib.ExitStack() as stack:
        processes = []
        for index, environment in enumerate(environments):
            log = stack.enter_context((folder / f"{index}.log").open("wb"))
            process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _PROGRAM, str(REPOSITORY / "tests"), script),
                    *(str(folder / f"{index}.json"), *arguments),
                ],
                env={**inherited, "PYTHONPATH": str(REPOSITORY), **environment},
                stdout=log,
                stderr=log,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)  # no error if it has ended
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
