"""Test the manifests of the docs against the definitions that Kubeflow Trainer publishes."""

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

MODULE = "github.com/kubeflow/trainer/v2@v2.0.0"
RECIPE = Path(__file__).parents[3] / "docs/kubeflow-trainer.yaml"


@pytest.fixture(scope="module")
def crds(tmp_path_factory) -> Path:
    """Download the definitions of Kubeflow Trainer from its Go module; return their folder."""
    if shutil.which("go") is None:
        pytest.skip("there is no go to fetch Kubeflow Trainer's definitions with")
    done = subprocess.run(
        ["go", "mod", "download", "-json", MODULE],
        cwd=tmp_path_factory.mktemp("go"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"{MODULE}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"], "manifests", "base", "crds")


def schema_errors(crds: Path, manifest: dict[str, Any]) -> list[str]:
    """Return the errors of a manifest against the published definition, with unknown fields."""
    text = (crds / f"trainer.kubeflow.org_{manifest['kind'].lower()}s.yaml").read_text()
    (version,) = (v for v in yaml.safe_load(text)["spec"]["versions"] if v["name"] == "v1alpha1")
    schema = version["schema"]["openAPIV3Schema"]
    forbid_others(schema)
    found = jsonschema.Draft202012Validator(schema).iter_errors(manifest)
    return [f"{error.json_path}: {error.message}" for error in found]


def forbid_others(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        schema = [*schema.values()]
    for part in schema if isinstance(schema, list) else ():
        forbid_others(part)


def test_manifest_is_valid_for_kubeflow_trainer(crds):
    runtime, job = yaml.safe_load_all(RECIPE.read_text())
    assert schema_errors(crds, runtime) == schema_errors(crds, job) == []
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    misspelt = copy.deepcopy(job)
    misspelt["spec"]["trainer"]["numNode"] = 2
    (error,) = schema_errors(crds, misspelt)
    assert "numNode" in error
