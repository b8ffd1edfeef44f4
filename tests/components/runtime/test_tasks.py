"""Each task is called once on any runner: results come back, and no process is left behind."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from absl import logging

from components.runtime import processes, tasks
from components.runtime.beam import IN_PROCESS_RUNNER
from components.runtime.processes import Pool, count_processes
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Task, read_plain
from components.runtime.workspace import prepare_workspace
from tests.docs.markdown import REPOSITORY
from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.writing.working_folder import working_folder

# Imported by its bare name: in a new process, `tests` may be the folder of an installed package.
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import pool_work as work  # noqa: E402

GIB = 1 << 30

ERRORS = [
    DatasetError("\x1b[2J of the data", path="a"),
    CorruptShardError.at("shard", expected="b", got="c", record=3, offset=2**40),
    InputError.at("table.csv", expected="b", got="c", record=1),
    ConfigError.of("seed", 1.5, allowed="int"),
]


@pytest.fixture
def workspace(tmp_path):
    prepare_workspace(str(tmp_path / "out"))
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


def test_results_are_in_order_and_finished_tasks_are_reused(
    runner, workspace, tmp_path, our_messages
):
    logging.set_verbosity(logging.INFO)
    log = tmp_path / "calls"
    given = [Task(f"task-{n}", (str(log), n)) for n in range(9)]
    expected = [(n**2, work.SHARD) for n in range(9)]
    assert map_tasks(work.leave, given[3:7], workspace=workspace, runner=runner) == expected[3:7]
    assert map_tasks(work.leave, given, workspace=workspace, runner=runner) == expected
    assert sorted(map(int, log.read_text().split())) == [*range(9)]
    assert any("resuming: 4 of 9 shards are done" in line for line in our_messages())
    again = map_tasks(work.leave, given[:2], workspace=workspace, runner=runner, check=work.refuse)
    assert again == expected[:2]
    assert len(log.read_text().split()) == 11
    Path(workspace, "results/task-8").write_bytes(b"cut")
    assert map_tasks(work.leave, given[8:], workspace=workspace, runner=runner) == expected[8:]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_is_raised_unchanged(runner, workspace, error):
    given = [Task(name, error) for name in "ab"]
    with pytest.raises(type(error)) as found:
        map_tasks(work.raise_it, given, workspace=workspace, runner=runner)
    assert (str(found.value), vars(found.value)) == (str(error), vars(error))
    if runner.processes == 2:
        assert "in raise_it" in str(found.value.__cause__)


def test_in_memory_store_keeps_calls_in_this_process(monkeypatch):
    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(processes, "usable_cores", lambda: 4)
    with Runner() as runner:
        assert runner.count(9, Cost(process_bytes=1), ["/tmp"]) == 4
        assert runner.count(9, Cost(process_bytes=1), ["/tmp", "memory://out"]) == 1


def test_worker_that_does_not_see_the_folder_raises(tmp_path):
    call = tasks.Call(work.leave, str(tmp_path / "elsewhere"), frozenset(), None)
    with pytest.raises(ConfigError, match="share"):
        call(Task("a", (str(tmp_path / "calls"), 1)))
    assert not (tmp_path / "elsewhere").exists()


def test_result_that_would_run_code_is_not_read(tmp_path, subtests):
    class Hostile:
        def __reduce__(self):
            return os.system, ("true",)

    for value in (Hostile(), logging.info):
        with subtests.test(value=value):
            (tmp_path / "result").write_bytes(pickle.dumps(value) if value else b"")
            with pytest.raises(pickle.UnpicklingError):
                read_plain(str(tmp_path / "result"))


def test_result_of_plain_values_arrays_and_results_is_read(tmp_path):
    value = {"rows": np.arange(5), "one": np.float64(2), "shard": work.SHARD}
    path = tmp_path / "result"
    path.write_bytes(pickle.dumps(value))
    read = tasks.read_plain(str(path))
    assert read["rows"].tolist() == [0, 1, 2, 3, 4]
    assert (read["one"], read["shard"]) == (2.0, value["shard"])


def test_each_listed_result_type_exists():
    for module, names in tasks._RESULT_TYPES.items():
        for name in names:
            found = getattr(importlib.import_module(module), name)
            assert (found.__module__, found.__qualname__) == (module, name)


def test_other_class_of_this_package_is_not_read(tmp_path, subtests):
    for value in (Task("a", 1), Cost(), Pool(""), DatasetError):
        with subtests.test(value=value):
            path = tmp_path / "result"
            path.write_bytes(pickle.dumps(value))
            if value is DatasetError:
                assert read_plain(str(path)) is DatasetError
                continue
            with pytest.raises(pickle.UnpicklingError, match="expected plain values"):
                read_plain(str(path))


def test_replaced_task_file_is_not_read(workspace):
    call = tasks.Call(work.square, workspace, frozenset(), None)
    written = call.write_task(Task("a", 3))
    Path(workspace, "tasks/a").write_bytes(pickle.dumps(Task("a", 4)))
    with pytest.raises(DatasetError, match="another file"):
        call.run_stored_task(written)


def no_pipeline() -> beam.Pipeline:
    raise AssertionError("a pipeline was started")


def test_finished_tasks_start_no_pipeline(workspace, tmp_path, monkeypatch):
    """Read each result once, and write nothing."""
    log, expected = tmp_path / "calls", [(n**2, work.SHARD) for n in range(20)]
    given = [Task(f"task-{n}", (str(log), n)) for n in range(20)]
    with Runner(processes=1) as runner:
        map_tasks(work.leave, given, workspace=workspace, runner=runner)
    read: list[str] = []
    read_bytes = storage.read_bytes
    monkeypatch.setattr(storage, "read_bytes", lambda path: read.append(path) or read_bytes(path))
    monkeypatch.setattr(storage, "write_atomically", no_pipeline)
    with Runner(make_pipeline=no_pipeline) as runner:
        assert map_tasks(work.leave, given, workspace=workspace, runner=runner) == expected
    assert sorted(read) == sorted(f"{workspace}/results/{task.name}" for task in given)


def test_files_of_tasks_are_written_and_read_in_threads(workspace, tmp_path, monkeypatch):
    """Each call waits for another one, so calls one after the other would fail."""
    barriers = {"tasks": threading.Barrier(2), "results": threading.Barrier(2)}
    write, read = tasks.Call.write_task, tasks.Call.read

    def waiting_write(call, task):
        barriers["tasks"].wait(60)
        return write(call, task)

    def waiting_read(call, name):
        barriers["results"].wait(60)
        return read(call, name)

    monkeypatch.setattr(tasks.Call, "write_task", waiting_write)
    monkeypatch.setattr(tasks.Call, "read", waiting_read)
    log = tmp_path / "calls"
    given = [Task(f"task-{n}", (str(log), n)) for n in range(4)]
    with beam_runner() as runner:
        found = map_tasks(work.leave, given, workspace=workspace, runner=runner)
    assert found == [(n**2, work.SHARD) for n in range(4)]


def test_error_of_a_task_that_succeeded_later_is_not_reported(workspace, tmp_path):
    call = tasks.Call(work.fail_once, workspace, frozenset(), None)
    first, second = call.write_task(Task("a", str(tmp_path))), call.write_task(Task("b", "none"))
    with pytest.raises(DatasetError, match="the first time"):
        call.run_stored_task(first)
    assert "the first time" in str(call.reported())
    call.run_stored_task(first)
    assert call.reported() is None
    with pytest.raises(FileNotFoundError):
        call.run_stored_task(second)
    assert call.reported() is None


def test_errors_of_an_earlier_run_are_not_reported(workspace):
    for error in (DatasetError("of the earlier run"), ZeroDivisionError("of the later run")):
        task = Task(type(error).__name__, error)
        with beam_runner() as runner, pytest.raises(Exception, match=str(error)):
            map_tasks(work.raise_it, [task], workspace=workspace, runner=runner)


def test_cores_memory_and_work_limit_the_processes(monkeypatch, subtests):
    monkeypatch.setattr(processes, "usable_cores", lambda: 4)
    for most, parts, seconds, free, expected in (
        (0, 100, 60.0, 100 * GIB, 4),  # as many as the four cores
        (1, 100, 60.0, 100 * GIB, 1),
        (9, 100, 60.0, 100 * GIB, 9),  # as many as allowed, even with fewer cores
        (0, 2, 60.0, 100 * GIB, 2),  # no more than tasks
        (0, 0, 60.0, 100 * GIB, 1),
        (0, 100, 0.5, 100 * GIB, 1),  # short work takes one process
        (0, 100, 60.0, 4 * GIB, 2),  # each may need 1 GiB, of half the free memory
        (0, 100, 60.0, 0, 1),
    ):
        with subtests.test(most=most):
            monkeypatch.setattr(processes, "free_memory", lambda free=free: free)
            found = count_processes(most, tasks=parts, seconds=seconds, process_bytes=GIB)
            assert found == expected


@pytest.fixture
def pool():
    pool = Pool("")
    yield pool
    pool.end()


def is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_none_is_there(ids: list[int]) -> None:
    for _ in range(300):
        if not any(map(is_there, ids)):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {[p for p in ids if is_there(p)]}")


def test_pool_results_are_in_the_order_of_arguments(pool, capfd):
    assert pool.map(work.square, range(20), 3) == [n * n for n in range(20)]
    out, _ = capfd.readouterr()
    assert "what a library prints" not in out


def test_processes_are_light_and_are_reused(pool):
    import tensorflow as tf  # noqa: F401  this process has it

    ids = set()
    for _ in range(2):
        for pid, heavy, spared in pool.map(work.describe, range(20), 2):
            ids.add(pid)
            assert heavy == []
            assert spared > 5_000
    assert len(ids) == 2
    assert os.getpid() not in ids
    pool.end()
    wait_until_none_is_there([*ids])


@pytest.mark.parametrize(
    ("call", "number", "said"),
    [(work.end_itself, 9, "SIGKILL.*num_workers=1"), (work.exit_at_once, 7, "status 7")],
)
def test_killed_process_is_an_error(pool, call, number, said):
    with pytest.raises(DatasetError, match=said):
        pool.map(call, [number] * 3, 2)
    assert pool.map(work.square, [3], 2) == [9]


# A script without an `if __name__` guard; SIGINT is the signal of Ctrl-C.
SCRIPT = """
    import sys
    from components.runtime.processes import Pool
    import pool_work as work
    print("begun", flush=True)
    Pool("").map(work.stay, [sys.argv[1]] * 2, 2)
"""


@pytest.fixture
def script(tmp_path):
    """Start a parent with two busy processes, and return their ids."""
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    ids = tmp_path / "ids"
    ids.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(ids)],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{HERE}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(600):
            if len(found := [*ids.iterdir()]) == 2:
                break
            time.sleep(0.1)
        yield parent, [int(path.name) for path in found]
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_parent(script, number):
    parent, ids = script
    assert all(map(is_there, ids))
    parent.send_signal(number)
    assert parent.wait() == -number
    wait_until_none_is_there(ids)
