"""The runs of a store, against stores that were made by hand."""

import pytest

from pipelines.lineage import list_runs


def test_runs_come_with_their_components_the_latest_first(like_tfx, tmp_path):
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


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["COMPLETE", "CACHED"], "COMPLETE"),
        (["COMPLETE", "FAILED", "RUNNING"], "FAILED"),
        (["COMPLETE", "RUNNING"], "RUNNING"),
        (["COMPLETE", "NEW"], "RUNNING"),
        (["COMPLETE", "CANCELED"], "CANCELED"),
        (["COMPLETE", "UNKNOWN"], "UNKNOWN"),
    ],
)
def test_the_state_of_a_run_is_that_of_its_components_together(tmp_path, make_store, states, state):
    maker = make_store()
    run = maker.context("pipeline_run", "one")
    for each in states:
        maker.execution("Step", contexts=[run], state=each)
    assert list_runs(str(tmp_path)).to_json()["runs"][0]["state"] == state
