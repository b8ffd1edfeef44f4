"""Every kind of store gives the same answers to the same queries, as far as it has the data."""

import shutil
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact, list_runs
from trainer_utils.core.errors import InputError
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature
from trainer_utils.format.lineage import DatasetInput, Origin, Step

STORE = "store/kept.sqlite"  # not in a parent folder of a dataset
NAMES = {"filename": Feature(type="string")}
STEPS = {
    "examples": {"input_base": "/photos", "seed": 5, "input_fingerprint": "abc"},
    "balanced_examples": {"num_shards": '{"train": 2}'},
}
WAYS = {
    "folder": "metadata.sqlite",
    "template": "tfx_metadata/photos/metadata.db",
    "above": "metadata.sqlite",
}


@pytest.fixture
def runs(tmp_path, write_dataset, make_store) -> Path:
    """Write a conversion and its balancing, to a store and to the disk."""
    (tmp_path / "store").mkdir()
    maker = make_store(tmp_path / STORE)
    contexts = [maker.context("pipeline", "photos"), maker.context("pipeline_run", "2026-01-01")]
    rows = [{"filename": [name]} for name in (b"a.jpg", b"b.jpg")]
    given: tuple[DatasetInput, ...] = ()
    sources: list[int] = []
    for number, (output, settings) in enumerate(STEPS.items(), start=1):
        uri = tmp_path / f"runs/{output}/{number}"
        write_dataset(uri, {"train": [rows[:number], rows[number:]]}, NAMES)
        inputs = {"examples": sources} if sources else {}
        sources = [maker.artifact("Examples", str(uri))]
        own = [*contexts, maker.context("node", f"photos.Make.{output}")]
        maker.execution(f"made.{output}", inputs, {output: sources}, contexts=own, **settings)
        plain = {n: {"train": 2} if n == "num_shards" else v for n, v in settings.items()}
        step = Step(component=f"Make.{output}", settings=plain, inputs=given, output=output)
        (uri / "lineage.json").write_text(Origin(made_by=step).to_json())
        given = (DatasetInput(name="examples", digest=open_dataset(str(uri)).digest),)
    return tmp_path


def arranged(way: str, runs: Path, make_store, serve_store) -> str | None:
    """Arrange the store in one of the ways, and return its address for a query."""
    kept = runs / STORE
    if way == "sqlite":
        return str(kept)
    if way == "grpc":
        return serve_store(make_store(kept).store)
    if way == "manifests":
        kept.unlink()
        return str(runs / "runs")
    target = runs / "runs" / WAYS[way]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(kept, target)
    return None if way == "above" else str(runs / "runs")


def answers(runs: Path, place: str | None) -> list:
    """Return the lineage of both datasets and a record, without ids that depend on the store."""
    found = []
    for number, output in enumerate(STEPS, start=1):
        uri = str(runs / f"runs/{output}/{number}")
        told = describe_artifact(uri, metadata=place, record="b.jpg").to_json()
        for node in (told, *told["ancestors"], *told["descendants"]):
            made_by = {n: node["made_by"][n] for n in ("component", "state", "settings")}
            names = ("fingerprint", "content", "versions", "splits")
            found.append((node["artifact"]["uri"], made_by, {name: node[name] for name in names}))
        steps = [{n: v for n, v in s.items() if n != "artifact"} for s in told["record"]["steps"]]
        found.append((told["record"]["source"], steps))
    return found


@pytest.mark.parametrize("way", ["sqlite", "grpc", "manifests", *WAYS])
def test_every_store_gives_the_same_answers(runs, make_store, serve_store, way):
    expected = answers(runs, str(runs / STORE))
    (uri, made_by, facts), *_, (source, steps) = expected
    assert (uri, made_by["settings"]) == (str(runs / "runs/examples/1"), STEPS["examples"])
    assert (facts["fingerprint"], source) == ("abc", "/photos/b.jpg")
    assert [step["outcome"] for step in steps] == ["found", "found"]
    place = arranged(way, runs, make_store, serve_store)
    assert answers(runs, place) == expected
    (run,) = list_runs(place or str(runs / "runs")).to_json()["runs"]
    assert [part["component"] for part in run["components"]] == [f"Make.{name}" for name in STEPS]
    names = (None, None) if way == "manifests" else ("2026-01-01", "photos")
    assert (run["run"], run["pipeline"], run["state"]) == (*names, "COMPLETE")


def test_dataset_outside_stores_has_its_own_lineage(runs, tmp_path, make_store):
    make_store(tmp_path / "runs/metadata.sqlite")
    told = describe_artifact(str(tmp_path / "runs/balanced_examples/2")).to_json()
    assert (told["metadata"], len(told["ancestors"])) == ("manifests", 1)
    with pytest.raises(InputError, match=r"metadata\.sqlite, which has 0"):
        describe_artifact(str(tmp_path / "runs"))
    (tmp_path / "runs/latest").symlink_to("balanced_examples/2")  # like `convert`
    assert describe_artifact(str(tmp_path / "runs")).to_json()["splits"] == told["splits"]
