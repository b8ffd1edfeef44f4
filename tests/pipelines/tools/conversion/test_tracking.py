"""What runs leave in ML Metadata, read by its own client."""

import pytest

metadata_store = pytest.importorskip("ml_metadata.metadata_store")
from ml_metadata.proto import metadata_store_pb2 as mlmd  # noqa: E402

import pipelines  # noqa: E402


def test_a_run_and_its_repetition_are_kept_and_each_artifact_once(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(40)))
    made = [pipelines.convert(str(table), str(tmp_path / "out"), seed=seed) for seed in (0, 0, 1)]
    assert [one.cached for one in made] == [False, True, False]
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = made[0].metadata
    store = metadata_store.MetadataStore(config)
    states = [execution.last_known_state for execution in store.get_executions()]
    assert states == [mlmd.Execution.COMPLETE] * 3 + [mlmd.Execution.CACHED] * 3 + states[:3]
    artifacts = {artifact.uri: artifact for artifact in store.get_artifacts()}
    assert len(artifacts) == len(store.get_artifacts()) == 8
    examples = artifacts[made[0].examples]
    assert examples.type == "Examples"
    assert examples.properties["split_names"].string_value == '["train", "eval"]'
    assert examples.custom_properties["written"].int_value == 40
    runs = store.get_contexts_by_type("pipeline_run")
    assert [len(store.get_executions_by_context(run.id)) for run in runs] == [3, 3, 3]
