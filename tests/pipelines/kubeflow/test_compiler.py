"""The content of compiled packages, and refused pipelines."""

import importlib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp import components
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.kubeflow import compile_pipeline
from tests.e2e.kubeflow import launcher
from tests.make import run_python
from trainer_utils.core.errors import ConfigError

OTHERS = str(launcher.REPOSITORY / "tests/e2e/kubeflow/pipelines_of_others.py")
USUAL = {"image": "example/it:1", "pipeline_root": "minio://mlpipeline/v2"}


def compiled(folder: Path, pipeline: str, **options: Any) -> dict:
    path = folder / "pipeline.yaml"
    compile_pipeline(pipeline, str(path), **{**USUAL, **options})
    return next(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("pipeline", ["image", "text"])
def test_kfp_reads_the_parameters_of_ready_pipelines(tmp_path, pipeline):
    compiled(tmp_path, pipeline)
    text = (tmp_path / "pipeline.yaml").read_bytes()
    compiled(tmp_path, pipeline)
    assert (tmp_path / "pipeline.yaml").read_bytes() == text
    loaded = components.load_component_from_file(str(tmp_path / "pipeline.yaml"))
    inputs = loaded.component_spec.inputs
    assert {name: (spec.type, spec.default) for name, spec in inputs.items()} == {
        "input_base": ("String", None),
        "max_reject_fraction": ("Float", 0.01),
        "num_shards": ("String", ""),
        "target_shard_bytes": ("Integer", 128 << 20),
        "custom_config": ("String", "{}"),
        "train_args": ("String", '{"splits": ["train"]}'),
    }
    assert [name for name, spec in inputs.items() if not spec.optional] == ["input_base"]


def test_package_has_no_feature_unknown_to_kubeflow(tmp_path):
    spec = compiled(tmp_path, "image", name="mine")
    assert (spec["pipelineInfo"]["name"], spec["schemaVersion"]) == ("mine", "2.1.0")
    assert spec["defaultPipelineRoot"] == USUAL["pipeline_root"]
    for component in spec["components"].values():
        for side in ("inputDefinitions", "outputDefinitions"):
            for artifact in component.get(side, {}).get("artifacts", {}).values():
                assert artifact["artifactType"]["schemaTitle"].startswith("system.")
    for executor in spec["deploymentSpec"]["executors"].values():
        assert executor["container"]["image"] == "example/it:1"
        assert set(executor["container"]) == {"image", "command", "args"}
    tasks = compiled(tmp_path, "image", input_fingerprint="none")["root"]["dag"]["tasks"]
    assert "ImageExampleGen-inputs" not in tasks
    assert not tasks["ImageExampleGen"].get("cachingOptions")
    assert tasks["ShardBalancer"]["cachingOptions"] == {"enableCache": True}


def test_example_gen_cache_key_has_the_input_fingerprint(tmp_path):
    volumes = {"ImageExampleGen": {"photos": "/mnt/photos"}}
    spec = compiled(tmp_path, "image", volumes=volumes)
    _, platform = yaml.safe_load_all((tmp_path / "pipeline.yaml").read_text())
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())  # raises for an unknown field
    tasks = spec["root"]["dag"]["tasks"]
    cached = {n: task.get("cachingOptions", {}).get("enableCache") for n, task in tasks.items()}
    assert cached.pop("ImageExampleGen-inputs") is None
    assert set(cached.values()) == {True}
    step, example_gen = tasks["ImageExampleGen-inputs"], tasks["ImageExampleGen"]
    assert example_gen["dependentTasks"] == ["ImageExampleGen-inputs"]
    version = example_gen["inputs"]["parameters"].pop("input_version")
    produced = {"producerTask": "ImageExampleGen-inputs", "outputParameterKey": "fingerprint"}
    assert version == {"taskOutputParameter": produced}
    assert step["inputs"] == example_gen["inputs"]
    mounts = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert mounts["ImageExampleGen-inputs_executor"] == mounts["ImageExampleGen_executor"]


def test_kfp_pipeline_is_compiled_with_the_given_image(tmp_path):
    spec = compiled(tmp_path, f"{OTHERS}:native", image="example/other:2", name="renamed")
    assert spec["pipelineInfo"]["name"] == "renamed"
    assert spec["defaultPipelineRoot"] == USUAL["pipeline_root"]
    executors = spec["deploymentSpec"]["executors"].values()
    assert {executor["container"]["image"] for executor in executors} == {"example/other:2"}


def test_wrong_argument_is_reported_before_tfx_import(tmp_path):
    cases = [
        ("image", {**USUAL, "memory": "lots"}),
        ("image", {**USUAL, "gpu": ["Trainer=x"]}),
        ("image", {"image": USUAL["image"]}),
        ("text", {"pipeline_root": USUAL["pipeline_root"]}),
        ("nowhere.py:create_pipeline", USUAL),
    ]
    program = f"""
import sys
from components.kubeflow import default_image
from pipelines.kubeflow import compile_pipeline
for pipeline, options in {cases!r}:
    try:
        compile_pipeline(pipeline, "p.yaml", **options)
    except ValueError as error:
        print(type(error).__name__, [name for name in ("tfx", "tensorflow") if name in sys.modules])
"""
    done = run_python(program, cwd=tmp_path)
    assert done.stdout == "ConfigError []\n" * len(cases), done.stderr


BAD_FILES = {
    "broken.py": "def f(:\n",
    "raises.py": "raise RuntimeError('not today')\nf = 1\n",
    "empty.py": "value = 3\n",
}


def test_error_names_what_cannot_be_compiled(tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(tmp_path)
    for name, text in BAD_FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pipeline.yaml").write_text("what was there")
    for pipeline, options, setting in (
        ("audio", {}, "pipeline"),
        ("mine.txt:f", {}, "pipeline"),
        ("broken.py:f", {}, "pipeline"),
        ("raises.py:f", {}, "pipeline"),
        ("empty.py:f", {}, "pipeline"),
        ("empty.py:value", {}, "pipeline"),
        (f"{OTHERS}:no_pipeline", {}, "pipeline"),
        (f"{OTHERS}:needs_more", {}, "pipeline"),
        (f"{OTHERS}:badly_named", {}, "name"),
        (f"{OTHERS}:large_seed", {}, "ImageExampleGen, seed"),
        (f"{OTHERS}:latest", {}, "Resolver"),
        (f"{OTHERS}:module_file", {}, "Trainer, module_file"),
        ("image", {"name": "Mine"}, "name"),
        ("image", {"image": "a b"}, "image"),
        ("image", {"pipeline_root": "gs://"}, "pipeline_root"),
        ("image", {"dataset_root": "here"}, "dataset_root"),
        ("image", {"input_fingerprint": "all"}, "input_fingerprint"),
        ("image", {"volumes": {"raw": "mnt"}}, "volumes"),
    ):
        with subtests.test(pipeline=pipeline):
            with pytest.raises(ConfigError) as refused:
                compiled(tmp_path, pipeline, **options)
            assert setting in refused.value.setting, pipeline
    assert (tmp_path / "pipeline.yaml").read_text() == "what was there"
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert len(left) == len(BAD_FILES) + 1


OWN_ERRORS = {
    "native.py": ":FUNCTION is missing. Name it after a colon: native.py:make. "
    "The file defines make, needs_more",
    "native.py:make": "native.py, line 4 (return settings['example']) raised KeyError: 'example'",
    "native.py:maek": "'native.py' has no function 'maek'. Did you mean 'make'?",
    "native.py:value": "'value' in 'native.py' is int, not a function. "
    "Name a function that returns the pipeline",
    "native.py:needs_more": "needs_more() needs settings, but only pipeline_root is passed. "
    "Give the parameter a default",
    "gone.py:make": "there is no file 'gone.py'. Check the path",
    "imge": "expected image, text or PATH.py:FUNCTION. Did you mean 'image'?",
    "broken.py:make": "broken.py, line 1 raised SyntaxError: invalid syntax",
    "raises.py:f": "raises.py, line 1 (raise RuntimeError('not today')) raised RuntimeError: "
    "not today",
}


@pytest.mark.parametrize("pipeline", OWN_ERRORS)
def test_error_in_user_code_is_shown_with_its_line(tmp_path, monkeypatch, pipeline):
    monkeypatch.chdir(tmp_path)
    own = (
        "value = 3\n"
        "def make():\n"
        "    settings = {}\n"
        "    return settings['example']\n"
        "def needs_more(pipeline_root, settings):\n"
        "    pass\n"
    )
    for name, text in {**BAD_FILES, "native.py": own}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as refused:
        compiled(tmp_path, pipeline)
    assert str(refused.value) == f"pipeline {pipeline!r}: {OWN_ERRORS[pipeline]}"


def test_module_file_is_packed_without_the_store(tmp_path, monkeypatch):
    fileio, udf_utils = (
        importlib.import_module(name)
        for name in ("tfx.dsl.io.fileio", "tfx.components.util.udf_utils")
    )
    exists = fileio.exists

    def local_exists(path):
        assert not str(path).startswith("gs://")
        return exists(path)

    monkeypatch.setattr(fileio, "exists", local_exists)
    path, root = tmp_path / "mine.yaml", "gs://no-such-bucket/runs"
    options = {**USUAL, "pipeline_root": root}
    (upload,) = compile_pipeline(f"{OTHERS}:module_file", str(path), **options)
    assert upload.component == "Trainer"
    assert Path(upload.source).parent == tmp_path / "mine-wheels/_wheels"
    with zipfile.ZipFile(upload.source) as wheel:
        assert wheel.read(Path(OTHERS).name) == Path(OTHERS).read_bytes()
    spec = next(yaml.safe_load_all(path.read_text()))
    trainer = spec["root"]["dag"]["tasks"]["Trainer"]["inputs"]["parameters"]
    module = trainer["module_path"]["runtimeValue"]["constant"]
    assert udf_utils.decode_user_module_key(module) == (Path(OTHERS).stem, [upload.target])
    assert upload.target == f"{root}/_wheels/{Path(upload.source).name}"
    (again,) = compile_pipeline(f"{OTHERS}:module_file", str(path), **options)
    assert again == upload
