"""On a store that is not local every component writes the bytes that it writes to disk."""

import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
import tensorflow as tf
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

import trainer_utils
from components import ImageExampleGen, TextExampleGen
from components.image_example_gen import Executor as Images
from components.schema_export import Executor as Export
from components.shard_balancer import Executor as Balancer
from components.text_example_gen import Executor as Texts
from pipelines.tools.verification import verify_dataset
from trainer_utils.format.checksums import seal

ARGUMENTS = ["--direct_num_workers=1"]  # other processes do not see the memory of this one


@pytest.fixture(scope="module")
def raw(tmp_path_factory, photos) -> Path:
    base = tmp_path_factory.mktemp("raw")
    for number, photo in enumerate(photos):
        path = base / f"photos/{number % 3}/a [b] {number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_jpeg(photo).numpy())
    (base / "photos/1/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    (base / "texts").mkdir()
    rows = "".join(f"text number {number},{number % 3}\n" for number in range(200))
    (base / "texts/rows.csv").write_text("text,label\n" + rows)
    return base


def examples_at(uri: str) -> Any:
    artifact = standard_artifacts.Examples()
    artifact.uri = uri
    return artifact


def run_all(executor: Any, component: Any, out: str) -> dict[str, Any]:
    """An ExampleGen, ShardBalancer and SchemaExport, one after the other."""
    context = BaseBeamExecutor.Context(beam_pipeline_args=ARGUMENTS)
    examples, balanced = examples_at(f"{out}/examples"), examples_at(f"{out}/balanced")
    schema = standard_artifacts.Schema()
    schema.uri = f"{out}/schema"
    executor(context).Do({}, {"examples": [examples]}, dict(component.exec_properties))
    settings = {"num_shards": "2", "seed": 7}
    Balancer(context).Do({"examples": [examples]}, {"balanced_examples": [balanced]}, settings)
    Export().Do({"examples": [balanced]}, {"datum_schema": [schema]}, {})
    return {"examples": examples.uri, "balanced": balanced.uri, "schema": schema.uri}


@pytest.mark.parametrize(
    ("name", "executor", "component", "feature", "settings"),
    [
        ("photos", Images, ImageExampleGen, "filename", {"max_reject_fraction": 0.1}),
        ("texts", Texts, TextExampleGen, "text", {}),
    ],
)
def test_a_remote_store_gets_the_bytes_of_a_local_folder(
    raw, tmp_path, in_memory, monkeypatch, name, executor, component, feature, settings
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # of input_fn's copies
    bucket = uuid.uuid4().hex
    remote_base = in_memory(raw / name, f"{bucket}/raw/{name}")
    local_base = str(raw / name)
    local = run_all(executor, component(input_base=local_base, **settings), f"{tmp_path}/out")
    remote = run_all(
        executor, component(input_base=remote_base, **settings), f"memory://{bucket}/out"
    )
    memory = fsspec.filesystem("memory")
    for step in ("examples", "balanced"):
        root = Path(local[step])
        files = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        start = remote[step].removeprefix("memory:/") + "/"
        found = {p.removeprefix(start): memory.cat_file(p) for p in memory.find(start)}
        assert found.keys() == files.keys()
        said = files["lineage.json"].decode().replace(local_base, remote_base)
        for made in (found, files):  # it tells when inputs were written, as their store has it
            made.pop("inputs.json", None)
        assert found == files | {"lineage.json": seal(said).encode()}
        assert verify_dataset(remote[step]).is_good
    for uri in (remote["balanced"], remote["schema"]):
        batches = trainer_utils.input_fn(uri, features=feature, batch_size=8)
        read = sorted(value for batch in batches for value in batch.numpy())
        theirs = trainer_utils.input_fn(local["balanced"], features=feature, batch_size=8)
        assert read == sorted(value for batch in theirs for value in batch.numpy())
