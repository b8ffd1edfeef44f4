"""Artifacts are found by any spelling of their place, and where a store moved."""

from pipelines.lineage import describe_artifact

BALANCED = "ShardBalancer/balanced_examples/2"


def test_an_artifact_is_found_by_any_spelling_and_by_what_is_in_it(like_tfx, tmp_path, monkeypatch):
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
        assert describe_artifact(spelling).artifact.id == like_tfx["balanced"], spelling


def test_remote_datasets_are_looked_into(tmp_path, make_store, write_dataset, in_memory):
    write_dataset(tmp_path / "e", {"train": [[{"filename": [b"a"]}]]}, {})
    uri = in_memory(tmp_path / "e", "lineage/e")
    make_store().artifact("Examples", uri)
    told = describe_artifact(uri, metadata=str(tmp_path), record="a").to_json()
    assert told["splits"]["train"]["written"] == 1
    assert told["record"]["steps"][0]["outcome"] == "found"
