"""Lineage from what datasets say of themselves."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact, list_runs
from pipelines.lineage.manifests import load_datasets
from trainer_utils.dataset import open_dataset
from trainer_utils.format import DatasetError, InputError, Manifest
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step

WriteStep = Callable[..., Path]
NEWEST = "artifacts/Trim/trimmed/3"


@pytest.fixture
def write_step(write_dataset) -> WriteStep:
    """Writes a dataset of some records, and that a step made it of others."""

    def write(uri: Path, count: int, parents: Sequence[Path] = (), **settings: object) -> Path:
        write_dataset(uri, {"train": [[{"label": [number]} for number in range(count)]]}, {})
        given, ancestors = [], {}
        for parent in parents:
            digest = open_dataset(str(parent)).digest
            given.append(DatasetInput(name="examples", uri=str(parent), digest=digest))
            manifest = Manifest.from_json((parent / "manifest.json").read_text(), path="m")
            before = Origin.from_json((parent / "lineage.json").read_text(), path="l")
            own = Ancestor(
                uri=str(parent),
                digest=digest,
                summary=DatasetSummary.of(manifest),
                made_by=before.made_by,
            )
            ancestors |= {each.key: each for each in (*before.ancestors, own)}
        step = Step(
            component=uri.parts[-3],
            type=f"components.{uri.parts[-3]}",
            pipeline="photos",
            run=str(settings.pop("run", "2026-01-01")),
            settings=settings,
            inputs=tuple(given),
            output=uri.parts[-2],
        )
        origin = Origin(made_by=step, ancestors=tuple(ancestors.values()))
        (uri / "lineage.json").write_text(origin.to_json())
        return uri

    return write


@pytest.fixture
def root(write_step, tmp_path) -> Path:
    """Three steps: a conversion, its balancing, and what was made of that."""
    artifacts = tmp_path / "runs/photos/artifacts"
    raw = write_step(artifacts / "Gen/examples/1", 5, input_base="/photos", seed=5)
    balanced = write_step(artifacts / "Balancer/balanced/2", 4, [raw], num_shards="8")
    write_step(artifacts / "Trim/trimmed/3", 3, [balanced], run="2026-02-01")
    return artifacts.parent


def chain(told: dict) -> list[tuple[str, dict, int]]:
    return [
        (
            each["made_by"]["component"],
            each["made_by"]["settings"],
            each["splits"]["train"]["found"],
        )
        for each in [*told["ancestors"], told]
    ]


CHAIN = [
    ("Gen", {"input_base": "/photos", "seed": 5}, 5),
    ("Balancer", {"num_shards": "8"}, 4),
    ("Trim", {}, 3),
]


def paths(told: dict) -> list[str]:
    return [each["artifact"]["path"] for each in told["ancestors"]]


def test_a_dataset_leads_back_to_the_first(root):
    told = describe_artifact(str(root / NEWEST)).to_json()
    assert chain(told) == CHAIN
    assert told["metadata"] == "manifests"
    assert paths(told) == [
        str(root / "artifacts" / place) for place in ("Gen/examples/1", "Balancer/balanced/2")
    ]
    assert (told["made_by"]["inputs"], told["made_by"]["outputs"]) == (
        {"examples": [2]},
        {"trimmed": [3]},
    )
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("moved", ["elsewhere", "one/level/deeper"])
def test_datasets_that_moved_together_are_found(root, tmp_path, moved):
    (tmp_path / moved).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(root, tmp_path / moved)
    told = describe_artifact(str(tmp_path / moved / NEWEST)).to_json()
    assert chain(told) == CHAIN
    assert all(path.startswith(str(tmp_path / moved)) for path in paths(told))


def test_of_datasets_that_are_gone_the_rest_tells(root, tmp_path):
    alone = tmp_path / "alone"
    shutil.move(root / NEWEST, alone)
    shutil.rmtree(root)
    lineage = describe_artifact(str(alone))
    assert chain(lineage.to_json()) == CHAIN
    assert "files in /photos" in str(lineage)
    assert "settings: input_base=/photos, seed=5" in str(lineage)


def test_another_dataset_in_the_place_of_one_is_not_taken_for_it(root, write_step):
    place = root / "artifacts/Gen/examples/1"
    shutil.rmtree(place)
    write_step(place, 9, seed=6)
    told = describe_artifact(str(root / NEWEST)).to_json()
    assert chain(told) == CHAIN


def test_below_a_root_what_was_made_of_it_is_told_too(root):
    raw = str(root / "artifacts/Gen/examples/1")
    assert describe_artifact(raw).to_json()["descendants"] == []
    told = describe_artifact(raw, metadata=str(root)).to_json()
    uris = [each["artifact"]["uri"] for each in told["descendants"]]
    assert uris == [str(root / "artifacts/Balancer/balanced/2"), str(root / NEWEST)]
    assert told["metadata"] == f"manifests in {root}"


def test_of_copies_those_below_the_root_are_told(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    raw = str(tmp_path / "copy/artifacts/Gen/examples/1")
    told = describe_artifact(raw, metadata=str(tmp_path / "copy")).to_json()
    assert len(told["descendants"]) == 2
    assert all("/copy/" in each["artifact"]["uri"] for each in told["descendants"])


def test_runs_are_listed_the_latest_first(root):
    (root / "artifacts/broken").mkdir()
    (root / "artifacts/broken/manifest.json").write_text("{")
    runs = list_runs(str(root))
    assert [
        (run["run"], run["pipeline"], run["state"], [c["component"] for c in run["components"]])
        for run in runs.to_json()["runs"]
    ] == [
        ("2026-02-01", "photos", "COMPLETE", ["Trim"]),
        ("2026-01-01", "photos", "COMPLETE", ["Gen", "Balancer"]),
    ]
    assert str(runs).startswith("2026-02-01 of photos: COMPLETE\n")


def test_two_conversions_of_the_same_inputs_stay_two(write_step, tmp_path):
    parents = [write_step(tmp_path / f"{n}/Gen/examples/1", 5, input_base=f"/{n}") for n in "ab"]
    both = write_step(tmp_path / "c/Balancer/balanced/2", 4, parents)
    told = describe_artifact(str(both)).to_json()
    bases = [each["made_by"]["settings"]["input_base"] for each in told["ancestors"]]
    assert bases == ["/a", "/b"]
    assert told["made_by"]["inputs"] == {"examples": [1, 2]}


def test_a_dataset_without_the_file_tells_what_its_manifest_does(tmp_path, write_dataset):
    write_dataset(tmp_path / "d", {"train": [[{"label": [1]}]]}, {})
    told = describe_artifact(str(tmp_path / "d")).to_json()
    assert (told["made_by"]["component"], told["ancestors"]) == ("tests", [])


def test_a_remote_dataset_leads_back_too(root, in_memory):
    uri = in_memory(root / NEWEST, "remote-lineage/3")
    assert chain(describe_artifact(uri).to_json()) == CHAIN


def test_what_is_no_dataset_or_a_damaged_one_is_an_error(root, tmp_path):
    with pytest.raises(InputError, match="expected a dataset with a manifest, found none"):
        load_datasets(str(tmp_path))
    (root / NEWEST / "lineage.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"3/lineage\.json"):
        describe_artifact(str(root / NEWEST))
