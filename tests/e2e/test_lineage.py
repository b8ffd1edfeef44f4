"""Lineage of pipelines run by TFX: two runs of our pipeline, and a stock pipeline."""

from importlib import metadata
from pathlib import Path

import pytest
from tfx import v1 as tfx

import pipelines
from components.runtime.beam import IN_PROCESS_RUNNER
from pipelines.examples.training_pipeline import run_locally
from pipelines.lineage import describe_artifact, list_runs
from tests.make import jpeg, table, write_files
from trainer_utils.format import Manifest

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def converted(tmp_path_factory) -> tuple[Path, Path]:
    """Return a folder of photos, and the output folder of two runs on them."""
    folder = tmp_path_factory.mktemp("converted")
    files = {f"{('dog', 'cat')[n % 2]}/{n:02d}.jpg": jpeg(n) for n in range(30)}
    write_files(folder / "photos", {**files, "cat/bad.jpg": b"no photo"})
    options = {"max_reject_fraction": 0.1, "num_shards": 3, "seed": 5}
    first = pipelines.convert(folder / "photos", str(folder / "out"), **options)
    assert pipelines.convert(folder / "photos", str(folder / "out"), **options) == first
    return folder, Path(first)


def test_lineage_of_a_conversion_is_complete(converted):
    folder, uri = converted
    lineage = describe_artifact(str(uri))
    told = lineage.to_json()
    assert told["metadata"] == str(folder / "out/metadata.sqlite")
    assert told["made_by"]["component"] == "ShardBalancer"
    assert told["made_by"]["settings"]["num_shards"] == "3"
    assert told["made_by"]["settings"]["seed"] == 5
    assert [e["state"] for e in told["used_again_by"]] == ["CACHED"]
    assert told["versions"]["pillow"] == metadata.version("pillow")
    (raw,) = told["ancestors"]
    assert raw["made_by"]["settings"]["input_base"] == str(folder / "photos")
    assert (
        raw["fingerprint"]
        == Manifest.from_json(
            (Path(raw["artifact"]["uri"]) / "manifest.json").read_text(), path="manifest.json"
        ).input_fingerprint
    )
    assert raw["content"] == told["content"]
    assert sum(split["rejected"] for split in raw["splits"].values()) == 1
    assert [d["artifact"]["type"] for d in told["descendants"]] == ["Dataset", "Schema"]


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    """Run TFX's CsvExampleGen, StatisticsGen and SchemaGen, and return the output folder."""
    folder = tmp_path_factory.mktemp("stock")
    rows = [{"a": number, "b": number / 2} for number in range(60)]
    write_files(folder / "in", {"table.csv": table(rows, "csv")})
    examples = tfx.components.CsvExampleGen(input_base=str(folder / "in"))
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    run_locally(
        tfx.dsl.Pipeline(
            pipeline_name="of-others",
            pipeline_root=str(folder / "root"),
            components=[examples, statistics, schema],
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(folder / "metadata.sqlite")
            ),
            beam_pipeline_args=[f"--runner={IN_PROCESS_RUNNER}"],
        )
    )
    return folder


def test_lineage_of_a_stock_pipeline_is_shown(stock):
    (schema,) = (stock / "root/SchemaGen/schema").iterdir()
    lineage = describe_artifact(str(schema))
    told = lineage.to_json()
    assert told["made_by"]["component"] == "SchemaGen"
    assert told["made_by"]["pipeline"] == "of-others"
    assert [a["artifact"]["type"] for a in told["ancestors"]] == ["Examples", "ExampleStatistics"]
    examples = told["ancestors"][0]
    assert examples["fingerprint"].startswith("split:single_split,num_files:1,total_bytes:")
    assert examples["made_by"]["settings"]["input_base"] == str(stock / "in")
    assert examples["versions"] == {"tfx": metadata.version("tfx")}
    assert f"files in {stock / 'in'}" in str(lineage)
    assert list_runs(str(stock)).to_json()["runs"][0]["state"] == "COMPLETE"
