"""A task on Beam costs few calls of a store, and a finished one costs one."""

import collections
import functools
import sys
from pathlib import Path

import apache_beam as beam
import pytest

from components.runtime.beam import IN_PROCESS_RUNNER
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Task
from components.runtime.workspace import prepare_workspace
from tests.faults.simulated_store import SimulatedStore, served
from trainer_utils.writing.working_folder import working_folder

sys.path.insert(0, str(Path(__file__).parent))
import pool_work as work

COUNT = 20


def calls_of(store: SimulatedStore, **settings) -> collections.Counter[str]:
    """Run tasks on Beam, and return the number of calls by verb."""
    store.calls = []
    tasks = [Task(f"task-{number}", number) for number in range(COUNT)]
    folder = working_folder("s3://bucket/out")
    pipeline = functools.partial(beam.Pipeline, argv=[f"--runner={IN_PROCESS_RUNNER}"])
    with Runner(make_pipeline=pipeline) as runner:
        results = map_tasks(work.square, tasks, workspace=folder, runner=runner, **settings)
    assert results == [number * number for number in range(COUNT)]
    return collections.Counter(call.partition(" ")[0] for call in store.calls)


@pytest.fixture
def store():
    store = SimulatedStore({})
    with served(store):
        prepare_workspace("s3://bucket/out", key="k")
        yield store


def test_task_costs_four_calls_and_a_finished_one_costs_one(store):
    # The launcher writes the task and reads the result; the worker does the reverse.
    assert calls_of(store) == {"list": 1, "put": 2 * COUNT, "get": 2 * COUNT}
    assert calls_of(store) == {"list": 1, "get": COUNT}


def test_finished_task_with_a_check_is_not_written_again(store):
    calls_of(store)
    # The task is written and read again, and its result is read by the worker and the launcher.
    calls = calls_of(store, check=abs)
    assert calls == {"list": 1, "put": COUNT, "get": 3 * COUNT}
