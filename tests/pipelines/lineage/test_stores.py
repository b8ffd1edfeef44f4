"""Lineage of artifacts and runs from stores of ML Metadata filled by the tests."""

import hashlib
import itertools
import json

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from pipelines.lineage import describe_artifact, list_runs
from pipelines.lineage.lookup import stores_above
from pipelines.lineage.store import open_store
from trainer_utils.core.errors import InputError

BALANCED = "ShardBalancer/balanced_examples/2"


def ids(entries) -> list[int]:
    return [entry["artifact"]["id"] for entry in entries]


def test_artifact_is_shown_with_producers_and_consumers(like_tfx, tmp_path):
    told = describe_artifact(str(tmp_path / BALANCED)).to_json()
    assert json.loads(json.dumps(told)) == told
    made_by, (raw,) = told["made_by"], told["ancestors"]
    assert (told["artifact"]["id"], told["versions"]) == (like_tfx["balanced"], {"tfx": "1.16.0"})
    assert made_by["id"] == like_tfx["ShardBalancer COMPLETE"]  # not the run that used the cache
    names = ("component", "run", "pipeline", "settings", "inputs", "outputs")
    assert [made_by[name] for name in names] == [
        *("ShardBalancer", "2026-01-01", "photos", {"num_shards": {"train": 8}}),
        *({"examples": [like_tfx["raw"]]}, {"balanced_examples": [like_tfx["balanced"]]}),
    ]  # fmt: skip
    assert [e["id"] for e in told["used_again_by"]] == [like_tfx["ShardBalancer CACHED"]]
    settings = {"input_base": "photos/", "output_config": {"a": [1]}, "seed": 7}
    assert (raw["fingerprint"], raw["made_by"]["settings"]) == ("abc", settings)
    raw = describe_artifact(str(tmp_path / "ImageExampleGen/examples/1")).to_json()
    assert ids(raw["descendants"]) == [
        like_tfx[name] for name in ("balanced", "model", "model_run", "second_model")
    ]
    assert raw["models"] == [like_tfx["model"], like_tfx["second_model"]]
    assert [e["id"] for e in raw["used_by"]] == [like_tfx["ShardBalancer COMPLETE"]]
    model = describe_artifact(str(tmp_path / "Trainer/model/6"))
    assert ids(model.to_json()["ancestors"]) == [like_tfx["raw"], like_tfx["balanced"]]


def test_latest_artifact_at_a_uri_is_shown(tmp_path, make_store):
    maker = make_store()
    first, second, imported = (maker.artifact("Model", "/m") for _ in range(3))
    maker.execution("Trainer", outputs={"model": [first]})
    maker.execution("Trainer", outputs={"model": [second]})
    maker.execution("Pusher", {"model": [imported]})
    lineage = describe_artifact("/m", metadata=str(tmp_path))
    assert lineage.artifact.id == second
    assert lineage.to_json()["same_uri"] == [first, imported]
    assert "same uri: artifacts 1, 3" in str(lineage)


def test_deleted_artifacts_and_failed_runs_are_marked(tmp_path, make_store):
    maker = make_store()
    gone = maker.artifact("Examples", "/e", state="DELETED")
    pending = maker.artifact("Model", "/m", state="ABANDONED")
    failed = maker.execution(
        "Trainer",
        {"examples": [gone]},
        {"model": [pending]},
        state="FAILED",
        output_event=mlmd.Event.PENDING_OUTPUT,
    )
    lineage = describe_artifact("/e", metadata=str(tmp_path))
    assert str(lineage).startswith("Examples 1 (DELETED)  /e\n")
    assert [e["id"] for e in lineage.to_json()["used_by"]] == [failed]
    assert lineage.to_json()["descendants"] == []
    assert "└── Trainer (execution 1, FAILED)" in str(lineage)


def test_a_damaged_manifest_does_not_hide_the_lineage(tmp_path, make_store):
    (tmp_path / "e").mkdir()
    (tmp_path / "e/manifest.json").write_bytes(b"\xff")
    made = make_store().artifact("Examples", str(tmp_path / "e"))
    assert describe_artifact(str(tmp_path / "e")).artifact.id == made


def test_runs_are_listed_latest_first_with_components(like_tfx, tmp_path):
    runs = list_runs(str(tmp_path)).to_json()["runs"]
    assert [(run["run"], run["pipeline"], run["state"]) for run in runs] == [
        ("2026-02-01", "photos", "COMPLETE"),
        ("2026-01-01", "photos", "COMPLETE"),
    ]
    assert [(c["component"], c["state"]) for c in runs[0]["components"]] == [
        ("ImageExampleGen", "CACHED"),
        ("ShardBalancer", "CACHED"),
        ("Trainer", "COMPLETE"),
    ]
    text = str(list_runs(str(tmp_path))).split("\n")
    assert (text[1], len(text)) == ("  ImageExampleGen (execution 4): CACHED", 8)
    assert runs[1]["components"][2]["outputs"] == {
        "model": [like_tfx["model"]],
        "model_run": [like_tfx["model_run"]],
    }


def test_state_of_a_run_combines_its_components(tmp_path, make_store):
    maker = make_store()
    expected = {}
    for number, (states, state) in enumerate(
        (
            (["COMPLETE", "CACHED"], "COMPLETE"),
            (["COMPLETE", "FAILED", "RUNNING"], "FAILED"),
            (["COMPLETE", "NEW"], "RUNNING"),
            (["COMPLETE", "CANCELED"], "CANCELED"),
            (["COMPLETE", "UNKNOWN"], "UNKNOWN"),
        )
    ):
        expected[f"run {number}"] = state
        run = maker.context("pipeline_run", f"run {number}")
        for each in states:
            maker.execution("Step", contexts=[run], state=each)
    runs = list_runs(str(tmp_path)).to_json()["runs"]
    assert {run["run"]: run["state"] for run in runs} == expected


def test_artifact_is_found_by_any_spelling_or_a_file_in_it(
    like_tfx, tmp_path, monkeypatch, subtests
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / BALANCED / "Split-train").mkdir(parents=True)
    (tmp_path / BALANCED / "manifest.json").write_text("{}")
    for spelling in (
        f"{tmp_path / BALANCED}/",
        f"{tmp_path}/ShardBalancer/../{BALANCED}",
        BALANCED,
        f"{BALANCED}/Split-train/data_tfrecord-00000-of-00001",
        f"{tmp_path / BALANCED}/manifest.json",
    ):
        with subtests.test(spelling=spelling):
            assert describe_artifact(spelling).artifact.id == like_tfx["balanced"], spelling


def test_remote_datasets_are_searched(tmp_path, make_store, write_dataset, in_memory):
    write_dataset(tmp_path / "e", {"train": [[{"filename": [b"a"]}]]}, {})
    uri = in_memory(tmp_path / "e", "lineage/e")
    make_store().artifact("Examples", uri)
    told = describe_artifact(uri, metadata=str(tmp_path), record="a").to_json()
    assert told["splits"]["train"]["written"] == 1
    assert told["record"]["steps"][0]["outcome"] == "found"


def test_missing_file_is_an_error_and_not_created(tmp_path):
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(InputError, match=r"missing\.sqlite.*no such file"):
        list_runs(str(missing))
    with pytest.raises(InputError, match=r"metadata\.sqlite.*no such file"):
        list_runs(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_reading_changes_nothing_and_allows_writers(like_tfx, tmp_path, make_store):
    path = tmp_path / "metadata.sqlite"
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns
    list_runs(str(path))
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.sqlite"]
    writer = make_store()
    with open_store(str(path)) as one, open_store(str(path)) as other:
        writer.artifact("Model", "/new")
        assert len(one.get_artifacts()) == len(other.get_artifacts()) == 6


def test_the_nearest_store_above_comes_first(tmp_path, monkeypatch):
    folder = tmp_path / "runs/artifacts/Gen/examples/1"
    folder.mkdir(parents=True)
    near, far = tmp_path / "runs/metadata.sqlite", tmp_path / "metadata.sqlite"
    far.touch()
    assert next(stores_above(str(folder))) == str(far)
    near.touch()
    assert list(itertools.islice(stores_above(str(folder)), 2)) == [str(near), str(far)]
    monkeypatch.chdir(folder)
    assert next(stores_above("../..")) == str(near)
