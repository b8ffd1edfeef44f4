"""Run steps that may be killed or get failing system calls, each in a forked process.

    with Engine(folder) as engine:
        engine.run("images", photos, out, kill_after=0.2).status      # -9

One process imports the modules of all steps, starts no thread, and forks for each run. A run leads
its own session. Requests and replies are lines of JSON through pipes.
"""

import contextlib
import ctypes
import dataclasses
import errno
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

SECONDS = 300  # time limit of a run, even on a busy machine
LARGE_BYTES = 2048  # the minimum size of an allocation that may fail
SOURCE = Path(__file__).with_name("refused_calls.c")


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of a run.

    Args:
        status: the exit status, which is 0 even if the run raised an error.
        error: the message of the error.
        kinds: the names of the class of the error and its base classes.
        calls: number of system calls counted by the shim, if it was armed.
        seconds: the duration.
        left: the processes left behind.
    """

    status: int
    error: str = ""
    kinds: tuple[str, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    left: tuple[int, ...] = ()

    @property
    def is_good(self) -> bool:
        return self.status == 0 and not self.error


class Engine:
    """The process that forks runs.

    Args:
        folder: the folder for the shim and the log of the process.
    """

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "engine.log").open("wb")
        shim = folder / "refused_calls.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", shim, SOURCE, "-ldl"], check=True, timeout=120
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.engine", shim],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "LD_PRELOAD": str(shim), "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )

    def run(
        self,
        step: str,
        source: Path,
        uri: Path,
        *,
        processes: int = 1,
        kill_after: float | None = None,
        whole_group: bool = True,
        refuse: tuple[str, int, str] | tuple[str, int, str, int] | None = None,
        log_syncs: Path | None = None,
        beam_args: Sequence[str] = (),
        **settings: object,
    ) -> Run:
        """Run a step.

        Args:
            step: one of `STEPS`.
            source: the raw files, or the dataset to start from.
            uri: the folder to write.
            processes: number of processes of the pool; 1: run in one process.
            kill_after: seconds until SIGKILL.
            whole_group: kill the processes of the pool too; otherwise they must end by themselves.
            refuse: (folder, n, fate): the n-th system call on the folder (from 1; 0: none) gets the
                fate: the name of an errno, `SHORT` or `KILL`. With a fourth item `times`, calls
                that only stat, list and read count too, and `times` calls in a row get the fate.
                `MEMORY` applies to large allocations, independent of the folder.
            log_syncs: a file to write the inodes of synced files to.
            beam_args: arguments for Beam, such as a runner and its settings.
            settings: settings of the step; for a conversion also `splits`, shares by name.
        """
        request = {name: value for name, value in locals().items() if name != "self"}
        requests, replies = cast(IO[bytes], self._process.stdin), self._process.stdout
        requests.write(json.dumps(request, default=str).encode() + b"\n")
        requests.flush()
        reply = cast(IO[bytes], replies).readline()
        assert reply, f"the engine ended: see {self._log.name}"
        found = json.loads(reply)
        return Run(**{n: tuple(v) if isinstance(v, list) else v for n, v in found.items()})

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *error: object) -> None:
        cast(IO[bytes], self._process.stdin).close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._log.close()


def _serve(shim: str) -> None:
    from components.runtime import processes
    from trainer_utils.storage import retrying

    processes._WORTH_SECONDS = 0.0  # use processes even for small runs
    retrying._PAUSES = (0.0, 0.0, 0.0)  # retry without waiting
    for name in _MODULES:
        importlib.import_module(name)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        result, into = os.pipe()
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            os.close(result)
            os.setsid()
            with contextlib.suppress(BaseException):
                os.write(into, json.dumps(_do(request, ctypes.CDLL(shim))).encode())
            os._exit(0)
        os.close(into)
        status = _wait(child, request["kill_after"], request["whole_group"])
        with os.fdopen(result, "rb") as stream:
            outcome = json.loads(stream.read() or b"{}")
        outcome |= {"status": status, "seconds": time.monotonic() - began, "left": _left(child)}
        replies.write(json.dumps(outcome).encode() + b"\n")
        replies.flush()


# The modules of steps, imported once so that runs need not import them.
_MODULES = (
    "components.balancing.parts",
    "components.balancing.steps",
    "components.example_gen.file_conversion",
    "components.layouts.speakers",
    "components.example_gen.file_shards",
    "components.example_gen.row_pieces",
    "components.media.audio",
    "components.report.page",
    "components.schema.anomalies",
    "components.schema.describing",
    "components.steps",
    "components.example_gen.text_conversion",
    "pyarrow.csv",
    "pyarrow.json",
    "pyarrow.parquet",
    "soundfile",
    "trainer_utils.frameworks.numpy",
    "trainer_utils.writing.dataset_writer",
)


def _convert(kind: str) -> "Step":
    def run(source: str, uri: str, settings: dict[str, Any], beam: Sequence[str]) -> None:
        from components import steps
        from components.example_gen import settings as kinds
        from components.example_gen.input_selection import InputSelection
        from components.example_gen.split_rules import Partition
        from components.runtime.runners import runner_of

        splits = settings.pop("splits", None)
        asked = getattr(kinds, f"{kind}Settings").from_arguments(settings)
        selection = InputSelection(
            base=source, partition=None if splits is None else Partition(tuple(splits.items()))
        )
        module = steps.workers_module(asked)
        with runner_of(beam, module=module) as runner:
            steps.convert(selection, uri, asked, runner=runner)

    return run


def _balance(source: str, uri: str, settings: dict[str, Any], beam: Sequence[str]) -> None:
    from components import steps
    from components.balancing.settings import BalancerSettings
    from components.runtime.runners import runner_of

    with runner_of(beam, module="balancing.parts") as runner:
        steps.balance([source], uri, BalancerSettings(**settings), runner=runner)


def _look(step: str, kind: str) -> "Step":
    def run(source: str, uri: str, settings: dict[str, Any], _: Sequence[str]) -> None:
        from components import settings as kinds
        from components import steps

        getattr(steps, step)(source, uri, getattr(kinds, kind)(**settings))

    return run


def _write(source: str, uri: str, settings: dict[str, Any], _: Sequence[str]) -> None:
    """Write the records that `iterate` reads to a new dataset with DatasetWriter."""
    from trainer_utils import DatasetWriter, iterate

    with DatasetWriter(uri, **settings) as writer:
        for batch in iterate(source, "train", batch_size=4, shuffle=False):
            for name, label in zip(batch["filename"], batch["label"], strict=True):
                writer.write("train", {"name": name, "label": int(label)})


def _read(source: str, uri: str, settings: dict[str, Any], _: Sequence[str]) -> None:
    """Write a digest of every batch of an epoch that is resumed in the middle."""
    from trainer_utils import iterate

    how: dict[str, Any] = {"batch_size": 4, "features": ["filename", "label"], **settings}
    found = iterate(source, "train", **how)
    batches = [*itertools.islice(found, 2)]
    batches += iterate(source, "train", **how, state=found.state(2))
    digests = [{name: values.tolist() for name, values in batch.items()} for batch in batches]
    os.makedirs(uri)
    Path(uri, "batches").write_text(repr(digests))


Step = Callable[[str, str, dict[str, Any], Sequence[str]], None]
STEPS: dict[str, Step] = {
    "images": _convert("Image"),
    "texts": _convert("Text"),
    "audio": _convert("Audio"),
    "balance": _balance,
    "audit": _look("audit", "AuditSettings"),
    "report": _look("report", "DatasetReportSettings"),
    "write": _write,
    "read": _read,
}


def _do(request: dict[str, Any], shim: Any) -> dict[str, Any]:
    beam = [f"--direct_num_workers={request['processes']}", *request["beam_args"]]
    calls = 0
    outcome: dict[str, Any] = {}
    try:
        if request["log_syncs"] is not None:
            shim.log_syncs(os.fsencode(request["log_syncs"]))
        if request["refuse"] is not None:
            folder, number, fate, *times = request["refuse"]
            code = LARGE_BYTES if fate == "MEMORY" else getattr(errno, fate, 0)
            shim.arm(os.fsencode(folder), number, fate.encode(), code, *times or [0])
        STEPS[request["step"]](request["source"], request["uri"], request["settings"], beam)
    except BaseException as error:
        calls = shim.disarm()  # otherwise the next call may fail too
        traceback.print_exc()
        kinds = [kind.__name__ for kind in type(error).__mro__]
        outcome = {"error": str(error)[:4000] or repr(error), "kinds": kinds}
    return outcome | {"calls": calls or shim.disarm()}


def _wait(child: int, kill_after: float | None, whole_group: bool) -> int:
    """Wait for a run, kill it after its time, and return the exit status."""
    end = time.monotonic() + (SECONDS if kill_after is None else kill_after)
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if whole_group else os.kill)(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _left(session: int) -> list[int]:
    """Return the processes of a session that do not end by themselves in time."""
    for _ in range(200):
        found = members_of(session)
        if not found:
            return []
        time.sleep(0.1)
    return found


def members_of(session: int) -> list[int]:
    """Return the running processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    _serve(sys.argv[1])
