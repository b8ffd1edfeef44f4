"""Our `kfp.dsl` components as their users meet them."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kfp import compiler, components, dsl

import components as ours
from components.kubeflow import (
    audio_example_gen,
    dataset_audit,
    dataset_report,
    default_image,
    image_example_gen,
    input_fingerprint,
    latest_spans,
    schema_export,
    shard_balancer,
    text_example_gen,
    train_input_check,
    train_job,
    using_image,
)
from components.kubeflow.input_state import fingerprint_inputs
from components.kubeflow.run import main
from trainer_utils.format import ConfigError, Feature

REPOSITORY = Path(__file__).parents[3]
ALL = [
    audio_example_gen,
    image_example_gen,
    text_example_gen,
    shard_balancer,
    schema_export,
    dataset_audit,
    dataset_report,
    train_input_check,
    train_job,
    input_fingerprint,
    latest_spans,
]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_and_using_them_imports_nothing_that_kfp_does_not_bring():
    finished = run(
        "import sys\n"
        "from components.kubeflow import image_example_gen, train_input_check\n"
        "heavy = ('tfx', 'apache_beam', 'tensorflow', 'PIL', 'pyarrow', 'soundfile')\n"
        "print([n for n in heavy if n in sys.modules])"
    )
    assert finished.stdout == "[]\n", finished.stderr


def test_a_pipeline_is_written_and_compiled_where_there_is_no_tensorflow(tmp_path):
    finished = run(
        "import sys\n"
        "missing = ('tensorflow', 'tfx', 'apache_beam', 'ml_metadata', 'pyarrow', 'PIL', 'rich',\n"
        "           'fsspec', 'obstore', 'soundfile')\n"
        "sys.modules.update(dict.fromkeys(missing))  # an ImportError for whoever imports one\n"
        "from kfp import compiler, dsl\n"
        "from components import kubeflow\n"
        "with kubeflow.using_image('example/it:1'):\n"
        "    @dsl.pipeline(name='p')\n"
        "    def pipeline():\n"
        "        found = kubeflow.input_fingerprint(input_base='/photos').output\n"
        "        kubeflow.image_example_gen(input_base='/photos', input_version=found)\n"
        f"compiler.Compiler().compile(pipeline, {str(tmp_path / 'p.yaml')!r})"
    )
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "p.yaml").exists()


def test_compile_pipeline_and_its_command_do_without_what_the_extra_kfp_brings_not(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from kfp import dsl\n"
        "from components import kubeflow\n"
        "@dsl.pipeline(name='p')\n"
        "def pipeline():\n"
        "    kubeflow.shard_balancer(examples=kubeflow.image_example_gen(\n"
        "        input_base='/photos', input_version='1').outputs['examples'])\n"
    )
    finished = run(
        "import importlib.util, sys\n"
        "missing = ('tensorflow', 'tfx', 'apache_beam', 'ml_metadata', 'pyarrow', 'scipy',\n"
        "           'jinja2', 'defusedxml', 'soundfile', 'gcsfs', 'tensorflow_data_validation')\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n in missing else found(n, *a)\n"
        "from pipelines.cli import main\n"
        "main(['compile', sys.argv[1], '-o', sys.argv[2], '--image', 'i:1',\n"
        "      '--pipeline-root', 'minio://b', '--env', 'LOG_LEVEL=debug'])",
        f"{tmp_path / 'mine.py'}:pipeline",
        str(tmp_path / "p.yaml"),
    )
    assert finished.returncode == 0, finished.stderr
    assert "LOG_LEVEL" in (tmp_path / "p.yaml").read_text()


def test_kfp_locals_runner_of_processes_is_refused_with_what_works(tmp_path, monkeypatch):
    from kfp import local
    from kfp.local import config

    monkeypatch.setattr(config.LocalExecutionConfig, "instance", None)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path))
    with pytest.raises(ConfigError, match=r"expected DockerRunner.*LocalDagRunner do the same"):
        input_fingerprint(input_base="/photos")


def test_kfp_locals_runner_of_containers_gets_command_and_image(tmp_path, monkeypatch):
    from kfp import local
    from kfp.local import config, docker_task_handler, status

    images = []

    def run_here(handler) -> status.Status:
        images.append(handler.image)
        assert handler.full_command[:3] == ["python", "-m", "components.kubeflow.run"]
        return status.Status.FAILURE if main(handler.full_command[3:]) else status.Status.SUCCESS

    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jpg").write_bytes(b"1")
    monkeypatch.setattr(docker_task_handler.DockerTaskHandler, "run", run_here)
    monkeypatch.setattr(config.LocalExecutionConfig, "instance", None)
    local.init(local.DockerRunner(), pipeline_root=str(tmp_path / "out"))
    with using_image("example/it:1"):
        task = input_fingerprint(input_base=str(tmp_path / "in"))
    assert images == ["example/it:1"]
    assert task.output == fingerprint_inputs({"input_base": str(tmp_path / "in")})


def test_without_tfx_they_are_there_and_the_tfx_components_say_what_is_missing():
    finished = run(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'tfx' else real(name, *rest)\n"
        "from components.kubeflow import shard_balancer\n"
        "import components\n"
        "components.ShardBalancer"
    )
    last = finished.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: components needs TFX: run pip install 'tfx-shards[tfx]' on Python 3.10 to "
        "3.13 with glibc 2.38 or newer, or pip install 'tfx-shards[tfx116]' on Python 3.10"
    )


@pytest.mark.parametrize("component", ALL, ids=lambda component: component.name)
def test_each_is_a_component_that_kfp_reads_back(component, tmp_path):
    package = str(tmp_path / "component.yaml")
    compiler.Compiler().compile(component, package)
    loaded = components.load_component_from_file(package)
    assert loaded.name == component.name
    assert {
        name: (spec.type, spec.default) for name, spec in loaded.component_spec.inputs.items()
    } == {name: (spec.type, spec.default) for name, spec in component.component_spec.inputs.items()}


def pipeline_of(function, folder: Path, image: str = "example/it:1") -> dict:
    with using_image(image):
        made = dsl.pipeline(function, name="p")
    compiler.Compiler().compile(made, str(folder / "p.yaml"))
    return yaml.safe_load((folder / "p.yaml").read_text())


def test_the_image_is_that_of_the_place_where_they_are_used(tmp_path):
    def two():
        schema_export(examples=image_example_gen(input_base="/photos").outputs["examples"])

    for image in ("example/one:1", "example/two:2"):
        spec = pipeline_of(two, tmp_path, image)
        executors = spec["deploymentSpec"]["executors"].values()
        assert [executor["container"]["image"] for executor in executors] == [image] * 2


def test_the_image_may_be_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("TFX_SHARDS_IMAGE", "example/three:3")
    assert default_image() == "example/three:3"
    with using_image("example/two:2"):
        assert default_image() == "example/two:2"
    monkeypatch.delenv("TFX_SHARDS_IMAGE")
    assert default_image().startswith("tfx-shards:")


def test_what_reads_raw_data_is_cached_only_where_its_version_is_given(tmp_path):
    def reading(version: str):
        image_example_gen(input_base="/photos").set_display_name("plain")
        text_example_gen(input_base="/texts", input_version=version)
        examples = image_example_gen(input_base="/photos", input_version="3").outputs["examples"]
        shard_balancer(examples=examples)
        found = input_fingerprint(input_base="/photos").output
        image_example_gen(input_base="/photos", input_version=found)
        latest_spans(dataset_root="/datasets", num_spans=2)

    tasks = pipeline_of(reading, tmp_path)["root"]["dag"]["tasks"]
    cached = {
        name: task["cachingOptions"].get("enableCache", False) for name, task in tasks.items()
    }
    assert cached == {
        "image-example-gen": False,
        "image-example-gen-2": True,
        "image-example-gen-3": True,
        "input-fingerprint": False,
        "latest-spans": False,
        "shard-balancer": True,
        "text-example-gen": True,
    }


def test_an_audit_gates_what_comes_after_it(tmp_path):
    def gated():
        examples = image_example_gen(input_base="/photos").outputs["examples"]
        strict = dataset_audit(examples=examples, fail_on=["leakage"])
        schema_export(examples=examples).after(strict)
        lenient = dataset_audit(examples=examples)
        with dsl.If(lenient.outputs["num_findings"] == 0):
            shard_balancer(examples=examples)

    root = pipeline_of(gated, tmp_path)["root"]["dag"]["tasks"]
    assert root["schema-export"]["dependentTasks"] == ["dataset-audit", "image-example-gen"]
    inputs = root["dataset-audit"]["inputs"]["parameters"]
    assert inputs["fail_on"]["runtimeValue"]["constant"] == ["leakage"]
    (name,) = (name for name in root if name.startswith("condition"))
    assert root[name]["triggerPolicy"]["condition"] == (
        "int(inputs.parameter_values['pipelinechannel--dataset-audit-2-num_findings']) == 0"
    )


def test_an_audit_says_how_much_it_found(tmp_path, write_dataset):
    rows = {split: [[{"text": [b"one two three"]}]] for split in ("train", "eval")}
    uri = write_dataset(tmp_path / "in", rows, {"text": Feature(type="string")})
    number, anomalies = tmp_path / "number", str(tmp_path / "anomalies")
    given = {
        "inputs": {"artifacts": {"examples": {"artifacts": [{"uri": str(uri)}]}}},
        "outputs": {
            "artifacts": {"anomalies": {"artifacts": [{"uri": anomalies}]}},
            "parameters": {"num_findings": {"outputFile": str(number)}},
            "outputFile": str(tmp_path / "output.json"),
        },
    }
    paths = ["--path", "inputs", "examples", str(uri), "--path", "outputs", "anomalies", anomalies]
    assert main(["dataset_audit", "--executor-input", json.dumps(given), *paths]) == 0
    assert number.read_text() == "1"
    made = json.loads((tmp_path / "output.json").read_text())["artifacts"]["anomalies"]
    metadata = made["artifacts"][0]["metadata"]
    assert metadata["num_leakage"] == 1
    assert metadata["blessed"] == {"train": 0, "eval": 0}


def test_a_wrong_argument_is_refused_where_the_pipeline_is_written(tmp_path):
    with pytest.raises(TypeError, match='unexpected keyword argument "inputbase"'):
        pipeline_of(lambda: image_example_gen(inputbase="/photos"), tmp_path)


def executor_input(folder: Path, **parameters) -> str:
    outputs = {"examples": {"artifacts": [{"uri": f"{folder}/examples"}]}}
    output_file = str(folder / "output.json")
    return json.dumps(
        {
            "inputs": {"parameterValues": parameters},
            "outputs": {"artifacts": outputs, "outputFile": output_file},
        }
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "ConfigError: input_base: expected it or source, one of the two, got ''"),
        ({"input_base": "/x", "layout": "zip"}, "ConfigError: layout: expected one of"),
        ({"input_base": "/x", "quality": 0}, "ConfigError: quality: expected int from 1 to 100"),
        ({"input_base": "/x", "splits": {"a": 0.5}}, r"splits['a']: expected a whole number"),
        ({"input_base": "https://b/x"}, "got 'https://b/x'. Import it with kfp.dsl.importer"),
        ({"input_base": "/no/x"}, "InputError: input_base '/no/x': expected a folder"),
    ],
)
def test_wrong_settings_end_the_step_with_one_line(tmp_path, capsys, parameters, message):
    given = executor_input(tmp_path, **parameters)
    assert main(["image_example_gen", "--executor-input", given]) == 1
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "output.json").exists()


def test_the_package_names_what_it_has():
    assert [name for name in ours.kubeflow.__all__ if not hasattr(ours.kubeflow, name)] == []


def test_the_image_may_be_chosen_where_a_pipeline_is_compiled(tmp_path):
    @dsl.container_component
    def theirs():
        return dsl.ContainerSpec(image="example/theirs:1", command=["true"])

    @dsl.pipeline(name="inner")
    def inner(path: str):
        image_example_gen(input_base=path)

    @dsl.pipeline(name="outer")
    def outer():
        inner(path="/photos")
        text_example_gen(input_base="/texts")
        theirs()

    def images(made, image=None):
        with using_image(image) if image else contextlib.nullcontext():
            compiler.Compiler().compile(made, package_path=str(tmp_path / "p.yaml"))
        executors = yaml.safe_load((tmp_path / "p.yaml").read_text())["deploymentSpec"]["executors"]
        return sorted(executor["container"]["image"] for executor in executors.values())

    before = images(outer)
    assert images(outer, "example/it:1") == ["example/it:1", "example/it:1", "example/theirs:1"]
    assert images(outer, "example/it:2") == ["example/it:2", "example/it:2", "example/theirs:1"]
    assert images(shard_balancer, "example/it:3") == ["example/it:3"]
    assert images(theirs, "example/it:3") == ["example/theirs:1"]
    assert images(outer) == before
