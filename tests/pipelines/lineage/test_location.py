"""Artifacts are found by any spelling of their place, and where a store moved."""

import pytest

from pipelines.lineage import describe_artifact
from trainer_utils.format import InputError

BALANCED = "ShardBalancer/balanced_examples/2"

# How the uri may be spelled -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        "{folder}/ShardBalancer/balanced_examples/2",
        "{folder}/ShardBalancer/balanced_examples/2/",
        "{folder}/ShardBalancer/../ShardBalancer/balanced_examples/2",
        "ShardBalancer/balanced_examples/2",
        "{folder}/ShardBalancer/balanced_examples/2/Split-train",
        "{folder}/ShardBalancer/balanced_examples/2/Split-train/data_tfrecord-00000-of-00001",
        "{folder}/ShardBalancer/balanced_examples/2/manifest.json",
    ],
)
def test_an_artifact_is_found_by_any_spelling_and_by_what_is_in_it(
    like_tfx, tmp_path, monkeypatch, spelling
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / BALANCED / "Split-train").mkdir(parents=True)
    (tmp_path / BALANCED / "manifest.json").write_text("{}")
    found = describe_artifact(spelling.format(folder=tmp_path))
    assert found.artifact.id == like_tfx["balanced"]


def test_an_artifact_through_a_link_is_found(like_tfx, tmp_path):
    (tmp_path / BALANCED).mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / BALANCED)
    assert describe_artifact(str(tmp_path / "linked")).artifact.id == like_tfx["balanced"]


@pytest.mark.parametrize("stored", ["runs/a", "/elsewhere/runs/a"], ids=["relative", "moved"])
def test_a_store_that_moved_with_its_artifacts_is_read(tmp_path, make_store, write_dataset, stored):
    maker = make_store()
    raw = maker.artifact("Examples", f"{stored}/Gen/examples/1")
    balanced = maker.artifact("Examples", f"{stored}/Balancer/balanced_examples/2")
    maker.execution("Balancer", {"examples": [raw]}, {"balanced_examples": [balanced]})
    for place in ("Gen/examples/1", "Balancer/balanced_examples/2"):
        write_dataset(tmp_path / "runs/a" / place, {"train": [[{"label": [1]}]]}, {})
    told = describe_artifact(str(tmp_path / "runs/a/Balancer/balanced_examples/2")).to_json()
    assert told["artifact"]["id"] == balanced
    assert told["artifact"]["path"] == str(tmp_path / "runs/a/Balancer/balanced_examples/2")
    assert told["ancestors"][0]["artifact"]["path"] == str(tmp_path / "runs/a/Gen/examples/1")
    assert told["ancestors"][0]["splits"]["train"]["written"] == 1


def test_a_uri_that_two_moved_artifacts_could_be_is_none(tmp_path, make_store):
    maker = make_store()
    for root in ("/one", "/two"):
        maker.artifact("Examples", f"{root}/Gen/examples/1")
    with pytest.raises(InputError, match=r"which has 2\. The newest: /two/Gen.*, /one/Gen"):
        describe_artifact(str(tmp_path / "Gen/examples/1"))


def test_remote_datasets_are_looked_into(tmp_path, make_store, write_dataset, in_memory):
    write_dataset(tmp_path / "e", {"train": [[{"filename": [b"a"]}]]}, {})
    uri = in_memory(tmp_path / "e", "lineage/e")
    make_store().artifact("Examples", uri)
    told = describe_artifact(uri, metadata=str(tmp_path), record="a").to_json()
    assert told["splits"]["train"]["written"] == 1
    assert told["record"]["steps"][0]["outcome"] == "found"


def test_remote_uris_are_compared_as_they_are(tmp_path, make_store):
    made = make_store().artifact("Model", "gs://bucket/model/1/")
    metadata = str(tmp_path / "metadata.sqlite")
    assert describe_artifact("gs://bucket/model/1", metadata=metadata).artifact.id == made
    with pytest.raises(InputError, match="gs://bucket/model/2"):
        describe_artifact("gs://bucket/model/2", metadata=metadata)
