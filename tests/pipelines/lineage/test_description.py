"""What is told of an artifact, against stores that were made by hand."""

import json

from ml_metadata.proto import metadata_store_pb2 as mlmd

from pipelines.lineage import describe_artifact

BALANCED = "ShardBalancer/balanced_examples/2"


def ids(entries) -> list[int]:
    return [entry["artifact"]["id"] for entry in entries]


def test_an_artifact_is_told_with_what_made_it_and_what_came_of_it(like_tfx, tmp_path):
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


def test_of_several_artifacts_at_one_uri_the_last_that_was_made_is_told(tmp_path, make_store):
    maker = make_store()
    first, second, imported = (maker.artifact("Model", "/m") for _ in range(3))
    maker.execution("Trainer", outputs={"model": [first]})
    maker.execution("Trainer", outputs={"model": [second]})
    maker.execution("Pusher", {"model": [imported]})
    lineage = describe_artifact("/m", metadata=str(tmp_path))
    assert lineage.artifact.id == second
    assert lineage.to_json()["same_uri"] == [first, imported]
    assert "same uri: artifacts 1, 3" in str(lineage)


def test_deleted_artifacts_and_failed_runs_are_told_as_such(tmp_path, make_store):
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
