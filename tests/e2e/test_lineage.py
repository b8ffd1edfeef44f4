"""Lineage of what TFX itself ran: our pipeline twice, and a stock one of others."""

import csv
from importlib import metadata
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image
from tfx import v1 as tfx

import pipelines
from components.common.beam import IN_PROCESS_RUNNER
from pipelines.examples.training_pipeline import run_locally
from pipelines.lineage import describe_artifact, list_runs
from trainer_utils.format import Manifest

pytestmark = pytest.mark.e2e


def names_by_place(uri: Path) -> dict[str, tuple[str, int]]:
    """Shard and number of each record by its filename, by TensorFlow's own reader."""
    found = {}
    for shard in sorted(uri.glob("Split-*/*")):
        for number, record in enumerate(tf.data.TFRecordDataset(str(shard))):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            name = features["filename"].bytes_list.value[0].decode()
            found[name] = str(shard.relative_to(uri)), number
    return found


@pytest.fixture(scope="module")
def converted(tmp_path_factory, photos) -> tuple[Path, Path]:
    """A folder of photos, and what two runs made of them."""
    folder = tmp_path_factory.mktemp("converted")
    for number, photo in enumerate(photos):
        path = folder / f"photos/{'cat' if number % 2 else 'dog'}/{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path)
    (folder / "photos/cat/bad.jpg").write_bytes(b"no photo")
    options = {"max_reject_fraction": 0.1, "num_shards": 3, "seed": 5}
    first = pipelines.convert(folder / "photos", str(folder / "out"), **options)
    assert pipelines.convert(folder / "photos", str(folder / "out"), **options) == first
    return folder, Path(first)


def test_a_conversion_is_told_with_run_settings_inputs_and_outcome(converted):
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


def test_every_record_is_where_tensorflow_reads_it(converted):
    folder, uri = converted
    raw = Path(describe_artifact(str(uri)).to_json()["ancestors"][0]["artifact"]["uri"])
    places = names_by_place(raw), names_by_place(uri)
    assert len(places[0]) == len(places[1]) == 30
    for name in sorted(places[0])[::7]:
        record = describe_artifact(str(uri), record=name).to_json()["record"]
        assert record["source"] == str(folder / "photos" / name)
        told = [(p["shard"], p["record"]) for step in record["steps"] for p in step["places"]]
        assert told == [places[0][name], places[1][name]]


def test_a_rejected_photo_is_told_as_such(converted):
    record = describe_artifact(str(converted[1]), record="cat/bad.jpg").to_json()["record"]
    assert record["steps"][0]["outcome"] == "rejected"
    assert record["steps"][0]["rejects"][0]["code"] == "NOT_AN_IMAGE"


def without_times(told: dict) -> dict:
    """Of an artifact or a step, what more than a store can know."""
    names = ("fingerprint", "content", "versions", "splits", "made_by")
    names += ("component", "state", "settings")  # ids are those of a store, or digests
    others = {"settings": {"memory_bytes", "input_fingerprint"}}  # which shape no outcome
    return {
        name: without_times(value)
        if name == "made_by"
        else {n: v for n, v in value.items() if n not in others[name]}
        if name in others
        else value
        for name, value in told.items()
        if name in names
    }


def test_without_the_store_the_datasets_tell_the_same(converted):
    folder, uri = converted
    record = "dog/00.jpg"
    by_store = describe_artifact(str(uri), record=record).to_json()
    alone = describe_artifact(str(uri), metadata=str(folder / "out/artifacts"), record=record)
    by_datasets = alone.to_json()
    assert by_datasets["metadata"].startswith("manifests in ")
    assert without_times(by_datasets) == without_times(by_store)
    assert list(map(without_times, by_datasets["ancestors"])) == list(
        map(without_times, by_store["ancestors"])
    )
    records = by_datasets["record"], by_store["record"]
    for step in (step for record in records for step in record["steps"]):
        step.pop("artifact")
    assert records[0] == records[1]
    runs, alone = (
        list_runs(str(folder / place)).to_json()["runs"] for place in ("out", "out/artifacts")
    )
    (run,) = alone
    assert (run["run"], run["pipeline"]) == (None, None)
    datasets = [c["component"] for c in runs[-1]["components"]][:2]  # the last one makes none
    assert [c["component"] for c in run["components"]] == datasets


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    """What TFX's own CsvExampleGen, StatisticsGen and SchemaGen made."""
    folder = tmp_path_factory.mktemp("stock")
    (folder / "in").mkdir()
    with (folder / "in/table.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["a", "b"], *([number, number / 2] for number in range(60))])
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


def test_a_stock_pipeline_is_told_as_well(stock):
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
