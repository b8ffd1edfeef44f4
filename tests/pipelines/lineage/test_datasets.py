"""Lineage from the metadata of datasets."""

import shutil
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact
from pipelines.lineage.datasets import load_datasets
from trainer_utils.core.errors import DatasetError, InputError

NEWEST = "artifacts/Trim/trimmed/3"


@pytest.fixture
def root(write_step, tmp_path) -> Path:
    """Write the datasets of three steps: a conversion, a balancing, and another step."""
    artifacts = tmp_path / "runs/photos/artifacts"
    raw = write_step(artifacts / "Gen/examples/1", 5, input_base="/photos", seed=5)
    balanced = write_step(artifacts / "Balancer/balanced/2", 4, [raw], num_shards="8")
    write_step(artifacts / "Trim/trimmed/3", 3, [balanced])
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
    return [each["artifact"]["uri"] for each in told["ancestors"]]


def test_datasets_that_moved_together_are_found(root, tmp_path):
    moved = tmp_path / "one/level/deeper"
    moved.parent.mkdir(parents=True)
    shutil.move(root, moved)
    told = describe_artifact(str(moved / NEWEST)).to_json()
    assert chain(told) == CHAIN
    assert all(path.startswith(str(moved)) for path in paths(told))


def test_lineage_of_missing_datasets_comes_from_the_others(root, tmp_path):
    alone = tmp_path / "three/folders/above/alone"
    alone.parent.mkdir(parents=True)
    shutil.move(root / NEWEST, alone)
    shutil.rmtree(root)
    lineage = describe_artifact(str(alone))
    told = lineage.to_json()
    assert chain(told) == CHAIN
    digests = [path.removeprefix("digest:") for path in paths(told)]
    assert all(f"digest {digest}" in str(lineage) for digest in digests)
    assert told["ancestors"][0]["artifact"]["state"] == "UNKNOWN"


def test_derived_datasets_under_a_root_are_listed(root):
    raw = str(root / "artifacts/Gen/examples/1")
    assert describe_artifact(raw).to_json()["descendants"] == []
    told = describe_artifact(raw, metadata=str(root)).to_json()
    uris = [each["artifact"]["uri"] for each in told["descendants"]]
    assert uris == [str(root / "artifacts/Balancer/balanced/2"), str(root / NEWEST)]
    assert told["metadata"] == f"manifests in {root}"


def test_two_inputs_are_listed_separately(write_step, tmp_path):
    parents = [
        write_step(tmp_path / f"{n}/Gen/examples/1", 5 + len(n), input_base=f"/{n}")
        for n in ("a", "bb")
    ]
    both = write_step(tmp_path / "c/Balancer/balanced/2", 4, parents)
    told = describe_artifact(str(both)).to_json()
    bases = [each["made_by"]["settings"]["input_base"] for each in told["ancestors"]]
    assert bases == ["/a", "/bb"]
    ids = [each["artifact"]["id"] for each in told["ancestors"]]
    assert told["made_by"]["inputs"] == {"examples": ids}


def test_missing_or_damaged_dataset_is_an_error(root, tmp_path):
    with pytest.raises(InputError, match="expected a dataset with a manifest, found none"):
        load_datasets(str(tmp_path))
    (root / NEWEST / "lineage.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"3/lineage\.json"):
        describe_artifact(str(root / NEWEST))
