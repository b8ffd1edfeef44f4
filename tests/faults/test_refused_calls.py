"""Every system call on an output fails, once or permanently, or the process dies at it.

The result is a clear error or the same files, never a partial output that looks complete, and the
next run is not affected.
"""

import errno
import os
from pathlib import Path

import pytest

from tests.faults.conftest import OTHERS, STEPS, Undisturbed
from tests.faults.counts import drawn, some_of_any_or_all_of_each
from tests.faults.engine import Engine
from tests.faults.outputs import MANIFEST, check_not_half, check_whole

QUICK = 2  # failing calls per step
FOR_EVER = 1_000_000
ERRORS = ("ENOSPC", "EIO", "EACCES", "EMFILE", "ESTALE", "EDQUOT", "EROFS", "EINTR")
UNSEEN = ("SHORT",)  # faults that callers handle without an error
FATES = (*ERRORS, *UNSEEN, "KILL")
LOSSES = ("torn", "gone")
DURABLE = (*STEPS, "update", "exclude", "write")  # steps that write datasets


def refuse(
    plain: Undisturbed, engine: Engine, folder: Path, number: int, fate: str, times: int
) -> None:
    """Check a run with one or all later calls failing, and the next run without faults."""
    uri = folder / "out"
    said = f"call {number} of {plain.step}: {fate} {times} times"
    how = (str(uri), number, fate) if times == 1 else (str(uri), number, fate, times)
    run = plain.run(engine, uri, refuse=how)
    assert run.status == (-9 if fate == "KILL" else 0), said
    check_not_half(uri, plain.content)
    if run.error:
        assert fate not in UNSEEN, f"{said}: {run.error}"
        assert os.strerror(getattr(errno, fate)) in run.error, f"{said}: {run.error}"
        assert str(uri) in run.error, f"{said}: {run.error}"
    elif fate != "KILL" and times == 1:
        check_whole(uri, plain.content, plain.folders)
    if plain.step == "write" and (fate == "KILL" or (uri / MANIFEST).exists()):
        return  # a working folder is left, or the output folder is occupied
    again = plain.run(engine, uri)
    assert again.error == "", f"{said}: {again.error}"
    check_whole(uri, plain.content, plain.folders)


def lose_power(
    plain: Undisturbed, engine: Engine, folder: Path, log: Path, number: int, loss: str
) -> None:
    """Check a run with a power loss at a call: data that was not synced is lost."""
    uri, said = folder / "out", f"power lost at call {number} of {plain.step}, files {loss}"
    run = plain.run(engine, uri, refuse=(str(folder), number, "KILL"), log_syncs=log)
    assert run.status == -9 or number > plain.calls, said
    synced = {int(inode) for inode in log.read_text().split()} if log.exists() else set()
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        found = path.stat()
        if loss == "gone" and path.parent.stat().st_ino not in synced:
            path.unlink()
        elif loss == "torn" and found.st_ino not in synced and found.st_nlink == 1:
            os.truncate(path, found.st_size // 2)
    check_not_half(uri, plain.content)
    if run.status == 0:
        check_whole(uri, plain.content, plain.folders)
    elif plain.step != "write":  # `write` leaves a working folder and starts over
        assert plain.run(engine, uri).error == "", said
        check_whole(uri, plain.content, plain.folders)


@some_of_any_or_all_of_each("loss", LOSSES)
@pytest.mark.parametrize("step", DURABLE)
def test_complete_datasets_survive_a_power_loss(undisturbed, engine, tmp_path, step, loss, chance):
    plain = undisturbed[step]
    calls = drawn(chance, loss, QUICK, range(1, plain.calls + 1), LOSSES)
    for number, how in [*calls, (FOR_EVER, "torn"), (FOR_EVER, "gone")]:
        (folder := tmp_path / f"{number}-{how}").mkdir()
        lose_power(plain, engine, folder, tmp_path / f"{number}-{how}.log", number, how)


@some_of_any_or_all_of_each("fate", FATES)
@pytest.mark.parametrize("step", [*STEPS, *OTHERS])
def test_failed_system_call_is_an_error_without_loss(
    undisturbed, engine, tmp_path, step, fate, chance
):
    plain = undisturbed[step]
    for number, how in drawn(chance, fate, QUICK, range(1, plain.calls + 1), FATES):
        for times in (1, FOR_EVER) if how in ERRORS else (1,):
            (folder := tmp_path / f"{number}-{how}-{times}").mkdir()
            refuse(plain, engine, folder, number, how, times)
