"""Ctrl-C in real processes of the commands: one line, status 130, and nothing is left behind."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.faults.counts import long
from tests.faults.engine import members_of
from tests.make import REPOSITORY
from trainer_utils import DatasetWriter

LONG = 5  # interrupts per command
COMMANDS = {
    "verify": ["verify", "out"],
    "report": ["report", "out", "-o", "page.html"],
    "audit": ["audit", "out"],
    "diff": ["diff", "out", "out"],
    "inspect": ["inspect", "out"],
    "show": ["show", "out", "--number", "3"],
    "plan": ["plan", "out", "--workers", "4", "--batch-size", "8"],
    "bench": ["bench", "out", "--features", "id", "--seconds", "30"],
    "browse": ["browse", "out", "--port", "0"],
    "doctor": ["doctor", "out"],
    "dry run": ["convert", "raw", "--dry-run"],
}
MESSAGES = {"browse": 1, "dry run": 1}  # maximum number of messages without an interrupt
SECONDS = 120  # time limit of a command, even on a busy machine
_CODE = (
    "import os, sys; from pipelines.cli.app import main; fd = int(sys.argv[1]); "
    "os.write(fd, b'.'); os.close(fd); main(sys.argv[2:])"
)


class Interrupted(NamedTuple):
    """The result of an interrupted command.

    The status (0: it finished before the signal), its stderr, and the processes left in its
    session.
    """

    status: int
    err: str
    left: tuple[int, ...]


def has_open(group: int, folder: Path) -> bool:
    """Return whether a process of a group has a file in a folder open."""
    for member in members_of(group):
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{member}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link).startswith(f"{folder}/"):
                        return True
    return False


def interrupt(arguments: list[str], folder: Path, at: float | Path) -> Interrupted:
    """Run a command in a folder and interrupt it, at a time or when it has opened a file.

    The command uses `tmp` in the folder for temporary files. The process group gets the signal, as
    from a terminal.

    Args:
        arguments: the command line.
        folder: the working directory.
        at: seconds after the start, or a folder with the file that the command opens.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    ready, tell = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(tell), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder / "tmp")},
        pass_fds=[tell],
        start_new_session=True,
        # The parent process may ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(tell)
    try:
        os.read(ready, 1)
        begun = time.monotonic()
        while process.poll() is None:
            waited = time.monotonic() - begun
            if waited >= at if isinstance(at, float) else has_open(process.pid, at):
                break
            assert waited < SECONDS, "the moment did not come"
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
        return Interrupted(process.returncode, err.decode(), tuple(members_of(process.pid)))
    finally:
        os.close(ready)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """Write a dataset of 2,000 pictures, so that most commands take a moment."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("interrupts")
    chance = np.random.default_rng(20)
    with DatasetWriter(folder / "out", num_shards={"train": 4}) as writer:
        for number in range(2000):
            picture = io.BytesIO()
            Image.fromarray(chance.integers(0, 255, (32, 32, 3), np.uint8)).save(picture, "JPEG")
            writer.write("train", {"image": picture.getvalue(), "id": number})
    return folder / "out"


@pytest.fixture
def place(tmp_path, dataset, raw) -> Path:
    """Return a folder with links to a dataset and raw files, to run commands in."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "out").symlink_to(dataset)
    (folder / "raw").symlink_to(raw["images"])
    return folder


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_quiet(found: Interrupted, *, said: int = 0) -> None:
    """Check that the last line reports the interrupt, and that no process is left."""
    assert found.status == 130, found
    assert found.left == (), found
    lines = [line for line in found.err.splitlines() if line]
    assert lines[-1] == "Error: interrupted", found.err
    assert "Traceback" not in found.err
    assert len(lines) <= said + 1, found.err


@pytest.mark.parametrize("name", ["verify", "audit"])
def test_running_command_is_interrupted(place, dataset, name):
    before = names_in(place) | {"tmp"}
    for _ in range(50):
        found = interrupt(COMMANDS[name], place, dataset)
        if found.status != 0:  # otherwise it finished before this process sent the signal
            break
    check_quiet(found)
    assert names_in(place) == before


@pytest.mark.faults
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_interrupted_at_any_moment(place, name, chance):
    length, interrupted = 1.0, 0
    before = names_in(place) | {"tmp"}
    for _ in range(10 * long(LONG)):
        moment = chance.uniform(0, length)
        found = interrupt(COMMANDS[name], place, moment)
        if found.status == 0:  # it finished before, or it was browse, which exits with 0
            length = moment
            (place / "page.html").unlink(missing_ok=True)
            continue
        check_quiet(found, said=MESSAGES.get(name, 0))
        assert names_in(place) == before
        interrupted, length = interrupted + 1, min(length * 1.5, 20.0)
        if interrupted == long(LONG):
            return
    pytest.fail(f"{name} was done before Ctrl-C but for {interrupted} times")
