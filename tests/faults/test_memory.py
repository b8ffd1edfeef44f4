"""Large allocations that fail, once or permanently, raise an error and reject no input."""

import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import OTHERS, STEPS, Undisturbed
from tests.faults.counts import drawn, some_of_any_or_all_of_each
from tests.faults.engine import Engine
from tests.faults.outputs import MANIFEST, check_not_half, check_whole

QUICK = 3  # failing allocations per step
FOR_EVER = 1_000_000
KINDS = {"MemoryError", "MachineError", "ImportError"}
DEATHS = (-6, -11)  # signals in a library that does not check the result of malloc


def refuse(plain: Undisturbed, engine: Engine, folder: Path, number: int, times: int) -> str:
    """Run a step with a failing allocation and return the result; check that the next run works."""
    uri, said = folder / "out", f"allocation {number} of {plain.step}, {times} times"
    run = plain.run(engine, uri, refuse=("", number, "MEMORY", times))
    assert run.status in (0, *DEATHS), f"{said}: {run.status}"
    check_not_half(uri, plain.content)
    if run.error:
        is_said = KINDS & {*run.kinds} or "memory" in run.error or "SystemError" in run.kinds
        assert is_said, f"{said}: {run.kinds} {run.error}"
    elif run.status == 0:
        check_whole(uri, plain.content, plain.folders)
    if plain.step == "write" and times == FOR_EVER:  # removing the output fails too
        for left in folder.glob(".out.*"):
            shutil.rmtree(left)
    if not (plain.step == "write" and (uri / MANIFEST).exists()):  # the folder is occupied
        again = plain.run(engine, uri)
        assert again.error == "", f"{said}: {again.error}"
        check_whole(uri, plain.content, plain.folders)
    return run.error or str(run.status)


def allocations(plain: Undisturbed, engine: Engine, folder: Path) -> range:
    folder.mkdir()
    counted = plain.run(engine, folder / "out", refuse=("", 0, "MEMORY", 0))
    assert counted.error == ""
    assert counted.calls > QUICK
    return range(1, counted.calls + 1)


@some_of_any_or_all_of_each("times", [1, FOR_EVER])
@pytest.mark.parametrize("step", [*STEPS, *OTHERS])
def test_failed_allocation_is_an_error_and_not_a_reject(
    undisturbed, engine, tmp_path, step, times, chance
):
    plain = undisturbed[step]
    numbers = allocations(plain, engine, tmp_path / "count")
    # Results of early permanent faults: single ones are retried, and late ones may do no harm.
    found = set()
    for number, how_often in drawn(chance, times, QUICK, numbers, [1, FOR_EVER]):
        (folder := tmp_path / f"{number}-{how_often}").mkdir()
        outcome = refuse(plain, engine, folder, number, how_often)
        if how_often == FOR_EVER and number <= len(numbers) // 2:
            found.add(outcome)
    assert found != {"0"}  # some faults had an effect
