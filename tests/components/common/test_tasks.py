"""One call a task, wherever it is made: results are kept, so that a killed run goes on."""

import os
import pickle
import sys
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from absl import logging

from components.common import processes, tasks
from components.common.beam import IN_PROCESS_RUNNER
from components.common.tasks import Cost, Runner, Task, map_tasks, read_plain
from components.common.workspace import start_working
from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.writing.publishing import working_folder

# By its bare name: to a fresh process, `tests` may be what some installed package has left.
sys.path.insert(0, str(Path(__file__).parent))
import pool_work as work

ERRORS = [
    DatasetError("\x1b[2J of the data", path="a"),
    CorruptShardError.at("shard", expected="b", got="c", record=3, offset=2**40),
    InputError.at("table.csv", expected="b", got="c", record=1),
    ConfigError.of("seed", 1.5, allowed="int"),
]


@pytest.fixture
def workspace(tmp_path):
    start_working(str(tmp_path / "out"))
    return working_folder(str(tmp_path / "out"))


def beam_runner() -> Runner:
    return Runner(make_pipeline=lambda: beam.Pipeline(argv=[f"--runner={IN_PROCESS_RUNNER}"]))


RUNNERS = {
    "here": lambda: Runner(processes=1),
    "processes": lambda: Runner(processes=2),
    "beam": beam_runner,
}


@pytest.fixture(params=RUNNERS)
def runner(request, monkeypatch):
    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)
    with RUNNERS[request.param]() as runner:
        yield runner


def test_results_come_in_order_and_what_is_there_is_not_made_again(
    runner, workspace, tmp_path, our_messages
):
    logging.set_verbosity(logging.INFO)
    log = tmp_path / "calls"
    given = [Task(f"task-{n}", (str(log), n)) for n in range(9)]
    expected = [(n**2, work.SHARD) for n in range(9)]
    assert map_tasks(work.leave, given[3:7], workspace=workspace, runner=runner) == expected[3:7]
    assert map_tasks(work.leave, given, workspace=workspace, runner=runner) == expected
    assert sorted(map(int, log.read_text().split())) == [*range(9)]
    assert any("continuing: 4 of 9" in line for line in our_messages())
    again = map_tasks(work.leave, given[:2], workspace=workspace, runner=runner, check=work.refuse)
    assert again == expected[:2]
    assert len(log.read_text().split()) == 11
    Path(workspace, "results/task-8").write_bytes(b"cut")
    assert map_tasks(work.leave, given[8:], workspace=workspace, runner=runner) == expected[8:]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_home_as_it_was(runner, workspace, error):
    with pytest.raises(type(error)) as found:
        map_tasks(work.raise_it, [Task("a", error)], workspace=workspace, runner=runner)
    assert (str(found.value), vars(found.value)) == (str(error), vars(error))


def test_a_store_that_other_processes_do_not_see_keeps_calls_here(monkeypatch):
    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(processes, "usable_cores", lambda: 4)
    with Runner() as runner:
        assert runner.count(9, Cost(process_bytes=1), ["/tmp"]) == 4
        assert runner.count(9, Cost(process_bytes=1), ["/tmp", "memory://out"]) == 1


def test_a_worker_that_does_not_see_the_folder_is_refused_by_name(tmp_path):
    call = tasks.Call(work.leave, str(tmp_path / "elsewhere"), frozenset(), None)
    with pytest.raises(ConfigError, match="share"):
        call(Task("a", (str(tmp_path / "calls"), 1)))
    assert not (tmp_path / "elsewhere").exists()


def test_a_result_that_would_run_code_is_not_read(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.system, ("true",)

    for value in (Hostile(), logging.info):
        (tmp_path / "result").write_bytes(pickle.dumps(value) if value else b"")
        with pytest.raises(pickle.UnpicklingError):
            read_plain(str(tmp_path / "result"))


def test_a_result_of_plain_values_arrays_and_classes_of_ours_is_read(tmp_path):
    value = {"rows": np.arange(5), "one": np.float64(2), "task": Task("a", (1, b"x"))}
    path = tmp_path / "result"
    path.write_bytes(pickle.dumps(value))
    read = tasks.read_plain(str(path))
    assert read["rows"].tolist() == [0, 1, 2, 3, 4]
    assert (read["one"], read["task"]) == (2.0, value["task"])
