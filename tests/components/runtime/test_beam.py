"""Beam's arguments reach Beam unchanged, and functions for workers are pickled by name."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

from components.text_example_gen import Executor as TextExecutor
from components.tfx.executor import LocalFirstBeamExecutor
from tests.components.runs import run
from trainer_utils.core.errors import DatasetError

IMAGE = "--sdk_container_image=registry/image:1"  # otherwise TFX packages itself for workers
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "engines.md"


def documented() -> list[str]:
    """Return the arguments for Dataflow in the documentation."""
    (block,) = re.findall(
        r"```python\n(beam_pipeline_args = .*?)```", DOCUMENTATION.read_text(), re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(block, names)
    return names["beam_pipeline_args"]


DATAFLOW = [*documented(), "--dry_run=True"]


@pytest.fixture(autouse=True)
def without_pytests_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX would parse them with Beam's


def context(arguments: list[Any], folder: Path) -> BaseBeamExecutor.Context:
    return BaseBeamExecutor.Context(
        beam_pipeline_args=list(arguments), tmp_dir=str(folder / "tmp"), unique_id="1"
    )


class Anything(LocalFirstBeamExecutor):
    def Do(self, *_: Any) -> None:
        raise NotImplementedError


def pipeline_of(arguments: list[str], folder: Path) -> beam.Pipeline:
    return Anything(context(arguments, folder))._make_beam_pipeline()


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "--runner=FlinkRunner",
            "--flink_master=http://flink:8081",
            "--flink_version=1.20",
            "--parallelism=8",
            "--environment_type=EXTERNAL",
            "--environment_config=localhost:50000",
        ],
        ["--runner", "PortableRunner", "--job_endpoint", "localhost:8099"],
        [*DATAFLOW, "--experiments=shuffle_mode=service", "--labels=team=vision"],
        ["--runner=PrismRunner", "--option_of_tomorrow=7"],
    ],
    ids=["flink", "portable", "dataflow", "prism"],
)
def test_arguments_reach_beam_unchanged(tmp_path, monkeypatch, arguments):
    given: list[list[str]] = []
    make = beam.Pipeline

    def pipeline(argv: list[str]) -> beam.Pipeline:
        given.append(argv)
        return make(argv=argv)

    monkeypatch.setattr(beam, "Pipeline", pipeline)
    arguments = arguments if arguments[0] == DATAFLOW[0] else [*arguments, IMAGE]
    made = pipeline_of(arguments, tmp_path)
    (argv,) = given
    assert argv[: len(arguments)] == arguments
    added = argv[len(arguments) :]
    assert {a for a in added if not a.startswith("tfx_")} == {"--labels", "--no_save_main_session"}
    assert (
        type(made.runner).__name__ in arguments[0] + arguments[1]
    )  # the runner that Beam chose and checked


def test_workers_start_without_importing_tfx_or_tensorflow():
    # Importing them takes about 5 s, and each job starts a new worker process.
    modules = "runtime.beam, components.runtime.tasks, components.balancing.parts"
    code = (
        f"import sys, components.{modules}\n"
        "print([n for n in ('tfx', 'tensorflow', 'tfx_bsl') if n in sys.modules])"
    )
    folder = DOCUMENTATION.parents[1]
    shown = subprocess.check_output([sys.executable, "-c", code], cwd=folder, text=True)
    assert shown.strip() == "[]"


def test_dataflow_dry_run_takes_the_job_and_raises(tmp_path):
    (tmp_path / "table.csv").write_text("text,label\n" + "word word,1\n" * 50)
    # A dry run writes the description of the job without running it.
    with pytest.raises(DatasetError, match="expected the part 'inspect-000000', got none"):
        run(TextExecutor, tmp_path / "table.csv", tmp_path / "out", beam_args=DATAFLOW)
    assert list((tmp_path / "out").iterdir()) == []
