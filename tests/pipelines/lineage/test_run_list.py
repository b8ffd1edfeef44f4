"""The runs of a store, against stores that were made by hand."""

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


def test_the_state_of_a_run_is_that_of_its_components_together(tmp_path, make_store):
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
