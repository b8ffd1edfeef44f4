"""Work goes to light processes, comes back whole, and leaves none of them behind."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from components.common import worker_pool
from components.common.worker_pool import ALL, count_processes, keep_processes, run_all
from tests.docs.markdown import REPOSITORY
from trainer_utils.format import CorruptShardError, DatasetError

GIB = 1 << 30
HERE = Path(__file__).parent

# By its bare name: to a fresh process, `tests` may be what some installed package has left.
sys.path.insert(0, str(HERE))
import pool_work as work  # noqa: E402


def is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_none_is_there(processes: list[int]) -> None:
    for _ in range(300):
        if not any(map(is_there, processes)):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {[p for p in processes if is_there(p)]}")


def wait_for_files(folder: Path, count: int) -> list[int]:
    for _ in range(600):
        found = [int(path.name) for path in folder.iterdir()]
        if len(found) == count:
            return found
        time.sleep(0.1)
    pytest.fail(f"{count} processes did not begin")


# How many -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "tasks", "seconds", "free", "expected"),
    [
        # as many as cores, which is four here
        (ALL, 100, 60.0, 100 * GIB, 4),
        # as many as are allowed, whatever cores there are
        (1, 100, 60.0, 100 * GIB, 1),
        (3, 100, 60.0, 100 * GIB, 3),
        (9, 100, 60.0, 100 * GIB, 9),
        # no more than there is to do
        (ALL, 2, 60.0, 100 * GIB, 2),
        (ALL, 0, 60.0, 100 * GIB, 1),
        # small work is done alone
        (ALL, 100, 0.5, 100 * GIB, 1),
        # each may need a GiB, of half of what is free
        (ALL, 100, 60.0, 4 * GIB, 2),
        (ALL, 100, 60.0, 1 * GIB, 1),
        (ALL, 100, 60.0, 0, 1),
    ],
)
def test_cores_memory_and_work_bound_the_processes(
    monkeypatch, most, tasks, seconds, free, expected
):
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: 4)
    monkeypatch.setattr(worker_pool, "free_memory", lambda: free)
    assert count_processes(most, tasks=tasks, seconds=seconds, process_bytes=GIB) == expected


# What comes back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_arguments(processes, capfd):
    assert run_all(work.square, range(20), processes=processes) == [n * n for n in range(20)]
    assert "what a library prints 7" in "".join(capfd.readouterr())


def test_this_process_works_and_others_that_have_no_large_library(tmp_path):
    import tensorflow as tf  # noqa: F401  this process has it

    described = dict(run_all(work.describe, [str(tmp_path)] * 3, processes=2))
    assert "tensorflow" in described.pop(os.getpid())
    assert [*described.values()] == [[]]


def test_full_collections_of_other_processes_spare_their_modules(tmp_path):
    spared = dict(run_all(work.count_spared, [str(tmp_path)] * 3, processes=2))
    spared.pop(os.getpid())
    assert all(count > 10_000 for count in spared.values())
    assert len(spared) == 1


def test_processes_work_while_the_arguments_are_made(tmp_path):
    def arguments():
        yield str(tmp_path)
        work.wait_for_helper(str(tmp_path))
        assert (tmp_path / "begun").exists()
        yield str(tmp_path)

    assert len(run_all(work.describe, arguments(), processes=2)) == 2


def test_an_error_in_the_arguments_ends_all(tmp_path):
    def arguments():
        yield from [str(tmp_path)] * 3
        raise ValueError("no more")

    before = children()
    with pytest.raises(ValueError, match="no more"):
        run_all(work.describe, arguments(), processes=3)
    assert children() <= before


@pytest.mark.parametrize(
    "module", ["example_gen.file_shards", "example_gen.row_encoding", "shard_balancer.parts"]
)
def test_what_writes_shards_needs_no_large_library(module):
    code = f"import sys, components.{module}\nprint([n for n in {work.HEAVY} if n in sys.modules])"
    shown = subprocess.check_output([sys.executable, "-c", code], cwd=REPOSITORY, text=True)
    assert shown == "[]\n"


def test_an_error_comes_with_its_class_its_data_and_where_it_was(tmp_path):
    with pytest.raises(CorruptShardError, match="'a b': expected a good sum") as caught:
        run_all(work.find_damage, [str(tmp_path)] * 2, processes=2)
    assert (caught.value.path, caught.value.record, caught.value.offset) == ("a b", 3, 77)
    assert "in find_damage" in str(caught.value.__cause__)


def test_what_cannot_be_pickled_comes_as_text(tmp_path):
    calls = [str(tmp_path)] * 2
    with pytest.raises(RuntimeError, match="UnreadableError: 1 and 2"):
        run_all(work.raise_unreadable, calls, processes=2)
    (tmp_path / "begun").unlink()
    with pytest.raises(RuntimeError, match="function: <function return_unpicklable"):
        run_all(work.return_unpicklable, calls, processes=2)


def test_logs_and_warnings_come_home(caplog, tmp_path):
    calls = [(str(tmp_path), "x"), (str(tmp_path), "y")]
    with caplog.at_level(logging.INFO):
        run_all(work.tell, calls, processes=2)
    lines = [f"{r.name}: {r.getMessage()}" for r in caplog.records]
    assert sorted(line for line in lines if line.startswith("a.library")) == [
        "a.library: info: x",
        "a.library: info: y",
        "a.library: warning: x",
        "a.library: warning: y",
    ]
    assert any("of Python: " in line for line in lines)  # Pytest takes those of this process
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        run_all(work.tell, calls, processes=2)
    assert not any("info" in record.getMessage() for record in caplog.records)


# How it ends --------------------------------------------------------------------------------------


def test_a_process_that_is_killed_is_an_error_that_says_what_to_do(tmp_path):
    message = r"expected .*, 9\) to be done, got no answer: signal 9 \(SIGKILL\).*num_workers=1"
    with pytest.raises(DatasetError, match=message):
        run_all(work.end_itself, [(str(tmp_path), 9)] * 2, processes=2)
    (tmp_path / "begun").unlink()
    with pytest.raises(DatasetError, match="it ended with status 7"):
        run_all(work.exit_at_once, [(str(tmp_path), 7)] * 2, processes=2)


def test_after_an_error_there_no_call_is_begun_and_no_process_is_left(tmp_path):
    before = children()
    calls = [(str(tmp_path), number) for number in range(50)]
    with pytest.raises(ValueError, match="the helper"):
        run_all(work.fail_there, calls, processes=2)
    assert children() <= before
    assert {path.name for path in tmp_path.iterdir()} < {"begun", *map(str, range(10))}


def test_after_an_error_here_no_process_is_awaited(tmp_path):
    before = children()
    with pytest.raises(ValueError, match="the parent"):
        run_all(work.fail_here, [str(tmp_path)] * 50, processes=2)
    assert children() <= before


@pytest.mark.parametrize("processes", [1, 2])
def test_an_index_error_of_a_call_is_not_taken_for_the_end_of_the_work(processes):
    with pytest.raises(IndexError):
        run_all(work.find_nothing, range(50), processes=processes)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


# Kept ---------------------------------------------------------------------------------------------


def helpers(folder: Path, calls: int, processes: int) -> set[int]:
    """The processes beside this one that took part."""
    (folder / "begun").unlink(missing_ok=True)
    found = dict(run_all(work.describe, [str(folder)] * calls, processes=processes))
    return {*found} - {os.getpid()}


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_calls_share_processes_which_begin_before_them(tmp_path):
    before = children()
    with keep_processes("pool_work"):
        (begun,) = map(int, children() - before)
        assert helpers(tmp_path, 2, processes=2) == {begun}
        assert run_all(work.square, range(9), processes=2) == [n * n for n in range(9)]
        assert {*map(int, children() - before)} == {begun}
        assert helpers(tmp_path, 40, processes=3) >= {begun}
        two = {*map(int, children() - before)}
        assert len(two) == 2
        assert helpers(tmp_path, 2, processes=2) <= two
    assert children() <= before


@pytest.mark.parametrize("module", ["pool_work", "a_module_that_is_not_there"])
def test_after_an_error_others_serve_the_next_call(tmp_path, module):
    before = children()
    with keep_processes(module):
        with pytest.raises(ValueError, match="the helper"):
            run_all(work.fail_there, [(str(tmp_path), n) for n in range(50)], processes=2)
        assert children() <= before
        assert helpers(tmp_path, 2, processes=2)
    assert children() <= before


@pytest.mark.usefixtures("two_cores")
def test_a_process_that_nobody_needed_ends_and_so_it_does_after_an_error():
    before = children()
    with keep_processes("pool_work"):
        assert len(children() - before) == 1
    with pytest.raises(RuntimeError, match="meanwhile"), keep_processes("pool_work"):
        raise RuntimeError("meanwhile")
    assert children() <= before


def test_where_no_process_can_begin_only_those_who_need_one_fail(monkeypatch):
    def refuse(*arguments, **options):
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with keep_processes("pool_work"):
        assert run_all(work.square, [3], processes=1) == [9]
        with pytest.raises(BlockingIOError):
            run_all(work.square, [3, 4], processes=2)


def test_one_core_is_not_shared(monkeypatch):
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: 1)
    before = children()
    with keep_processes("pool_work"):
        assert children() <= before


# A script without a guard round its main part; SIGINT is what Ctrl-C sends.
SCRIPT = """
    import sys
    from components.common.worker_pool import run_all
    import pool_work as work
    print("begun", flush=True)
    run_all(work.stay, [sys.argv[1]] * 2, processes=2)
"""


@pytest.fixture
def script(tmp_path):
    """A parent with two processes at work, and their ids."""
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "ids").mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "ids")],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{HERE}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield parent, wait_for_files(tmp_path / "ids", 2)
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_parent(script, number):
    parent, processes = script
    assert all(map(is_there, processes))
    parent.send_signal(number)
    assert parent.wait() == -number
    wait_until_none_is_there(processes)


def test_ctrl_c_ends_all_with_one_traceback(script):
    parent, processes = script
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
    out, err = parent.communicate(timeout=60)
    assert out == "begun\n"  # the script ran once: no process imported it
    assert err.count("Traceback") == err.count("KeyboardInterrupt") == 1
    wait_until_none_is_there(processes)
