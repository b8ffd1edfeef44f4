"""Beam's arguments reach Beam as they were given, and what goes to workers is found by its name."""

import base64
import bz2
import pickletools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

from components.image_example_gen import Executor as ImageExecutor
from components.shard_balancer import Executor as BalancerExecutor
from components.text_example_gen import Executor as TextExecutor
from components.tfx.executor import LocalFirstBeamExecutor
from trainer_utils.format import DatasetError

IMAGE = "--sdk_container_image=registry/image:1"  # so that TFX does not pack itself for workers
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "engines.md"


def documented() -> list[str]:
    """The arguments that the documentation gives for Dataflow."""
    (block,) = re.findall(
        r"```python\n(beam_pipeline_args = .*?)```", DOCUMENTATION.read_text(), re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(block, names)
    return names["beam_pipeline_args"]


DATAFLOW = [*documented(), "--dry_run=True"]


@pytest.fixture(autouse=True)
def without_pytests_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses them together with Beam's


def context(arguments: list[Any], folder: Path) -> BaseBeamExecutor.Context:
    return BaseBeamExecutor.Context(
        beam_pipeline_args=list(arguments), tmp_dir=str(folder / "tmp"), unique_id="1"
    )


class Anything(LocalFirstBeamExecutor):
    def Do(self, *_: Any) -> None:
        raise NotImplementedError


def pipeline_of(arguments: list[str], folder: Path) -> beam.Pipeline:
    return Anything(context(arguments, folder))._make_beam_pipeline()


# Arguments ----------------------------------------------------------------------------------------


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
        [
            "--runner=SparkRunner",
            "--spark_master_url=spark://spark:7077",
            "--spark_version=3",
            "--environment_type=PROCESS",
            '--environment_config={"command": "/opt/apache/beam/boot"}',
        ],
        ["--runner", "PortableRunner", "--job_endpoint", "localhost:8099"],
        [*DATAFLOW, "--experiments=shuffle_mode=service", "--labels=team=vision"],
        ["--runner=PrismRunner", "--option_of_tomorrow=7"],
    ],
    ids=["flink", "spark", "portable", "dataflow", "prism"],
)
def test_arguments_reach_beam_as_they_are(tmp_path, monkeypatch, arguments):
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
    assert type(made.runner).__name__ in arguments[0] + arguments[1]  # which Beam took, and checked


# What workers get ---------------------------------------------------------------------------------


class Recorder(FnApiRunner):
    """The in-process runner, which keeps what it was given as other engines would get it."""

    def __init__(self) -> None:
        super().__init__()
        self.protos: list[beam_runner_api_pb2.Pipeline] = []

    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        self.protos.append(pipeline.to_runner_api())
        return super().run_pipeline(pipeline, options)


def run(executor: type, given: dict[str, Any], uri: Path, context: Any, **settings: Any) -> None:
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    output = "balanced_examples" if given else "examples"
    executor(context).Do(given, {output: [artifact]}, settings)


EXAMPLE_GEN = {
    "input_config": '{"splits": [{"name": "all", "pattern": "*"}]}',
    "output_config": "{}",
    "max_reject_fraction": 0.5,
}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("in") / "table.csv"
    text = "word " * 2000  # train is more than the balancer's least memory holds, eval is less
    path.write_text("text,label\n" + "".join(f"{n} {text},{n % 3}\n" for n in range(50)))
    return path


def photos_in(folder: Path, photos: list[Any]) -> str:
    from PIL import Image

    for number, photo in enumerate(photos[:6]):
        path = folder / f"photos/{number % 2}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path)
    return str(folder / "photos")


@pytest.fixture(scope="module")
def protos(tmp_path_factory, table, photos) -> list[beam_runner_api_pb2.Pipeline]:
    """Every pipeline of the components, as engines get them."""
    recorder, folder = Recorder(), tmp_path_factory.mktemp("out")
    recording = BaseBeamExecutor.Context(
        make_beam_pipeline_fn=lambda: beam.Pipeline(runner=recorder)
    )
    base = photos_in(folder, photos)
    run(ImageExecutor, {}, folder / "images", recording, input_base=base, **EXAMPLE_GEN)
    run(TextExecutor, {}, folder / "texts", recording, input_base=str(table), **EXAMPLE_GEN)
    given = standard_artifacts.Examples()
    given.uri = str(folder / "texts")
    settings = {"stratify_by": "label", "num_shards": "2", "memory_bytes": 1 << 20}
    run(BalancerExecutor, {"examples": [given]}, folder / "balanced", recording, **settings)
    return recorder.protos


def pickles_in(proto: beam_runner_api_pb2.Pipeline) -> list[bytes]:
    """The functions of every `ParDo`, as they are pickled."""
    found = []
    for transform in proto.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            found.append(bz2.decompress(base64.b64decode(payload.do_fn.payload)))
    return found


def names_in(pickle: bytes) -> set[str]:
    """What a pickle finds by its name, as `module.name`."""
    names, strings = set(), []
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name == "GLOBAL":
            names.add(argument.replace(" ", "."))
        elif opcode.name == "STACK_GLOBAL":
            names.add(".".join(strings[-2:]))
        elif isinstance(argument, str):
            strings.append(argument)
    return names


def test_functions_go_to_workers_by_name_and_none_from_main(protos):
    own: set[str] = set()
    for proto in protos:
        for pickle in pickles_in(proto):
            names = names_in(pickle)
            assert not any(name.startswith(("__main__", "tests", "test_")) for name in names)
            # What has no name goes as code; all that may be so is Beam's own, of Reshuffle.
            if any("_make_skeleton_class" in n or "_make_function" in n for n in names):
                assert not any(name.startswith("components.") for name in names)
            own |= {name for name in names if name.startswith("components.")}
    assert own >= {
        "components.example_gen.file_shards.WriteMediaShard",
        "components.example_gen.row_inspection.Inspection",
        "components.example_gen.row_encoding.Encoding",
        "components.example_gen.row_encoding.Gathering",
        "components.balancing.context.survey_shard",
        "components.balancing.parts.run_part",
    }


def test_workers_start_without_importing_tfx_or_tensorflow():
    # Importing them takes some five seconds, and a worker is a process for each job.
    modules = "common.beam, components.conversions, components.balancing.parts"
    code = (
        f"import sys, components.{modules}\n"
        "print([n for n in ('tfx', 'tensorflow', 'tfx_bsl') if n in sys.modules])"
    )
    folder = DOCUMENTATION.parents[1]
    shown = subprocess.check_output([sys.executable, "-c", code], cwd=folder, text=True)
    assert shown.strip() == "[]"


def test_dataflow_takes_the_whole_job_and_a_run_that_made_nothing_is_an_error(tmp_path, table):
    # A dry run makes the description of the job, and runs it nowhere.
    with pytest.raises(DatasetError, match=r"expected 1 parts, got 0.*'inspect-000000'"):
        run(
            TextExecutor,
            {},
            tmp_path / "out",
            context(DATAFLOW, tmp_path),
            input_base=str(table),
            **EXAMPLE_GEN,
        )
    assert list((tmp_path / "out").iterdir()) == []
