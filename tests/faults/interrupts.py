"""Ctrl-C in real processes: a command with a session of its own, interrupted while it works.

    found = interrupt(["verify", "out"], folder, at=has_open("out"))
    found.status, found.left                                    # 130, ()

The process group gets the signal, as a terminal sends it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
SECONDS = 120  # after which a command counts as hanging, whatever the machine's load
_CODE = (
    "import os, sys; from pipelines.cli.app import main; fd = int(sys.argv[1]); "
    "os.write(fd, b'.'); os.close(fd); main(sys.argv[2:])"
)

Moment = Callable[[int], bool]
"""Whether it has come, for the process group of this number."""


class Interrupted(NamedTuple):
    """What became of a command.

    Args:
        status: of its end; 0 where it was done before.
        err: what it printed to stderr.
        left: the processes of its session that were there after it.
        seconds: from the signal to its end.
    """

    status: int
    err: str
    left: tuple[int, ...]
    seconds: float


def after(seconds: float) -> Moment:
    """Comes so long after it is first asked."""
    begun: list[float] = []

    def has_come(group: int) -> bool:
        begun.append(time.monotonic())
        return begun[-1] - begun[0] >= seconds

    return has_come


def has_open(folder: Path) -> Moment:
    """Comes when a process of the group holds a file below a folder."""

    def has_come(group: int) -> bool:
        for member in members_of(group):
            with contextlib.suppress(OSError):
                for link in Path(f"/proc/{member}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if os.readlink(link).startswith(f"{folder}/"):
                            return True
        return False

    return has_come


def interrupt(
    arguments: list[str],
    folder: Path,
    *,
    at: Moment,
) -> Interrupted:
    """Runs a command of tfx-shards, and presses Ctrl-C.

    Args:
        arguments: of the command line.
        folder: to run in; below it `tmp` is for temporary files.
        at: when, asked from the moment on that the command line has begun.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    ready, tell = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(tell), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder / "tmp")},
        pass_fds=[tell],
        start_new_session=True,
        # Whoever runs the tests.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(tell)
    try:
        os.read(ready, 1)
        _wait_for(at, process)
        begun = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
        seconds, left = time.monotonic() - begun, tuple(members_of(process.pid))
        return Interrupted(process.returncode, err.decode(), left, seconds)
    finally:
        os.close(ready)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(at: Moment, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SECONDS
    while process.poll() is None and not at(process.pid):
        assert time.monotonic() < end, "the moment did not come"
        time.sleep(0.002)


def members_of(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found
