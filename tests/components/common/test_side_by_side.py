"""Work on one machine: who does it, and what Beam counts where Beam runs."""

import os
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

from components.common import worker_pool
from components.common.beam import LocalFirstBeamExecutor
from components.common.side_by_side import Cost, InProcessPipeline, call_side_by_side
from components.common.worker_pool import ALL
from trainer_utils.format import DatasetError

# By its bare name: to a fresh process, `tests` may be what some installed package has left.
sys.path.insert(0, str(Path(__file__).parent))
import pool_work as work

LONG, SHORT = Cost(6, 60.0, 1 << 20), Cost(6, 0.1, 1 << 20)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses them together with Beam's
    monkeypatch.setattr(worker_pool, "usable_cores", lambda: 2)


class Anything(LocalFirstBeamExecutor):
    def Do(self, *_: Any) -> None:
        raise NotImplementedError


def pipeline_of(arguments: list[str], folder: Path) -> beam.Pipeline:
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=[*arguments],
        tmp_dir=str(folder / "tmp"),
        unique_id="1",
    )
    return Anything(context)._make_beam_pipeline()


@pytest.mark.parametrize(
    ("arguments", "processes"),
    [
        ([], ALL),
        (["--runner=DirectRunner"], ALL),
        (["--direct_num_workers=0"], ALL),
        (["--direct_num_workers=1"], 1),
        (["--direct_num_workers", "3"], 3),
    ],
    ids=str,
)
def test_in_process_there_is_a_process_a_core_or_as_many_as_beam_is_told(
    tmp_path, arguments, processes
):
    pipeline = pipeline_of(arguments, tmp_path)
    assert isinstance(pipeline, InProcessPipeline)
    assert isinstance(pipeline.runner, FnApiRunner)
    assert pipeline.processes == processes


def run(pipeline: beam.Pipeline, folder: Path, call: Any = work.leave_process, **more: Any) -> Any:
    """Which processes worked."""
    folder.mkdir()
    given: dict[str, Any] = {"cost": LONG, "paths": [str(folder)]} | more
    calls = ((str(folder), number) for number in range(6))
    call_side_by_side(lambda: pipeline, call, calls, **given)
    names = [path.name.split("-") for path in folder.iterdir() if path.name != "begun"]
    assert sorted(int(number) for number, _ in names) == [*range(6)]
    return {int(process) for _, process in names}


def test_calls_go_to_this_process_and_to_others(tmp_path):
    processes = run(pipeline_of([], tmp_path), tmp_path / "out", work.leave_both_processes)
    assert os.getpid() in processes
    assert len(processes) == 2


def test_what_lies_in_stores_that_the_environment_leads_to_goes_to_other_processes(tmp_path):
    paths = [str(tmp_path / "in"), "s3://bucket/out"]
    pipeline = pipeline_of([], tmp_path)
    processes = run(pipeline, tmp_path / "out", work.leave_both_processes, paths=paths)
    assert processes != {os.getpid()}


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["--direct_num_workers=1"], {}),
        ([], {"cost": SHORT}),
        ([], {"paths": ["gs://bucket/out"]}),  # with credentials that this process may have alone
    ],
    ids=["one worker", "little work", "remote"],
)
def test_what_others_do_not_see_or_is_not_worth_them_is_done_here(tmp_path, arguments, more):
    pipeline = pipeline_of(arguments, tmp_path)
    assert run(pipeline, tmp_path / "out", **more) == {os.getpid()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--direct_running_mode=multi_threading", "--direct_num_workers=2"],
        ["--direct_running_mode=multi_threading"],
    ],
    ids=str,
)
def test_elsewhere_calls_are_elements_of_beam_which_counts_them(tmp_path, arguments):
    pipeline = pipeline_of(arguments, tmp_path)
    assert run(pipeline, tmp_path / "out") == {os.getpid()}
    counters = pipeline.result.metrics().query()["counters"]
    assert {c.key.metric.name: c.committed for c in counters} == {
        "records_written": 15,
        "inputs_rejected": 6,
    }


def test_a_process_that_is_killed_fails_the_run_with_advice(tmp_path):
    with pytest.raises(DatasetError, match=r"SIGKILL.*where memory runs out"):
        call_side_by_side(
            lambda: pipeline_of([], tmp_path),
            work.end_itself,
            [(str(tmp_path), 9)] * 2,
            cost=LONG,
            paths=[str(tmp_path)],
        )
