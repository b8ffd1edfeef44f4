"""What is told of an artifact, against stores that were made by hand."""

import datetime
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import struct_pb2
from ml_metadata.proto import metadata_store_pb2 as mlmd

from pipelines.lineage import describe_artifact

BALANCED = "ShardBalancer/balanced_examples/2"

REPOSITORY = Path(__file__).parents[3]


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


# Stores of others, with little in them ------------------------------------------------------------


def test_an_artifact_without_anything_is_told(tmp_path, make_store):
    made = make_store().artifact("Thing", "/thing", state="UNKNOWN")
    told = describe_artifact("/thing", metadata=str(tmp_path))
    assert told.to_json()["artifact"]["id"] == made
    assert told.to_json()["made_by"] is None
    assert "Made by nothing that this store knows of" in str(told)
    assert "Made from\n  nothing" in str(told)


def test_executions_without_contexts_names_or_ports_are_told_by_their_type(tmp_path, make_store):
    maker = make_store()
    source, made = maker.artifact("DataSet"), maker.artifact("SavedModel", "/m", name="mine")
    maker.execution("my.Train", {"": [source]}, {"": [made]}, state="UNKNOWN")
    lineage = describe_artifact("/m", metadata=str(tmp_path))
    assert lineage.to_json()["made_by"]["component"] == "Train"
    assert lineage.to_json()["made_by"]["run"] is None
    assert "Made by Train (execution 1, UNKNOWN)\n" in str(lineage)
    assert "SavedModel 2 'mine'  /m" in str(lineage)
    assert "└── DataSet 1  without a uri" in str(lineage)


def test_kubeflows_own_contexts_and_names_are_known(tmp_path, make_store):
    maker = make_store()
    contexts = [maker.context("system.Pipeline", "p"), maker.context("system.PipelineRun", "r-1")]
    made = maker.artifact("system.Model", "/m", display_name="model")
    maker.execution(
        "system.ContainerExecution",
        outputs={"model": [made]},
        contexts=contexts,
        display_name="train",
    )
    lineage = describe_artifact("/m", metadata=str(tmp_path))
    assert "Made by train (execution 1) in run r-1 of p" in str(lineage)


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


def test_what_is_reached_on_two_ways_is_told_once(tmp_path, make_store):
    maker = make_store()
    examples, schema, model = (
        maker.artifact(kind, f"/{kind}") for kind in ("Examples", "Schema", "Model")
    )
    maker.execution("SchemaGen", {"examples": [examples]}, {"schema": [schema]})
    maker.execution("Trainer", {"examples": [examples], "schema": [schema]}, {"model": [model]})
    back = describe_artifact("/Model", metadata=str(tmp_path))
    assert ids(back.to_json()["ancestors"]) == [examples, schema]
    assert str(back).count("Examples 1  /Examples") == 2
    assert str(back).count("(see above)") == 1
    forth = describe_artifact("/Examples", metadata=str(tmp_path))
    assert ids(forth.to_json()["descendants"]) == [schema, model]


def test_a_circle_comes_to_an_end(tmp_path, make_store):
    maker = make_store()
    one, other = maker.artifact("A", "/a"), maker.artifact("B", "/b")
    maker.execution("Forth", {"x": [one]}, {"y": [other]})
    maker.execution("Back", {"y": [other]}, {"x": [one]})
    maker.execution("Same", {"y": [other]}, {"y": [other]})
    lineage = describe_artifact("/a", metadata=str(tmp_path))
    assert ids(lineage.to_json()["ancestors"]) == [other]
    assert ids(lineage.to_json()["descendants"]) == [other]
    assert "(see above)" in str(lineage)


def test_a_long_chain_is_followed_to_its_end(tmp_path, make_store):
    maker = make_store()
    chain = [maker.artifact("Model", f"/e/{number}") for number in range(300)]
    for one, next_one in itertools.pairwise(chain):
        maker.execution("Train", {"base_model": [one]}, {"model": [next_one]})
    lineage = describe_artifact("/e/150", metadata=str(tmp_path))
    assert ids(lineage.to_json()["ancestors"]) == chain[:150]
    assert ids(lineage.to_json()["descendants"]) == chain[151:]
    assert "Model 201  /e/200\n" in str(lineage)  # 50 levels
    assert str(lineage).count("ask for the lineage of that artifact") == 2


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]"])
def test_a_damaged_manifest_does_not_hide_the_lineage(tmp_path, make_store, content):
    (tmp_path / "e").mkdir()
    (tmp_path / "e/manifest.json").write_bytes(content)
    made = make_store().artifact("Examples", str(tmp_path / "e"))
    assert describe_artifact(str(tmp_path / "e")).artifact.id == made


def test_neither_tfx_nor_tensorflow_is_imported(like_tfx, tmp_path, write_dataset):
    write_dataset(tmp_path / BALANCED, {"train": [[{"filename": [b"a"]}]]}, {})
    code = (
        "import sys; from pipelines.lineage import describe_artifact, list_runs\n"
        f"str(describe_artifact({str(tmp_path / BALANCED)!r}, record='a'))\n"
        f"str(list_runs({str(tmp_path)!r}))\n"
        "print([n for n in ('tfx', 'tensorflow', 'apache_beam', 'tfx_bsl') if n in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize("table", ["Artifact", "Execution", "Event"])
def test_rows_that_were_deleted_are_left_out_and_the_rest_is_told(tmp_path, make_store, table):
    maker = make_store()
    first, second, third = (maker.artifact("Examples", f"/{name}") for name in "abc")
    maker.execution("One", {"x": [first]}, {"y": [second]})
    maker.execution("Two", {"x": [second]}, {"y": [third]})
    column = "execution_id" if table == "Event" else "id"
    with sqlite3.connect(tmp_path / "metadata.sqlite") as store:
        store.execute(f"DELETE FROM {table} WHERE {column} = 1")
    lineage = describe_artifact("/c", metadata=str(tmp_path))
    assert second in ids(lineage.to_json()["ancestors"])
    assert first not in ids(lineage.to_json()["ancestors"])
    assert "Made by Two" in str(lineage)


def test_what_a_store_no_longer_has_is_told_by_its_number(tmp_path, make_store):
    maker = make_store()
    first, second = maker.artifact("Examples", "/a"), maker.artifact("Examples", "/b")
    maker.execution("One", {"x": [first]}, {"y": [second]})
    with sqlite3.connect(tmp_path / "metadata.sqlite") as store:
        store.execute("DELETE FROM Artifact WHERE id = 1")
    text = str(describe_artifact("/b", metadata=str(tmp_path)))
    assert "x: artifact 1, which the store no longer has" in text


def test_the_text_is_a_tree(like_tfx, tmp_path):
    text = str(describe_artifact(str(tmp_path / BALANCED)))
    assert text == "\n".join(
        [
            f"Examples 2  {tmp_path}/{BALANCED}",
            f"  made {describe_artifact(str(tmp_path / BALANCED)).artifact.created}",
            "  versions: tfx=1.16.0",
            "",
            "Made by ShardBalancer (execution 2) in run 2026-01-01 of photos",
            *[line for line in text.split("\n") if line.startswith("  started ")],
            '  settings: num_shards={"train": 8}',
            "  used again by ShardBalancer (execution 5, CACHED) in run 2026-02-01 of photos",
            "",
            "Made from",
            f"└── examples: Examples 1  {tmp_path}/ImageExampleGen/examples/1",
            "    fingerprint of the inputs abc",
            "    by ImageExampleGen (execution 1) in run 2026-01-01 of photos",
            '    settings: input_base=photos/, output_config={"a": [1]}, seed=7',
            "    └── files in photos/",
            "",
            "Made of it",
            "├── Trainer (execution 3) in run 2026-01-01 of photos",
            f"│   ├── model: Model 3  {tmp_path}/Trainer/model/3",
            f"│   └── model_run: ModelRun 4  {tmp_path}/Trainer/model_run/3",
            "└── Trainer (execution 6) in run 2026-02-01 of photos",
            f"    └── model: Model 5  {tmp_path}/Trainer/model/6",
            "",
            "Models that came of it",
            f"  Model 3  {tmp_path}/Trainer/model/3",
            f"  Model 5  {tmp_path}/Trainer/model/6",
        ]
    )


def test_properties_of_every_kind_are_plain_json(tmp_path, make_store):
    struct = struct_pb2.Struct()
    struct.update({"a": [1, "b"], "c": None})
    maker = make_store()
    made = maker.artifact("Thing", "/t", n=3, x=0.5, json='{"k": [1]}', text="[no json", __a__="-")
    (node,) = maker.store.get_artifacts_by_id([made])
    node.custom_properties["struct"].struct_value.CopyFrom(struct)
    maker.store.put_artifacts([node])
    artifact = describe_artifact("/t", metadata=str(tmp_path)).artifact
    assert artifact.properties == {
        "json": {"k": [1]},
        "n": 3,
        "struct": {"a": [1.0, "b"], "c": None},
        "text": "[no json",
        "x": 0.5,
    }
    moment = datetime.datetime.strptime(artifact.created, "%Y-%m-%dT%H:%M:%S.%f%z")
    (node,) = maker.store.get_artifacts_by_id([made])
    assert round(moment.timestamp() * 1000) == node.create_time_since_epoch
