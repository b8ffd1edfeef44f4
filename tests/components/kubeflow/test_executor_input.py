"""The launcher's JSON, read and answered."""

import json

import pytest
from google.protobuf import json_format
from kfp.local.executor_output_utils import get_outputs_for_task
from kfp.local.placeholder_utils import resolve_io_placeholders
from kfp.pipeline_spec import pipeline_spec_pb2

from components.kubeflow.executor_input import (
    ExecutorInput,
    parse_paths,
    plain_metadata,
    short_metadata,
)
from tests.e2e.kubeflow.launcher import Pod, placeholders
from trainer_utils.format import ConfigError

GIVEN = {
    "inputs": {
        "parameterValues": {"seed": 7.0, "fraction": 0.5, "shards": {"a": [3.0]}, "on": True},
        "artifacts": {
            "examples": {
                "artifacts": [
                    {
                        "name": "3",
                        "uri": "minio://b/examples",
                        "type": {"instanceSchema": ""},
                        "metadata": {"splits": {"list": ["train"]}, "display_name": "examples"},
                    }
                ]
            },
            "statistics": {"artifacts": []},
        },
    },
    "outputs": {
        "artifacts": {"schema": {"artifacts": [{"uri": "minio://b/schema"}]}},
        "outputFile": "/tmp/kfp_outputs/output_metadata.json",
    },
}


def test_an_executor_input_is_read():
    json_format.ParseDict(GIVEN, pipeline_spec_pb2.ExecutorInput())  # it is one
    paths = {("inputs", "examples"): "/minio/b/examples"}
    step = ExecutorInput.parse(json.dumps(GIVEN), paths=paths)
    assert step.parameters == {"seed": 7, "fraction": 0.5, "shards": {"a": [3]}, "on": True}
    assert isinstance(step.parameters["seed"], int)
    assert isinstance(step.parameters["shards"]["a"][0], int)
    assert set(step.inputs) == {"examples"}
    assert step.inputs["examples"].path == "/minio/b/examples"
    assert step.inputs["examples"].metadata == {"splits": ["train"]}
    assert step.outputs["schema"].uri == "minio://b/schema"


def test_the_answer_is_an_executor_output_with_the_names_and_uris_that_were_given(tmp_path):
    given = json.loads(json.dumps(GIVEN))
    given["outputs"]["outputFile"] = str(tmp_path / "deep/output_metadata.json")
    step = ExecutorInput.parse(json.dumps(given), paths={})
    step.write_output({"schema": {"num_features": 3, "splits": ["train"]}})
    text = (tmp_path / "deep/output_metadata.json").read_text()
    output = json_format.Parse(text, pipeline_spec_pb2.ExecutorOutput())
    (artifact,) = output.artifacts["schema"].artifacts
    assert (artifact.name, artifact.uri) == ("schema", "minio://b/schema")
    assert dict(artifact.metadata)["num_features"] == 3
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["output_metadata.json"]


def test_kfp_local_finds_each_output(tmp_path):
    (output,) = given_outputs = {"schema"}
    document = json.loads(json.dumps(GIVEN))
    document["outputs"]["artifacts"][output]["artifacts"][0] |= {
        "name": output,
        "uri": str(tmp_path / output),
        "type": {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"},
    }
    document["outputs"] |= {
        "outputFile": str(tmp_path / "output.json"),
        "parameters": {"fingerprint": {"outputFile": str(tmp_path / "deep/fingerprint")}},
    }
    step = ExecutorInput.parse(json.dumps(document), paths={})
    step.write_output({output: {"num_features": 3}})
    step.write_parameter("fingerprint", "5f")
    component = pipeline_spec_pb2.ComponentSpec()
    component.output_definitions.artifacts[output].artifact_type.schema_title = "system.Artifact"
    kind = pipeline_spec_pb2.ParameterType.STRING
    component.output_definitions.parameters["fingerprint"].parameter_type = kind
    found = get_outputs_for_task(
        json_format.ParseDict(document, pipeline_spec_pb2.ExecutorInput()), component
    )
    assert {*found} == {*given_outputs, "fingerprint"}
    assert found["fingerprint"] == "5f"
    assert (found[output].name, found[output].uri) == (output, str(tmp_path / output))
    assert found[output].metadata == {"num_features": 3}


def test_long_texts_are_left_out_since_a_next_step_gets_them_as_an_argument():
    vocabulary = json.dumps([f"label {n}" for n in range(1000)])
    assert short_metadata({"vocabulary_label": vocabulary, "a": "b", "n": 10**9}) == {
        "a": "b",
        "n": 10**9,
    }


@pytest.mark.parametrize("text", ["{{$}}", "[]", '{"inputs": {}}', '{"outputs": {}}', "null"])
def test_what_is_no_executor_input_is_shown(text):
    with pytest.raises(ConfigError, match="executor input: expected the JSON") as raised:
        ExecutorInput.parse(text, paths={})
    assert repr(text) in str(raised.value)


def test_a_number_that_float64_does_not_hold_is_refused():
    given = {"inputs": {"parameterValues": {"seed": 2.0**60}}, "outputs": {"outputFile": "x"}}
    with pytest.raises(ConfigError, match=r"below 2\^53.* got 1\.15"):
        ExecutorInput.parse(json.dumps(given), paths={})


def test_the_placeholder_of_an_input_that_is_not_given_is_left_out():
    unfilled = "{{$.inputs.artifacts['source'].path}}"
    given = [("inputs", "source", unfilled), ("outputs", "examples", "/minio/b/x")]
    assert parse_paths(given) == {("outputs", "examples"): "/minio/b/x"}


def test_metadata_comes_back_as_it_was_given():
    kept = {"a": {"struct": {"b": 1}}, "c": {"list": [1]}, "d": {"list": 1, "e": 2}, "f": "g"}
    assert plain_metadata(kept) == {"a": {"b": 1}, "c": [1], "d": {"list": 1, "e": 2}, "f": "g"}


@pytest.mark.parametrize(
    "text",
    [
        "{{$.inputs.parameters['fraction']}}",
        "--shards={{$.inputs.parameters['shards']}}",
        "{{$.inputs.artifacts['examples'].uri}}",
        "a {{$.outputs.artifacts['schema'].uri}} b",
    ],
)
def test_the_launcher_of_the_tests_fills_placeholders_as_kfp_does(text, tmp_path):
    given = json.loads(json.dumps(GIVEN))
    del given["inputs"]["artifacts"]["statistics"]
    given["outputs"]["parameters"] = {}
    filled = text
    for placeholder, value in placeholders(given, Pod(tmp_path)).items():
        filled = filled.replace(placeholder, value)
    assert filled == resolve_io_placeholders(given, text)
