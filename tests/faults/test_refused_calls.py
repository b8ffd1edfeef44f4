"""Every system call on the output is refused once: a clear error, and the next run is clean."""

import os
from pathlib import Path

import pytest

from tests.faults.conftest import STEPS, Undisturbed
from tests.faults.counts import long
from tests.faults.engine import Engine
from tests.faults.outputs import check_not_half, check_whole

QUICK = 2  # calls of each component
FATES = {
    "ENOSPC": os.strerror(28),
    "EIO": os.strerror(5),
    "EACCES": os.strerror(13),
    "EMFILE": os.strerror(24),
    "SHORT": "",
}


def refuse(plain: Undisturbed, engine: Engine, folder: Path, number: int, fate: str) -> None:
    """One run with a call that fails, and one without; both are checked."""
    uri = folder / "out"
    said = f"call {number} of {plain.step}: {fate}"
    run = plain.run(engine, uri, refuse=(str(uri), number, fate))
    assert run.status == 0, said
    check_not_half(uri, plain.content)
    if run.error:
        assert fate != "SHORT", f"{said}: {run.error}"
        assert FATES[fate] in run.error, f"{said}: {run.error}"
        assert str(uri) in run.error, f"{said}: {run.error}"
    else:
        check_whole(uri, plain.content, plain.folders)
    again = plain.run(engine, uri)
    assert again.error == "", said
    check_whole(uri, plain.content, plain.folders)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_a_refused_call_is_an_error_and_no_loss(undisturbed, engine, tmp_path, step, chance):
    for part, fate in enumerate(chance.sample([*FATES], QUICK)):
        folder = tmp_path / str(part)
        folder.mkdir()
        number = chance.randrange(1, undisturbed[step].calls + 1)
        refuse(undisturbed[step], engine, folder, number, fate)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_every_call_is_refused_once(undisturbed, engine, tmp_path, step, chance):
    fates = chance.sample([*FATES], len(FATES))
    calls = range(1, undisturbed[step].calls + 1)
    for number in sorted(chance.sample(calls, long(len(calls)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        refuse(undisturbed[step], engine, folder, number, fates[number % len(fates)])
