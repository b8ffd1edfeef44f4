"""Kubeflow's API tells of the same runs what a store of ML Metadata tells of them."""

from typing import Any

import pytest

from pipelines.lineage import describe_artifact, list_runs
from tests.pipelines.lineage.kubeflow_server import copy_store
from trainer_utils.format import InputError

URIS = {
    "raw": "/runs/ImageExampleGen/examples/1",
    "balanced": "/runs/ShardBalancer/balanced_examples/2",
    "model": "/runs/Trainer/model/3",
}


def facts(told: dict[str, Any]) -> dict[str, Any]:
    """What does not hang on numbers and times, nor on the types' names."""
    uris = {
        node["artifact"]["id"]: node["artifact"]["uri"]
        for node in (told, *told["ancestors"], *told["descendants"])
    }

    def step(made: dict[str, Any]) -> dict[str, Any]:
        ports = {
            side: {name: [uris.get(i) for i in ids] for name, ids in made[side].items()}
            for side in ("inputs", "outputs")
        }
        settings = {n: v for n, v in made["settings"].items() if n != "task_id"}
        return {n: made[n] for n in ("component", "pipeline", "run", "state")} | ports | settings

    def node(told: dict[str, Any]) -> dict[str, Any]:
        names = ("fingerprint", "content", "splits")
        return {n: told[n] for n in names} | {
            "uri": told["artifact"]["uri"],
            "made_by": step(told["made_by"]),
        }

    return {
        **node(told),
        "used_again_by": [step(made) for made in told["used_again_by"]],
        "used_by": [step(made) for made in told["used_by"]],
        "ancestors": [node(one) for one in told["ancestors"]],
        "descendants": [node(one) for one in told["descendants"]],
        "models": [uris[number] for number in told["models"]],
    }


@pytest.mark.parametrize("most_entries", [2, 200])
def test_kubeflow_tells_what_a_store_tells(
    make_store, fill_store, kubeflow, tmp_path, most_entries
):
    store = make_store().store
    fill_store(store, "/runs")
    copy_store(store, kubeflow)
    kubeflow.most_entries = most_entries
    for uri in URIS.values():
        expected = describe_artifact(uri, metadata=str(tmp_path)).to_json()
        assert len(expected["ancestors"]) + len(expected["descendants"]) >= 2
        told = describe_artifact(uri, metadata=kubeflow.address)
        assert facts(told.to_json()) == facts(expected)
        assert told.metadata == kubeflow.address
    listed = [run.to_json() for run in list_runs(str(tmp_path)).runs]
    found = [run.to_json() for run in list_runs(kubeflow.address).runs]
    names = ("run", "pipeline", "state")
    assert [[run[n] for n in names] for run in found] == [[run[n] for n in names] for run in listed]
    assert [[one["component"] for one in run["components"]] for run in found] == [
        [one["component"] for one in run["components"]] for run in listed
    ]


def test_runs_are_told_by_name_and_id_with_their_pipeline_times_and_states(kubeflow):
    version = {"pipeline_id": "p1", "pipeline_version_id": "v1"}
    for run in ("a1", "b2"):  # which share a name
        kubeflow.run(run, display_name="nightly", pipeline_version_reference=version)
    kubeflow.pipelines.append({"pipeline_id": "p1", "display_name": "photos"})
    kubeflow.run("c3", pipeline_version_reference={"pipeline_id": "deleted"})
    kubeflow.task("a1", "root", type="ROOT", state="RUNNING")
    kubeflow.task("a1", "gen", state="CACHED")
    kubeflow.task("a1", "if-large", type="CONDITION")
    kubeflow.task("a1", "balance", state="SKIPPED")
    kubeflow.task("b2", "gen", state="FAILED")
    kubeflow.task("c3", "gen", state="RUNNING", end_time="1970-01-01T00:00:00Z")
    runs = list_runs(kubeflow.address).runs
    assert [(run.name, run.pipeline, run.state) for run in runs] == [
        ("c3", None, "RUNNING"),
        ("nightly (b2)", "photos", "FAILED"),
        ("nightly (a1)", "photos", "COMPLETE"),
    ]
    assert [(e.component, e.state) for e in runs[2].executions] == [
        ("gen", "CACHED"),
        ("balance", "SKIPPED"),
    ]
    assert (runs[2].started, runs[2].ended) == (
        "2026-01-02T00:00:01.500Z",
        "2026-01-02T00:01:03.000Z",
    )
    assert runs[0].ended is None
    assert kubeflow.asked.count("/pipeline/apis/v2beta1/pipelines/p1") == 1


def test_a_run_that_was_deleted_is_told_by_its_id(kubeflow):
    made = kubeflow.artifact("a", "s3://b/examples")
    kubeflow.task("gone", "gen", {}, {"examples": [made]})
    told = describe_artifact("s3://b/examples", metadata=kubeflow.address)
    assert "Made by gen (execution 1) in run gone" in str(told)


def test_a_dataset_is_found_by_its_artifacts_uri_and_by_where_it_lies(kubeflow):
    kept = {"dataset_uri": "/mnt/datasets/1", "spans": "[1, 2]", "display_name": "examples"}
    made = kubeflow.artifact("a", "minio://mlpipeline/1/examples", metadata=kept)
    kubeflow.run("r")
    kubeflow.task("r", "gen", {}, {"examples": [made]}, parameters={"splits": '{"a": 1}', "n": 2})
    by_uri, by_place = (
        describe_artifact(uri, metadata=kubeflow.address).to_json()
        for uri in ("minio://mlpipeline/1/examples/Split-train", "/mnt/datasets/1/Split-train")
    )
    assert by_uri == by_place
    assert by_uri["artifact"]["path"] == "/mnt/datasets/1"
    properties = by_uri["artifact"]["properties"]
    assert (properties["artifact_id"], properties["spans"]) == ("artifact-a", [1, 2])
    assert properties["artifact_uri"] == "minio://mlpipeline/1/examples"
    settings = by_uri["made_by"]["settings"]
    assert settings == {"splits": {"a": 1}, "n": 2, "task_id": "task-r-gen"}


def test_of_several_artifacts_at_one_uri_the_last_that_a_task_made_is_meant(kubeflow):
    first, second, third = (kubeflow.artifact(name, "s3://b/1") for name in "abc")
    kubeflow.run("r")
    kubeflow.task("r", "one", {}, {"out": [first]})
    kubeflow.task("r", "two", {"in": [third]}, {"out": [second]})
    told = describe_artifact("s3://b/1", metadata=kubeflow.address).to_json()
    assert told["artifact"]["properties"]["artifact_id"] == "artifact-b"
    assert told["same_uri"] == [1, 3]
    assert "artifact-c" in str(told["ancestors"])


def test_an_unknown_uri_names_the_newest_artifacts(kubeflow):
    kubeflow.artifact("a", "s3://b/1")
    with pytest.raises(InputError, match=r"'s3://b/2': .* of kfp\+http:.*has 1.*newest: s3://b/1"):
        describe_artifact("s3://b/2", metadata=kubeflow.address)
