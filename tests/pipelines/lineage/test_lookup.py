"""The same questions to every place that may know: the same answers, as far as it can know them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact, list_runs
from trainer_utils.dataset import open_dataset
from trainer_utils.format import ConfigError, Feature, InputError
from trainer_utils.format.origin import DatasetInput, Origin, Step

REPOSITORY = Path(__file__).parents[3]
STORE = "store/kept.sqlite"  # above none of the datasets
NAMES = {"filename": Feature(type="string")}
STEPS = {
    "examples": {"input_base": "/photos", "seed": 5, "input_fingerprint": "abc"},
    "balanced_examples": {"num_shards": '{"train": 2}'},
}
WAYS = {
    "folder": "metadata.sqlite",
    "metadata.db": "metadata.db",
    "template": "tfx_metadata/photos/metadata.db",
    "above": "metadata.sqlite",
}


@pytest.fixture
def runs(tmp_path, write_dataset, make_store) -> Path:
    """A conversion and its balancing, in a store and on the disk."""
    (tmp_path / "store").mkdir()
    maker = make_store(tmp_path / STORE)
    pipeline = maker.context("pipeline", "photos")
    run = maker.context("pipeline_run", "2026-01-01")
    rows = [{"filename": [name]} for name in (b"a.jpg", b"b.jpg")]
    given: tuple[DatasetInput, ...] = ()
    sources: list[int] = []
    for number, (output, settings) in enumerate(STEPS.items(), start=1):
        uri = tmp_path / f"runs/{output}/{number}"
        write_dataset(uri, {"train": [rows[:number], rows[number:]]}, NAMES)
        kind, inputs = f"components.Make_{output}", {"examples": sources} if sources else {}
        sources = [maker.artifact("Examples", str(uri))]
        node = maker.context("node", f"photos.Make.{output}")
        contexts = [pipeline, run, node]
        maker.execution(kind, inputs, {output: sources}, contexts=contexts, **settings)
        plain = {n: {"train": 2} if n == "num_shards" else v for n, v in settings.items()}
        step = Step(
            component=f"Make.{output}",
            settings=plain,
            inputs=given,
            output=output,
        )
        (uri / "lineage.json").write_text(Origin(made_by=step).to_json())
        digest = open_dataset(str(uri)).digest
        given = (DatasetInput(name="examples", digest=digest),)
    return tmp_path


def arranged(way: str, runs: Path, make_store, serve_store) -> str | None:
    """What to name as the place to ask, once the store is where that way has it."""
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


def without_numbers(told: dict) -> dict:
    """What is told of an artifact, its neighbours and a record, nodes by their uris."""
    nodes = [told, *told["ancestors"], *told["descendants"]]
    uris = {node["artifact"]["id"]: node["artifact"]["uri"] for node in nodes}

    def step(made_by: dict) -> dict:
        names = ("component", "type", "pipeline", "run", "state", "settings")
        ports = {
            side: {port: [uris[i] for i in ids] for port, ids in made_by[side].items()}
            for side in ("inputs", "outputs")
        }
        return {name: made_by[name] for name in names} | ports

    names = ("fingerprint", "content", "versions", "splits")
    kinds = ("uri", "path", "type", "state")
    found = [
        {name: node[name] for name in names}
        | {name: node["artifact"][name] for name in kinds}
        | {"made_by": step(node["made_by"])}
        for node in nodes
    ]
    record = told["record"] or {"steps": []}
    steps = [{n: v for n, v in each.items() if n != "artifact"} for each in record["steps"]]
    return {"nodes": found, "record": {**record, "steps": steps}}


QUESTIONS = [(uri, record) for uri in STEPS for record in (None, "b.jpg")]


def answers(runs: Path, place: str | None) -> list[dict]:
    numbers = {output: number for number, output in enumerate(STEPS, start=1)}
    return [
        without_numbers(
            describe_artifact(
                str(runs / f"runs/{output}/{numbers[output]}"), metadata=place, record=record
            ).to_json()
        )
        for output, record in QUESTIONS
    ]


def without_runs(answer: list[dict]) -> list[dict]:
    of_runs = ("type", "pipeline", "run")
    return [
        told
        | {
            "nodes": [
                node | {"made_by": {n: v for n, v in node["made_by"].items() if n not in of_runs}}
                for node in told["nodes"]
            ]
        }
        for told in answer
    ]


def answer_of_runs(place: str) -> list[tuple]:
    return [
        (run["run"], run["pipeline"], run["state"], [(c["component"], c["type"]) for c in parts])
        for run in list_runs(place).to_json()["runs"]
        for parts in [run["components"]]
    ]


@pytest.mark.parametrize("way", ["sqlite", "grpc", "manifests", *WAYS])
def test_every_place_gives_the_same_answers(runs, make_store, serve_store, way):
    expected = answers(runs, str(runs / STORE))
    listed = answer_of_runs(str(runs / STORE))
    raw, balanced = expected[0]["nodes"]
    assert raw["made_by"]["settings"] == STEPS["examples"]
    assert balanced["made_by"]["settings"] == {"num_shards": {"train": 2}}
    assert balanced["made_by"]["inputs"] == {"examples": [raw["uri"]]}
    assert raw["fingerprint"] == "abc"
    assert expected[3]["record"]["source"]["path"] == "/photos/b.jpg"
    assert [step["outcome"] for step in expected[3]["record"]["steps"]] == ["found", "found"]
    place = arranged(way, runs, make_store, serve_store)
    told = answers(runs, place)
    told_runs = answer_of_runs(place or str(runs / "runs"))
    if way == "manifests":  # which know components alone
        expected, told = (without_runs(answer) for answer in (expected, told))
        (run,) = listed
        listed = [(None, None, run[2], [(component, component) for component, _ in run[3]])]
    assert told == expected
    assert told_runs == listed


def test_a_dataset_that_no_store_above_has_tells_of_itself(runs, tmp_path, make_store):
    make_store(tmp_path / "runs/metadata.sqlite")
    told = describe_artifact(str(tmp_path / "runs/balanced_examples/2")).to_json()
    assert (told["metadata"], len(told["ancestors"])) == ("manifests", 1)
    with pytest.raises(InputError, match=r"metadata\.sqlite, which has 0"):
        describe_artifact(str(tmp_path / "runs"))


def test_the_store_that_has_it_is_asked_among_several(tmp_path, make_store):
    for name in ("one", "two"):
        (tmp_path / "tfx_metadata" / name).mkdir(parents=True)
        store = tmp_path / f"tfx_metadata/{name}/metadata.db"
        make_store(store).artifact("Model", str(tmp_path / name))
    told = describe_artifact(str(tmp_path / "two")).to_json()
    assert told["metadata"] == str(tmp_path / "tfx_metadata/two/metadata.db")
    with pytest.raises(ConfigError, match=r"expected one store, found .*one.*, .*two.* Name one"):
        list_runs(str(tmp_path))


@pytest.mark.parametrize("uri", ["memory://nowhere/examples/1", "/nowhere/examples/1"])
def test_neither_store_nor_dataset_is_an_error_that_says_what_may_be_given(uri):
    with pytest.raises(InputError, match=f"{uri}.*Name where ML Metadata is: a sqlite"):
        describe_artifact(uri)


def test_datasets_tell_where_ml_metadata_is_not_installed(runs):
    shutil.copy(runs / STORE, runs / "metadata.sqlite")  # above them, and of no use
    code = (
        "import sys; sys.modules['ml_metadata'] = None\n"
        "import importlib.util; found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'ml_metadata' else found(n, *a)\n"
        "from pipelines.lineage import describe_artifact, list_runs\n"
        "root = sys.argv[1]\n"
        "told = describe_artifact(f'{root}/runs/balanced_examples/2', record='b.jpg')\n"
        "print(len(told.to_json()['ancestors']), len(list_runs(f'{root}/runs').runs))\n"
        "try: list_runs(f'{root}/store/kept.sqlite')\n"
        "except ValueError as error: print(error)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, str(runs)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    counts, refusal = finished.stdout.splitlines()
    assert counts == "1 1"
    assert "ML Metadata's stores need TFX" in refusal
