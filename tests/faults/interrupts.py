"""Ctrl-C in real processes: a command with a session of its own, interrupted while it works.

    found = interrupt(["verify", "out"], folder, at=has_open("out"))
    found.status, found.left                                    # 130, ()

In a terminal the key is sent, and the terminal makes the signal of it; else the process group gets
the signal, as a terminal's would.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
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
        out, err: what it printed; in a terminal all of it is `err`.
        left: the processes of its session that were there after it.
        seconds: from the signal to its end.
    """

    status: int
    out: str
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
    in_terminal: bool = False,
    then: float = 0.0,
) -> Interrupted:
    """Runs a command of tfx-shards, and presses Ctrl-C.

    Args:
        arguments: of the command line.
        folder: to run in; below it `tmp` is for temporary files.
        at: when, asked from the moment on that the command line has begun.
        in_terminal: whether it has a terminal of its own.
        then: seconds to wait after that moment.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    ready, tell = os.pipe()
    with _streams(in_terminal) as (master, streams):
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(tell), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder / "tmp")},
            pass_fds=[tell],
            start_new_session=True,
            preexec_fn=lambda: _prepare(in_terminal),
            **streams,
        )
        os.close(tell)
        try:
            os.read(ready, 1)
            _wait_for(at, process)
            time.sleep(then)
            return _press(process, master)
        finally:
            os.close(ready)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def _streams(in_terminal: bool) -> Iterator[tuple[int | None, dict[str, int]]]:
    if not in_terminal:
        pipe = subprocess.PIPE
        yield None, {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe}
        return
    master, slave = pty.openpty()
    try:
        yield master, {"stdin": slave, "stdout": slave, "stderr": slave}
    finally:
        os.close(master)
        os.close(slave)


def _prepare(in_terminal: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests
    if in_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _wait_for(at: Moment, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + SECONDS
    while process.poll() is None and not at(process.pid):
        assert time.monotonic() < end, "the moment did not come"
        time.sleep(0.002)


def _press(process: subprocess.Popen[bytes], master: int | None) -> Interrupted:
    begun = time.monotonic()
    if master is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    else:
        os.write(master, b"\x03")
        out, err = b"", _read_terminal(process, master)
    seconds = time.monotonic() - begun
    return Interrupted(
        process.returncode, out.decode(), err.decode(), tuple(members_of(process.pid)), seconds
    )


def _read_terminal(process: subprocess.Popen[bytes], master: int) -> bytes:
    end, text = time.monotonic() + SECONDS, b""
    while time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            text += os.read(master, 1 << 16)
        elif process.poll() is not None:
            return text
    raise subprocess.TimeoutExpired(process.args, SECONDS)


def members_of(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found
