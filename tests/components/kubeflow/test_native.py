"""Test the `kfp.dsl` components as users see them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kfp import compiler, components, dsl

from components import kubeflow
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.kubeflow import (
    dataset_audit,
    image_example_gen,
    input_fingerprint,
    schema_export,
    shard_balancer,
    text_example_gen,
)
from components.kubeflow.input_state import fingerprint_inputs
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from tests.make import REPOSITORY, refusing, run_python
from trainer_utils.core.settings import settings_of

OURS = [name for name in kubeflow.__all__ if name != "default_image"]
SETTINGS = {
    "audio_example_gen": AudioSettings,
    "dataset_audit": AuditSettings,
    "dataset_report": DatasetReportSettings,
    "image_example_gen": ImageSettings,
    "schema_export": SchemaExportSettings,
    "shard_balancer": BalancerSettings,
    "text_example_gen": TextSettings,
}


def test_each_setting_is_a_parameter_with_its_default(subtests):
    empty = {"String": "", "Integer": 0, "Double": 0.0, "Boolean": False}
    for name, settings in SETTINGS.items():
        with subtests.test(name=name):
            inputs = getattr(kubeflow, name).component_spec.inputs
            for setting, one in settings_of(settings).items():
                given = inputs[setting]
                wanted = empty.get(given.type) if one.default is None else one.default
                assert given.default == (type(given.default)(wanted)), setting


def test_pipeline_compiles_without_tensorflow(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from kfp import dsl\n"
        "from components import kubeflow\n"
        "@dsl.pipeline(name='p')\n"
        "def pipeline():\n"
        "    kubeflow.shard_balancer(examples=kubeflow.image_example_gen(\n"
        "        input_base='/photos', input_version='1').outputs['examples'])\n"
    )
    code = (
        "import importlib.util, sys\n"
        "missing = ('tensorflow', 'tfx', 'apache_beam', 'ml_metadata', 'scipy', 'gcsfs',\n"
        "           'tensorflow_data_validation')\n"
        "sys.modules.update(dict.fromkeys(missing))  # an ImportError for whoever imports one\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n in missing else found(n, *a)\n"
        "from pipelines.cli import main\n"
        "main(['compile', sys.argv[1], '-o', sys.argv[2], '--image', 'i:1',\n"
        "      '--pipeline-root', 'minio://b', '--env', 'LOG_LEVEL=debug'])"
    )
    finished = run_python(code, f"{tmp_path / 'mine.py'}:pipeline", tmp_path / "p.yaml")
    assert finished.returncode == 0, finished.stderr
    assert "LOG_LEVEL" in (tmp_path / "p.yaml").read_text()


@pytest.fixture
def local_runner(tmp_path, monkeypatch) -> None:
    """Make kfp.local run components as processes, as the image would."""
    from kfp import local
    from kfp.local import config

    monkeypatch.setattr(config.LocalExecutionConfig, "instance", None)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "runs"))


@pytest.mark.filterwarnings("ignore:You may be attemping:RuntimeWarning")
def test_kfp_local_runs_a_component(local_runner, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jpg").write_bytes(b"1")
    task = input_fingerprint(input_base=str(tmp_path / "in"))
    assert task.output == fingerprint_inputs(str(tmp_path / "in"))


def compiled(function, folder: Path) -> dict:
    compiler.Compiler().compile(dsl.pipeline(function, name="p"), str(folder / "p.yaml"))
    return yaml.safe_load((folder / "p.yaml").read_text())


def test_components_round_trip_and_have_the_default_image(tmp_path, monkeypatch, subtests):
    package = str(tmp_path / "component.yaml")
    for name in OURS:
        with subtests.test(name=name):
            component = getattr(kubeflow, name)
            compiler.Compiler().compile(component, package)
            loaded = components.load_component_from_file(package)
            assert {n: (i.type, i.default) for n, i in loaded.component_spec.inputs.items()} == {
                n: (i.type, i.default) for n, i in component.component_spec.inputs.items()
            }
            spec = yaml.safe_load(Path(package).read_text())
            (executor,) = spec["deploymentSpec"]["executors"].values()
            assert executor["container"]["image"] == kubeflow.default_image()
    monkeypatch.setenv("TFX_SHARDS_IMAGE", "example/three:3")
    assert kubeflow.default_image() == "example/three:3"


def test_readers_of_raw_data_are_cached_only_with_a_version(tmp_path):
    def reading(version: str):
        image_example_gen(input_base="/photos")
        text_example_gen(input_base="/texts", input_version=version)
        found = input_fingerprint(input_base="/photos").output
        examples = image_example_gen(input_base="/photos", input_version=found).outputs["examples"]
        shard_balancer(examples=examples)
        shard_balancer(examples=examples, exclude="/names.txt")

    tasks = compiled(reading, tmp_path)["root"]["dag"]["tasks"]
    assert {name: task["cachingOptions"].get("enableCache") for name, task in tasks.items()} == {
        "image-example-gen": None,
        "image-example-gen-2": True,
        "input-fingerprint": None,
        "shard-balancer": True,
        "shard-balancer-2": None,
        "text-example-gen": True,
    }


def test_audit_gates_the_steps_after_it(tmp_path):
    def gated():
        examples = image_example_gen(input_base="/photos").outputs["examples"]
        strict = dataset_audit(examples=examples, fail_on=["leakage"])
        schema_export(examples=examples).after(strict)
        lenient = dataset_audit(examples=examples)
        with dsl.If(lenient.outputs["num_findings"] == 0):
            shard_balancer(examples=examples)

    root = compiled(gated, tmp_path)["root"]["dag"]["tasks"]
    assert root["schema-export"]["dependentTasks"] == ["dataset-audit", "image-example-gen"]
    inputs = root["dataset-audit"]["inputs"]["parameters"]
    assert inputs["fail_on"]["runtimeValue"]["constant"] == ["leakage"]
    (name,) = (name for name in root if name.startswith("condition"))
    condition = root[name]["triggerPolicy"]["condition"]
    assert "num_findings']) == 0" in condition


def test_wrong_setting_raises_with_its_name(subtests):
    from components.kubeflow.run import run_step

    inputs = image_example_gen.component_spec.inputs
    defaults = {name: one.default for name, one in inputs.items()}
    for given, setting in (
        ({}, "input_base"),
        ({"input_base": "/x", "source": SimpleNamespace(path="/y")}, "input_base"),
        ({"input_base": "/x", "layout": "zip"}, "layout"),
        ({"input_base": "/x", "seed": 2.0**60}, "seed"),
        ({"input_base": "/x", "splits": {"a": 0.5}}, "splits"),
    ):
        with subtests.test(given=given):
            if "splits" in given:
                pytest.importorskip("tfx", reason="it makes the split's configuration")
            with refusing(setting):
                run_step("image_example_gen", {**defaults, "examples": None, **given})
