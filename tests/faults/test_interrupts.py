"""Ctrl-C in the commands, in real processes: one line, status 130, and nothing is left behind."""

import io
import os
from pathlib import Path

import numpy as np
import pytest

from tests.faults.counts import long
from tests.faults.interrupts import Interrupted, after, has_open, interrupt
from trainer_utils import DatasetWriter

LONG = 5  # moments of each command
ALLOWED_SECONDS = 5.0  # from the key to the end, on cores that have nothing else to do
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
MESSAGES = {"browse": 1, "dry run": 1}  # at most, of a command that is not interrupted


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """Of 2,000 pictures, so that most commands are at it for a moment."""
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
    """A folder with a dataset and raw files by links, to run commands in."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "out").symlink_to(dataset)
    (folder / "raw").symlink_to(raw["images"])
    return folder


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_quiet(found: Interrupted, *, said: int = 0) -> None:
    """One line says that it was interrupted, after as many messages as were; no process is left."""
    assert found.status == 130, found
    assert found.left == (), found
    lines = [line for line in found.err.splitlines() if line]
    assert lines[-1] == "Error: interrupted", found.err
    assert "Traceback" not in found.err
    assert len(lines) <= said + 1, found.err


@pytest.mark.parametrize("name", ["verify", "audit"])
def test_a_command_at_work_is_interrupted(place, dataset, name):
    before = names_in(place) | {"tmp"}
    for _ in range(50):
        found = interrupt(COMMANDS[name], place, at=has_open(dataset))
        if found.status != 0:  # else it was done before this process got a turn
            break
    check_quiet(found)
    assert names_in(place) == before


def check_seconds(found: Interrupted) -> None:
    """That it ended in time, where other work on the same cores did not delay it."""
    delay = max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
    assert found.seconds < ALLOWED_SECONDS * delay, found


@pytest.mark.faults
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_interrupted_at_any_moment(place, name, chance):
    length, interrupted = 1.0, 0
    before = names_in(place) | {"tmp"}
    for _ in range(10 * long(LONG)):
        moment = chance.uniform(0, length)
        found = interrupt(COMMANDS[name], place, at=after(moment))
        if found.status == 0:  # it was done before; or it was browse, which ends so
            length = moment
            (place / "page.html").unlink(missing_ok=True)
            continue
        check_quiet(found, said=MESSAGES.get(name, 0))
        check_seconds(found)
        assert names_in(place) == before
        interrupted, length = interrupted + 1, min(length * 1.5, 20.0)
        if interrupted == long(LONG):
            return
    pytest.fail(f"{name} was done before Ctrl-C but for {interrupted} times")
