"""Runs of components that may be killed or starved: a process that forks one a request.

    with Engine(folder) as engine:
        engine.run("images", photos, out, kill_after=0.2).status      # -9

TFX takes ten seconds to import. So one process imports it, starts no thread, and forks for each
run, which leads a session of its own. Requests and replies are lines of JSON through its pipes.
"""

import contextlib
import ctypes
import dataclasses
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from tests.faults.interrupts import members_of

SECONDS = 300  # after which a run counts as hanging, whatever the machine's load
_NEW_MOUNTS, _RECURSIVE, _PRIVATE = 0x20000, 0x4000, 1 << 18  # of <sched.h> and <sys/mount.h>
SOURCE = Path(__file__).with_name("refused_calls.c")


@dataclasses.dataclass(frozen=True)
class Run:
    """What became of a run.

    Args:
        status: as `os.waitstatus_to_exitcode` has it; 0 where it raised an error as well.
        error: the message of the error that was raised.
        kinds: the names of its class and of those that it is derived from.
        calls: how many system calls the shim saw, where it was armed.
        seconds: how long it took.
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
        folder: for what it makes: the shim, and its own log.
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
            env={**os.environ, "LD_PRELOAD": str(shim), "TF_CPP_MIN_LOG_LEVEL": "2"},
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
        file_bytes: int | None = None,
        mount: tuple[str, str] | None = None,
        beam_args: Sequence[str] = (),
        **settings: object,
    ) -> Run:
        """Runs a component.

        Args:
            step: `images`, `texts`, `audio` or `balance`.
            source: the raw files, or the dataset to balance.
            uri: the dataset to write.
            processes: of the pool; 1: all in one process.
            kill_after: seconds until SIGKILL.
            whole_group: whether the pool's processes are killed too, or are to end by themselves.
            refuse: below which folder the n-th system call (from 1 on; 0: none) has which fate: the
                name of an errno, `SHORT` or `KILL`. With a number behind it, so many of the calls
                that only look, list and read as well.
            file_bytes: the most that a file may get, as a quota of the system's has it.
            mount: over which folder a tmpfs lies for this run alone, with which options.
            beam_args: Beam's own arguments, such as those of a runner.
            settings: of the component.
        """
        request = {
            "step": step,
            "source": str(source),
            "uri": str(uri),
            "processes": processes,
            "kill_after": kill_after,
            "whole_group": whole_group,
            "refuse": refuse,
            "file_bytes": file_bytes,
            "mount": mount,
            "beam_args": list(beam_args),
            "settings": settings,
        }
        requests, replies = cast(IO[bytes], self._process.stdin), self._process.stdout
        requests.write(json.dumps(request).encode() + b"\n")
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

    from components.audio_example_gen import Executor as Audio
    from components.common import processes
    from components.image_example_gen import Executor as Images
    from components.shard_balancer import Executor as Balancer
    from components.text_example_gen import Executor as Texts
    from trainer_utils.storage import file_system

    processes._WORTH_SECONDS = 0.0  # small runs use processes too
    file_system._PAUSES = (0.0, 0.0, 0.0)  # so that faults cost no time
    steps = {"images": Images, "texts": Texts, "audio": Audio, "balance": Balancer}
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
                os.write(into, json.dumps(_do(steps, request, ctypes.CDLL(shim))).encode())
            os._exit(0)
        os.close(into)
        status = _wait(child, request["kill_after"], request["whole_group"])
        with os.fdopen(result, "rb") as stream:
            outcome = json.loads(stream.read() or b"{}")
        outcome |= {"status": status, "seconds": time.monotonic() - began, "left": _left(child)}
        replies.write(json.dumps(outcome).encode() + b"\n")
        replies.flush()


def _do(steps: dict[str, Any], request: dict[str, Any], shim: Any) -> dict[str, Any]:
    from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
    from tfx.types import standard_artifacts

    uri = request["uri"]
    target = standard_artifacts.Examples()
    target.uri = uri
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=[
            f"--direct_num_workers={request['processes']}",
            *request["beam_args"],
        ],
        tmp_dir=f"{uri}.tmp",
        unique_id="1",
    )
    executor = steps[request["step"]](context)
    settings = dict(request["settings"])
    if request["step"] == "balance":
        source = standard_artifacts.Examples()
        source.uri = request["source"]
        given, outputs = {"examples": [source]}, {"balanced_examples": [target]}
    else:
        given, outputs = {}, {"examples": [target]}
        pattern = {"splits": [{"name": "all", "pattern": "*"}]}
        settings |= {"input_base": request["source"], "input_config": json.dumps(pattern)}
        settings.setdefault("output_config", "{}")
    calls = 0
    outcome: dict[str, Any] = {}
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    if request["mount"] is not None:
        _mount(*request["mount"])
    try:
        if request["file_bytes"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"], unlimited[1]))
        if request["refuse"] is not None:
            folder, number, fate, *times = request["refuse"]
            code = getattr(errno, fate, 0)
            shim.arm(os.fsencode(folder), number, fate.encode(), code, *times or [0])
        executor.Do(given, outputs, settings)
    except BaseException as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)  # the log is a file too
        traceback.print_exc()
        kinds = [kind.__name__ for kind in type(error).__mro__]
        outcome = {"error": str(error)[:4000] or repr(error), "kinds": kinds}
    finally:
        if request["refuse"] is not None:
            calls = shim.disarm()
    return outcome | {"calls": calls}


def _mount(folder: str, options: str) -> None:
    """Lays a tmpfs over a folder, which only this process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = (
        libc.unshare(_NEW_MOUNTS),
        libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None),
        libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options.encode()),
    )
    if any(done):
        raise OSError(ctypes.get_errno(), f"cannot mount over {folder}")


def _wait(child: int, kill_after: float | None, whole_group: bool) -> int:
    """The exit status of a run that is killed when its time is over."""
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
    """The processes of a session that do not end by themselves in the time that they are given."""
    for _ in range(200):
        found = members_of(session)
        if not found:
            return []
        time.sleep(0.1)
    return found


if __name__ == "__main__":
    _serve(sys.argv[1])
