"""Beam's part of work on one machine: who does it, and what Beam counts of it."""

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
from components.common.side_by_side import Cost, InProcessPipeline, SideBySide
from components.common.worker_pool import ALL
from trainer_utils.format import DatasetError

# By its bare name: to a fresh process, `tests` may be what some installed package has left.
sys.path.insert(0, str(Path(__file__).parent))
import pool_work as work

LONG, SHORT = Cost(60.0, 1 << 20), Cost(0.1, 1 << 20)


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
        # Beam has threads or processes of its own then
        (["--direct_running_mode=multi_threading"], 1),
        (["--direct_running_mode=multi_processing", "--direct_num_workers=2"], 1),
    ],
    ids=str,
)
def test_the_in_process_runner_has_a_process_a_core_or_as_many_as_beam_is_told(
    tmp_path, arguments, processes
):
    pipeline = pipeline_of(arguments, tmp_path)
    assert isinstance(pipeline, InProcessPipeline)
    assert isinstance(pipeline.runner, FnApiRunner)
    assert pipeline.processes == processes


def run(pipeline: beam.Pipeline, folder: Path, **more: Any) -> tuple[set[int], dict[str, int]]:
    """Which processes worked, and what Beam counted."""
    folder.mkdir()
    given: dict[str, Any] = {"cost": LONG, "paths": [str(folder)]} | more
    calls = [(str(folder), number) for number in range(6)]
    _ = pipeline | SideBySide(work.leave_process, calls, **given)
    result = pipeline.run()
    result.wait_until_finish()
    counted = {c.key.metric.name: c.committed for c in result.metrics().query()["counters"]}
    names = [path.name.split("-") for path in folder.iterdir()]
    assert sorted(int(number) for number, _ in names) == [*range(6)]
    return {int(process) for _, process in names}, counted


def test_calls_go_to_other_processes_and_beam_counts_them_all(tmp_path):
    processes, counted = run(pipeline_of([], tmp_path), tmp_path / "out")
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    assert counted == {"records_written": 15, "inputs_rejected": 6}


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["--direct_num_workers=1"], {}),
        ([], {"cost": SHORT}),
        ([], {"paths": ["gs://bucket/out"]}),  # with credentials that this process may have alone
        (["--direct_running_mode=multi_threading", "--direct_num_workers=2"], {}),
    ],
    ids=["one worker", "little work", "remote", "threads of Beam"],
)
def test_elsewhere_calls_are_elements_of_beam(tmp_path, arguments, more):
    processes, counted = run(pipeline_of(arguments, tmp_path), tmp_path / "out", **more)
    assert processes == {os.getpid()}
    assert counted == {"records_written": 15, "inputs_rejected": 6}


def test_a_process_that_is_killed_fails_the_run_with_advice(tmp_path):
    pipeline = pipeline_of([], tmp_path)
    _ = pipeline | SideBySide(work.end_itself, [9, 9], cost=LONG, paths=[str(tmp_path)])
    with pytest.raises(DatasetError, match=r"SIGKILL.*where memory runs out"):
        pipeline.run().wait_until_finish()
