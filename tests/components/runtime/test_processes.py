"""Processes of a pool end in every case, and do not change the calling program."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from components.example_gen.settings import ImageSettings
from components.runtime.processes import Pool, is_worth_processes
from components.runtime.runners import Runner
from components.steps import conversion_of
from tests.docs.markdown import REPOSITORY
from tests.faults.engine import members_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import pool_work as work  # noqa: E402

SECONDS = 120  # a process that takes longer hangs
QUEUED = [bytes(100_000)] * 3000  # 300 MB, more than any pipe holds


@pytest.fixture
def pool():
    pool = Pool("")
    yield pool
    pool.end()


def run_script(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a program without an `if __name__` guard, in a new session."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{HERE}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


INTERRUPTED = """
    import pool_work as work
    from components.runtime.processes import Pool
    Pool("").map(work.announce, [bytes(100_000)] * 3000, 2)
"""


@pytest.mark.parametrize("reaches", ["the parent", "the group"])
def test_interrupt_ends_a_pool_with_many_queued_tasks(reaches):
    with run_script(INTERRUPTED) as parent:
        assert parent.stderr is not None
        for _ in range(5):
            assert parent.stderr.readline() == "done\n"
        if reaches == "the parent":
            os.kill(parent.pid, signal.SIGINT)
        else:
            os.killpg(parent.pid, signal.SIGINT)
        _, err = parent.communicate(timeout=SECONDS)
    assert parent.returncode == -signal.SIGINT
    lines = [line for line in err.splitlines() if line != "done"]
    assert lines[0] == "Traceback (most recent call last):"
    assert err.count("Traceback") == 1, err
    assert lines[-1] == "KeyboardInterrupt"
    assert members_of(parent.pid) == []


def test_error_among_many_queued_tasks_is_raised_at_once(pool):
    with pytest.raises(ZeroDivisionError):
        pool.map(work.divide, [*QUEUED[:2], 0, *QUEUED], 2)
    assert pool.map(work.square, [3, 4], 2) == [9, 16]


def test_unpicklable_result_raises(pool):
    with pytest.raises(RuntimeError, match="pickle"):
        pool.map(work.give_a_lock, [1, 2], 2)


def test_results_larger_than_a_pipe_are_returned(pool):
    sizes = [10_000_000, 0, 20_000_000, 5]
    assert [len(data) for data in pool.map(bytes, sizes, 2)] == sizes


def test_workers_have_the_callers_folder_and_environment(pool, tmp_path, monkeypatch):
    assert pool.map(work.square, [1, 2], 1) == [1, 4]
    pool.end()
    pool.start_early()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SET_BY_THE_CALLER", "yes")
    ((folder, value, threads),) = pool.map(work.describe_setting, ["SET_BY_THE_CALLER"], 1)
    assert (folder, value, threads) == (str(tmp_path), "yes", "1")


def test_server_without_processes_ends_at_once(pool):
    pool.start_early()
    process = pool._server._process
    pool.end()
    assert process.returncode == -signal.SIGKILL


def test_short_work_starts_no_server_early():
    with Runner(module="no.such.module") as runner:
        runner.start_early(seconds=0.3)
        assert runner._pool._server is None
        runner.start_early(seconds=3)
        assert runner._pool._server is not None
    assert runner._pool._server is None


@pytest.mark.parametrize(("count", "is_worth"), [(10, False), (3000, True)])
def test_many_files_start_the_server_early(tmp_path, count, is_worth):
    for number in range(count):
        path = tmp_path / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    seconds = conversion_of(tmp_path, ImageSettings()).least_seconds
    assert is_worth_processes(seconds) == is_worth


def test_killed_server_raises(pool):
    pool.map(work.square, [1, 2], 2)
    os.kill(pool._server._process.pid, signal.SIGKILL)
    with pytest.raises(Exception, match="SIGKILL"):
        pool.map(work.stay_a_while, [60] * 2, 2)
    assert pool.map(work.square, [3], 1) == [9]


def test_processes_of_a_killed_server_name_the_signal(pool):
    pool.map(work.square, [1, 2], 2)
    server, worker = pool._server, pool._workers[0]
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    assert "SIGKILL" in str(server.error_of(worker.process))


HOST = """
    import concurrent.futures, gc, multiprocessing, multiprocessing.forkserver, os, pickle, sys
    import threading, time
    from pathlib import Path

    class Own:
        pass

    def main():
        import cv2
        from components import steps
        from components.runtime import processes
        from components.runtime.runners import Runner
        from components.example_gen.settings import ImageSettings
        processes._WORTH_SECONDS = 0.0
        cv2.setNumThreads(3)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["colorsys"])
        gc.freeze()
        frozen, before = gc.get_freeze_count(), dict(os.environ)
        own, failures, seen, ended = sys.modules["__main__"], [], set(), threading.Event()

        def watch():
            while not ended.is_set():
                try:
                    assert type(pickle.loads(pickle.dumps(Own()))) is Own
                    assert sys.modules["__main__"] is own
                    assert dict(os.environ) == before
                except Exception as error:
                    failures.append(repr(error))
                seen.add(1)
                time.sleep(0.0005)  # without a pause, imports in the main thread take minutes

        threads = [threading.Thread(target=watch, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(2):
            runner = Runner(processes=2, module="components.example_gen.file_shards")
            settings = ImageSettings(target_shard_bytes=2000, max_reject_fraction=1)
            steps.convert(sys.argv[1], f"{sys.argv[2]}/{number}", settings, runner=runner)
        ended.set()
        for thread in threads:
            thread.join()
        assert seen
        assert not failures, failures[:3]
        # `gc.unfreeze` would leave 0; frozen objects that nobody refers to any more are freed.
        assert gc.get_freeze_count() > 0.9 * frozen, (gc.get_freeze_count(), frozen)
        assert multiprocessing.forkserver._forkserver._preload_modules == ["colorsys"]
        assert multiprocessing.forkserver._forkserver._forkserver_pid is None
        import trainer_utils
        how = {"batch_size": 4, "image_size": (8, 8), "features": "image"}
        list(trainer_utils.iterate(f"{sys.argv[2]}/0", "train", **how))
        assert cv2.getNumThreads() == 3
        print("as it was")

    if __name__ == "__main__":
        main()
"""


def test_conversion_leaves_the_calling_program_unchanged(tmp_path, photos):
    from PIL import Image

    for name in "ab":
        (tmp_path / "in" / name).mkdir(parents=True)
    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(tmp_path / f"in/{'ab'[number % 2]}/{number}.png")
    script = tmp_path / "host.py"
    script.write_text(textwrap.dedent(HOST))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "in"), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout == "as it was\n", done.stderr


def test_a_thread_helps_until_processes_have_started(pool):
    first, *others = pool.map(work.return_pid, range(200), 2, helps_start=True)
    assert first == os.getpid()
    again = pool.map(work.return_pid, range(200), 2, helps_start=True)
    assert os.getpid() not in again
    assert len({*others, *again} - {os.getpid()}) == 2


def test_a_thread_raises_the_error_of_its_call(pool):
    with pytest.raises(ZeroDivisionError):
        pool.map(work.divide, [1, 0], 2, helps_start=True)
