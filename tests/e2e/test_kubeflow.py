"""Compiled pipelines, run to a trained model by a simulation of open-source Kubeflow."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfx import v1 as tfx

import trainer_utils
from components import ImageExampleGen, ShardBalancer
from pipelines.examples.demo_photos import REGIONS, make_photos
from pipelines.examples.training_pipeline import BEAM_ARGUMENTS, run_locally
from pipelines.kubeflow import compile_pipeline
from tests.e2e.kubeflow.launcher import LOGS, REPOSITORY, Cluster, Run, StepFailed, WarmPython
from tests.make import everything as files_of
from trainer_utils.format.naming import MANIFEST_FILE

pytestmark = pytest.mark.e2e
OTHERS = Path(__file__).parent / "kubeflow/pipelines_of_others.py"
ROOTS = {"image": "minio://mlpipeline/v2", "text": "gs://bucket"}
ALLOWED = 0.1  # 3 of the 63 photos are bad


def image_environment() -> dict[str, str]:
    """Return the environment variables of the Dockerfile for TensorFlow."""
    text = (REPOSITORY / "Dockerfile").read_text()
    return dict(re.findall(r"\b(TF_\w+)=(\S+)", text))


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    warm = WarmPython(image_environment())
    yield warm
    warm.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("photos"))
    make_photos(folder, count=60)
    return folder


@pytest.fixture(scope="module")
def local(photos, tmp_path_factory) -> dict[str, bytes]:
    """Return the files of the dataset written by TFX's LocalDagRunner, by path."""
    root = tmp_path_factory.mktemp("local")
    images = ImageExampleGen(input_base=photos, max_reject_fraction=ALLOWED)
    balanced = ShardBalancer(examples=images.outputs["examples"], num_shards=2)
    metadata = tfx.orchestration.metadata.sqlite_metadata_connection_config(str(root / "db"))
    run_locally(
        tfx.dsl.Pipeline(
            pipeline_name="local",
            pipeline_root=str(root / "artifacts"),
            components=[images, balanced],
            metadata_connection_config=metadata,
            beam_pipeline_args=list(BEAM_ARGUMENTS),
        )
    )
    (dataset,) = (root / "artifacts/ShardBalancer/balanced_examples").iterdir()
    return files_of(dataset)


def compiled(folder: Path, pipeline: str, root: str, **options: str) -> Path:
    package = folder / "pipeline.yaml"
    compile_pipeline(pipeline, str(package), image="example/it:1", pipeline_root=root, **options)
    return package


@pytest.fixture(scope="module")
def image_run(python, photos, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("image")
    cluster = Cluster(folder / "pods", python)
    return cluster.run(
        compiled(folder, "image", ROOTS["image"]),
        {
            "input_base": photos,
            "num_shards": "2",
            "max_reject_fraction": ALLOWED,
            "custom_config": '{"batch_size": 8}',
            "train_args": '{"splits": ["train"], "num_steps": 3}',
        },
    )


def test_the_image_pipeline_trains_a_model(image_run):
    tasks = {task for task, _ in image_run.artifacts}
    assert tasks == {
        "ImageExampleGen-inputs",
        "ImageExampleGen",
        "StatisticsGen",
        "SchemaGen",
        "ShardBalancer",
        "SchemaExport",
        "Trainer",
    }
    model = image_run.cluster.below(image_run.uri("Trainer", "model"))
    assert "Format-Serving/saved_model.pb" in model
    run = image_run.cluster.below(image_run.uri("Trainer", "model_run"))
    assert json.loads(run["metrics.json"])["num_classes"] == len(REGIONS)
    log = image_run.pods["Trainer"].log.read_text()
    assert re.search(r"^3/3 ", log, re.MULTILINE), "train_args"
    assert '"batch_size": 8' in log.replace("\\", "")


def test_dataset_equals_that_of_the_local_runner(image_run, local):
    made = image_run.cluster.below(image_run.uri("ShardBalancer", "balanced_examples"))
    assert made == local


def test_tfx_types_survive_conversion_to_kubeflow_types(image_run):
    titles = {output: kept["title"] for (_, output), kept in image_run.artifacts.items()}
    assert titles.pop(LOGS) == "system.Artifact"
    assert titles == {
        "examples": "system.Dataset",
        "balanced_examples": "system.Dataset",
        "statistics": "system.Artifact",
        "schema": "system.Artifact",
        "datum_schema": "system.Artifact",
        "datum_dataset": "system.Dataset",
        "model": "system.Model",
        "model_run": "system.Artifact",
    }
    metadata = image_run.metadata("ShardBalancer", "balanced_examples")
    assert json.loads(metadata["split_names"]) == ["train", "eval"]
    assert metadata["payload_format"] == "FORMAT_TF_EXAMPLE"
    assert (metadata["written"], metadata["num_shards"]) == (60, 4)
    assert image_run.metadata("ImageExampleGen", "examples")["rejected"] == 3
    statistics = image_run.cluster.below(image_run.uri("StatisticsGen", "statistics"))
    assert {path.split("/")[0] for path in statistics} == {"Split-train", "Split-eval"}


def test_store_has_no_folder_objects(image_run):
    keys = sorted(image_run.cluster.objects)
    assert not [key for key in keys if key.endswith("/")]
    assert not [a for a, b in itertools.pairwise(keys) if b.startswith(f"{a}/")]


def test_text_pipeline_trains_with_other_artifact_types(python, tmp_path):
    rows = [f"{('warm', 'cold')[n % 2]} word{n % 7},{('sun', 'ice')[n % 2]}" for n in range(60)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]))
    cluster = Cluster(tmp_path / "pods", python, generation="api")
    run = cluster.run(
        compiled(tmp_path, "text", ROOTS["text"], name="my-texts"),
        {
            "input_base": str(tmp_path / "texts.csv"),
            "train_args": '{"splits": ["train"], "num_steps": 2}',
        },
    )
    assert run.root.startswith("gs://bucket/my-texts/")
    assert "Format-Serving/saved_model.pb" in cluster.below(run.uri("Trainer", "model"))
    assert run.metadata("TextExampleGen", "examples")["written"] == 60


def test_native_components_write_the_same_bytes(python, photos, local, tmp_path):
    package = compiled(tmp_path, f"{OTHERS}:native", "minio://mlpipeline/runs")
    cluster = Cluster(tmp_path / "pods", python)
    given = {"input_base": photos, "num_shards": 2, "max_reject_fraction": ALLOWED}
    run = cluster.run(package, given)
    assert cluster.below(run.uri("shard-balancer", "balanced_examples")) == local
    examples = run.metadata("image-example-gen", "examples")
    assert (examples["records"], examples["rejects"], examples["shards"]) == (60, 3, 2)
    assert examples["splits"] == {"list": ["train", "eval"]}
    assert run.metadata("shard-balancer", "balanced_examples")["shards"] == 4
    assert list(cluster.below(run.uri("schema-export", "datum_schema"))) == ["schema.pbtxt"]
    described = cluster.below(run.uri("schema-export", "datum_dataset"))
    assert {"schema.pbtxt", "shard_info.json"} <= set(described)
    assert cluster.objects[run.uri("dataset-report", "report")].startswith(b"<!doctype html>")
    counted = run.metadata("count", "metrics")
    assert int(counted["findings"]) == run.metadata("dataset-audit", "anomalies")["num_findings"]
    assert (counted["train"], counted["train"] + counted["eval"]) == (examples["train_written"], 60)

    volume = tmp_path / "volume"
    cluster = Cluster(tmp_path / "others", python)
    run = cluster.run(package, {**given, "dataset_root": str(volume)})
    uri = run.metadata("shard-balancer", "balanced_examples")["dataset_uri"]
    assert uri.startswith(f"{volume}/mlpipeline/runs/native/")
    assert files_of(Path(uri)) == local
    assert not [key for key in cluster.objects if "data_tfrecord" in key], "copied by the launcher"


def test_photos_in_an_object_store_are_imported(python, photos, tmp_path):
    cluster = Cluster(tmp_path / "pods", python)
    cluster.upload(Path(photos), "s3://raw/photos")
    package = compiled(tmp_path, f"{OTHERS}:imported", "minio://mlpipeline/runs")
    run = cluster.run(package, {"photos": "s3://raw/photos"})
    assert run.metadata("image-example-gen", "examples")["records"] == 60


def test_a_dataset_in_the_store_is_imported_by_tfx(python, local, tmp_path):
    cluster = Cluster(tmp_path / "pods", python, generation="api")
    cluster.objects = {f"s3://sets/photos/{path}": data for path, data in local.items()}
    package = compiled(tmp_path, f"{OTHERS}:imported_examples", "minio://mlpipeline/runs")
    run = cluster.run(package, {"dataset": "s3://sets/photos"})
    balanced = run.metadata("ShardBalancer", "balanced_examples")
    assert (balanced["written"], balanced["num_shards"]) == (60, 2)


def test_tables_become_one_dataset_natively(python, tmp_path):
    (tmp_path / "t.csv").write_text("n,text\n" + "".join(f"{n},text {n}\n" for n in range(40)))
    cluster = Cluster(tmp_path / "pods", python)
    run = cluster.run(
        compiled(tmp_path, f"{OTHERS}:texts", "gs://bucket"),
        {"input_base": str(tmp_path / "t.csv"), "version": "2026-11-21"},
    )
    assert run.metadata("text-example-gen-2", "examples")["splits"] == {"list": ["train", "test"]}
    balanced = run.uri("shard-balancer", "balanced_examples")
    cluster.download(balanced, tmp_path / "out")
    train = trainer_utils.input_fn(str(tmp_path / "out"), "train+eval+test", batch_size=None)
    assert len(train) == 80
    manifest = json.loads(cluster.below(balanced)[MANIFEST_FILE])
    assert sum(shard["split"] == "train" for shard in manifest["shards"]) == 3


def test_stock_example_gen_finds_its_span_without_a_driver(python, tmp_path):
    for span in (1, 2):
        (tmp_path / f"in/span-{span}").mkdir(parents=True)
        (tmp_path / f"in/span-{span}/t.csv").write_text("n\n" + f"{span}\n" * 30)
    cluster = Cluster(tmp_path / "pods", python)
    run = cluster.run(
        compiled(tmp_path, f"{OTHERS}:stock", "gs://bucket"), {"tables": str(tmp_path / "in")}
    )
    cluster.download(run.uri("CsvExampleGen", "examples"), tmp_path / "out")
    records = trainer_utils.input_fn(str(tmp_path / "out"), "train", batch_size=None)
    assert {int(record["n"]) for record in records} == {2}


def write_table(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{n},text {path.parent.name} {n}\n" for n in range(rows)]
    path.write_text("".join(["n,text\n", *lines]))
    return path


@pytest.mark.parametrize(
    ("pipeline", "table", "steps"),
    [
        ("cached", "input_base", ["input-fingerprint", "text-example-gen", "shard-balancer"]),
        ("cached_tfx", "table", ["TextExampleGen-inputs", "TextExampleGen", "ShardBalancer"]),
    ],
)
def test_step_is_cached_unless_its_inputs_changed(python, tmp_path, pipeline, table, steps):
    path, volume = write_table(tmp_path / "in/t.csv", 40), tmp_path / "volume"
    options = {} if pipeline == "cached" else {"dataset_root": str(volume)}
    given = {table: str(path)} | ({} if options else {"dataset_root": str(volume)})
    package = compiled(tmp_path, f"{OTHERS}:{pipeline}", "gs://bucket", **options)
    cluster = Cluster(tmp_path / "pods", python)

    def ran() -> tuple[list[str], Path, int]:
        run = cluster.run(package, given)
        metadata = run.metadata(steps[2], "balanced_examples")
        written = metadata.get("records", metadata.get("written"))
        return list(run.pods), Path(metadata["dataset_uri"]), written

    assert ran()[::2] == (steps, 40)
    pods, balanced, _ = ran()
    assert pods == steps[:1]
    write_table(tmp_path / "in/other.csv", 5)
    assert ran() == (steps[:1], balanced, 40), "another file of the folder is no input"
    write_table(path, 41)
    pods, again, written = ran()
    assert (pods, written) == (steps, 41)
    assert again != balanced


@pytest.mark.parametrize(
    ("pipeline", "given", "message"),
    [
        ("image", {"max_reject_fraction": 0.0}, r"InputError: 3 of 63 inputs were rejected"),
        (f"{OTHERS}:native", {"num_shards": -1}, r"ConfigError: num_shards: .* got -1"),
    ],
)
def test_a_failing_step_shows_its_error(python, photos, tmp_path, pipeline, given, message):
    package = compiled(tmp_path, pipeline, "gs://bucket")
    usual = {"input_base": photos, "num_shards": 2, "max_reject_fraction": ALLOWED}
    cluster = Cluster(tmp_path / "pods", python)
    with pytest.raises(StepFailed, match=message) as failed:
        cluster.run(package, {**usual, **given})
    assert "exit status 1" in str(failed.value)
