"""What becomes a part of the key of Kubeflow's cache."""

import copy
import json
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from components.kubeflow.run import main as run_native
from components.kubeflow.tfx_step import main as run_tfx
from pipelines.kubeflow.cache_keys import add_environments, add_input_fingerprints, cached_tasks
from trainer_utils.format import ConfigError

GEN = "components.image_example_gen.component.Executor"


def package(executor: str = GEN) -> list[dict[str, Any]]:
    """An ExampleGen, a step of its examples, and one of somebody else's."""
    env = [{"name": "A", "value": "1"}]
    step = ["python", "-m", "components.kubeflow.tfx_step"]
    arguments = ["--types", "{}", "--", "--executor_class_path", executor]
    executors = {
        "gen": {"container": {"image": "i", "command": step, "args": arguments, "env": env}},
        "next": {"container": {"image": "i", "command": step, "args": ["--types", "{}", "--"]}},
        "theirs": {"container": {"image": "i", "command": ["cat"], "env": env}},
    }
    components: dict[str, Any] = {f"c-{label}": {"executorLabel": label} for label in executors}
    parameters = {"input_base": {"parameterType": "STRING"}}
    components["c-gen"]["inputDefinitions"] = {"parameters": parameters}
    tasks: dict[str, Any] = {
        name: {"componentRef": {"name": f"c-{name}"}, "cachingOptions": {"enableCache": True}}
        for name in executors
    }
    given = {"input_base": {"runtimeValue": {"constant": "/photos"}}}
    tasks["gen"] |= {"inputs": {"parameters": given}, "retryPolicy": {"maxRetryCount": 2}}
    spec = {
        "root": {"dag": {"tasks": tasks}},
        "components": components,
        "deploymentSpec": {"executors": executors},
    }
    kubernetes = {"deploymentSpec": {"executors": {"gen": {"pvcMount": [{"mountPath": "/p"}]}}}}
    return [spec, {"platforms": {"kubernetes": kubernetes}}]


def test_a_step_before_an_example_gen_reads_what_it_reads_and_gives_its_version():
    documents = package()
    before = copy.deepcopy(documents)
    spec, platform = add_input_fingerprints(documents, ["gen", "next"], mode="contents")
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())  # Kubeflow knows each field
    assert documents == before
    tasks, executors = spec["root"]["dag"]["tasks"], spec["deploymentSpec"]["executors"]
    assert set(tasks) == {"gen", "next", "theirs", "gen-inputs"}
    assert tasks["gen"]["dependentTasks"] == ["gen-inputs"]
    assert tasks["gen"]["inputs"]["parameters"]["input_version"] == {
        "taskOutputParameter": {
            "producerTask": "gen-inputs",
            "outputParameterKey": "fingerprint",
        }
    }
    step = tasks["gen-inputs"]
    assert step["inputs"]["parameters"] == {
        "input_base": {"runtimeValue": {"constant": "/photos"}},
        "component": {"runtimeValue": {"constant": "image"}},
        "contents": {"runtimeValue": {"constant": True}},
    }
    assert "cachingOptions" not in step
    label = spec["components"]["gen-inputs"]["executorLabel"]
    container = executors[label]["container"]
    assert (container["image"], container["env"]) == ("i", [{"name": "A", "value": "1"}])
    mounts = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert mounts[label] == mounts["gen"]


@pytest.mark.parametrize(
    ("executor", "tasks", "mode"),
    [
        (GEN, ["gen"], "none"),
        (GEN, [], "listing"),
        ("tfx.components.example_gen.csv_example_gen.executor.Executor", ["gen"], "listing"),
    ],
)
def test_others_stay_as_they_are(executor, tasks, mode):
    assert add_input_fingerprints(package(executor), tasks, mode=mode) == package(executor)


def test_only_what_its_pipeline_wants_cached_is():
    spec, _ = package()
    del spec["root"]["dag"]["tasks"]["next"]["cachingOptions"]
    spec["root"]["dag"]["tasks"]["theirs"]["cachingOptions"] = {}
    assert cached_tasks(spec) == ["gen"]


def test_another_value_of_a_variable_is_another_command():
    def commands(value: str) -> dict[str, list[str]]:
        documents = package()
        executors = documents[0]["deploymentSpec"]["executors"]
        for executor in executors.values():
            if "env" in executor["container"]:
                executor["container"]["env"] = [{"name": "A", "value": value}]
        executors = add_environments(documents)[0]["deploymentSpec"]["executors"]
        return {label: one["container"].get("args", []) for label, one in executors.items()}

    assert commands("1") == commands("1")
    differ = {label for label, args in commands("1").items() if args != commands("2")[label]}
    assert differ == {"gen"}
    assert (
        commands("1")["gen"][2:]
        == package()[0]["deploymentSpec"]["executors"]["gen"]["container"]["args"]
    ), "TFX's own arguments stay behind `--`"


def secret(variable: str, *, name: str = "hub", key: str = "token") -> dict[str, Any]:
    """A variable of a secret, as the part for Kubernetes has it."""
    return {"secretName": name, "keyToEnv": [{"secretKey": key, "envVar": variable}]}


def test_every_way_in_which_a_variable_is_set_counts(tmp_path):
    """Of native steps and of TFX's, for all steps or one; an order that says nothing does not."""
    from pipelines.kubeflow import compile_pipeline

    (tmp_path / "native.py").write_text(
        "from kfp import dsl\n"
        "from components import kubeflow\n"
        "@dsl.pipeline(name='p')\n"
        "def pipeline():\n"
        "    kubeflow.image_example_gen(input_base='/photos', input_version='1')\n"
    )

    def command(**options: Any) -> list[str]:
        package = tmp_path / "p.yaml"
        usual = {"image": "i:1", "pipeline_root": "gs://b"}
        compile_pipeline(f"{tmp_path / 'native.py'}:pipeline", str(package), **usual, **options)
        spec = next(yaml.safe_load_all(package.read_text()))
        (executor,) = spec["deploymentSpec"]["executors"].values()
        return executor["container"]["args"]

    variants = [
        {},
        {"env": {"A": "1"}},
        {"env": {"A": "2"}},
        {"env": {"B": "1"}},
        {"env": {"A": "1", "B": "1"}},
        {"secrets": "hub:token:A"},
        {"secrets": "hub:other:A"},
        {"secrets": "hub:token:A", "env": {"B": "1"}},
    ]
    found = [json.dumps(command(**options)) for options in variants]
    assert len({*found}) == len(variants)
    assert command(env={"B": "1", "A": "1"}) == command(env={"A": "1", "B": "1"})


def test_a_variable_of_a_secret_counts_by_its_name_for_our_steps_alone():
    def commands(*variables: dict[str, Any]) -> dict[str, list[str]]:
        spec, platform = package()
        executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        executors |= {label: {"secretAsEnv": [*variables]} for label in ("gen", "theirs")}
        found = add_environments([spec, platform])[0]["deploymentSpec"]["executors"]
        return {label: one["container"].get("args", []) for label, one in found.items()}

    one, other, another = (
        commands(secret("A")),
        commands(secret("B")),
        commands(secret("A", name="other")),
    )
    assert len({json.dumps(each["gen"]) for each in (one, other, another, commands())}) == 4
    assert one["theirs"] == other["theirs"] == another["theirs"]


def test_our_commands_take_the_argument(capsys):
    arguments = ["shard_balancer", "--executor-input", "{}", "--environment", "5f"]
    assert run_native(arguments) == 1
    assert "executor input: expected the JSON" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_tfx(["--types", "{}", "--environment", "5f", "--"])
    assert "--executor_class_path" in capsys.readouterr().err


def test_a_mode_that_there_is_not_is_refused(tmp_path):
    from pipelines.kubeflow import compile_pipeline

    usual = {"image": "i:1", "pipeline_root": "gs://b"}
    with pytest.raises(ConfigError, match=r"input_fingerprint: expected one of .* 'all'"):
        compile_pipeline("image", str(tmp_path / "p.yaml"), **usual, input_fingerprint="all")
