"""Work goes to light processes, comes back whole, and leaves none of them behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from components.common import processes
from components.common.processes import Pool, count_processes
from tests.docs.markdown import REPOSITORY
from trainer_utils.format import CorruptShardError, DatasetError

GIB = 1 << 30
HERE = Path(__file__).parent

# By its bare name: to a fresh process, `tests` may be what some installed package has left.
sys.path.insert(0, str(HERE))
import pool_work as work  # noqa: E402


def test_cores_memory_and_work_bound_the_processes(monkeypatch):
    monkeypatch.setattr(processes, "usable_cores", lambda: 4)
    for most, tasks, seconds, free, expected in (
        (0, 100, 60.0, 100 * GIB, 4),  # as many as cores, which is four here
        (1, 100, 60.0, 100 * GIB, 1),
        (9, 100, 60.0, 100 * GIB, 9),  # as many as are allowed, whatever cores there are
        (0, 2, 60.0, 100 * GIB, 2),  # no more than there is to do
        (0, 0, 60.0, 100 * GIB, 1),
        (0, 100, 0.5, 100 * GIB, 1),  # small work is done alone
        (0, 100, 60.0, 4 * GIB, 2),  # each may need a GiB, of half of what is free
        (0, 100, 60.0, 0, 1),
    ):
        monkeypatch.setattr(processes, "free_memory", lambda free=free: free)
        found = count_processes(most, tasks=tasks, seconds=seconds, process_bytes=GIB)
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


def test_results_come_in_the_order_of_arguments(pool, capfd):
    assert pool.map(work.square, range(20), 3) == [n * n for n in range(20)]
    out, _ = capfd.readouterr()
    assert "what a library prints" not in out


def test_processes_have_no_large_library_and_serve_call_after_call(pool):
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


def test_an_error_comes_with_its_class_its_data_and_where_it_was(pool):
    with pytest.raises(CorruptShardError) as caught:
        pool.map(work.find_damage, [0], 2)
    assert (caught.value.path, caught.value.record, caught.value.offset) == ("a b", 3, 77)
    assert "in find_damage" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("call", "number", "said"),
    [(work.end_itself, 9, "SIGKILL.*num_workers=1"), (work.exit_at_once, 7, "status 7")],
)
def test_a_process_that_is_killed_is_an_error_that_says_so(pool, call, number, said):
    with pytest.raises(DatasetError, match=said):
        pool.map(call, [number] * 3, 2)
    assert pool.map(work.square, [3], 2) == [9]


# A script without a guard round its main part; SIGINT is what Ctrl-C sends.
SCRIPT = """
    import sys
    from components.common.processes import Pool
    import pool_work as work
    print("begun", flush=True)
    Pool("").map(work.stay, [sys.argv[1]] * 2, 2)
"""


@pytest.fixture
def script(tmp_path):
    """A parent with two processes at work, and their ids."""
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
