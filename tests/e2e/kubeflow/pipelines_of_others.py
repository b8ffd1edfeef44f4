"""Pipelines as users write them, for `PATH.py:FUNCTION`."""

from kfp import dsl
from tfx import v1 as tfx

from components import ImageExampleGen, ShardBalancer, TextExampleGen
from components.kubeflow import (
    dataset_audit,
    dataset_report,
    default_image,
    image_example_gen,
    input_fingerprint,
    schema_export,
    shard_balancer,
    text_example_gen,
)

RUNNER = ["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"]


def stock(pipeline_root: str) -> tfx.dsl.Pipeline:
    """Return a stock ExampleGen with a span in its input pattern, which TFX's driver resolves."""
    config = tfx.proto.Input(
        splits=[tfx.proto.Input.Split(name="all", pattern="span-{SPAN}/*.csv")]
    )
    base = tfx.dsl.experimental.RuntimeParameter(name="tables", ptype=str)
    examples = tfx.components.CsvExampleGen(input_base=base, input_config=config)
    return tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=pipeline_root,
        components=[examples],
        beam_pipeline_args=RUNNER,
    )


def imported_examples() -> tfx.dsl.Pipeline:
    """Return TFX's Importer of a dataset in the store."""
    examples = tfx.dsl.Importer(
        source_uri=tfx.dsl.experimental.RuntimeParameter(name="dataset", ptype=str),
        artifact_type=tfx.types.standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    )
    balanced = ShardBalancer(examples=examples.outputs["result"], num_shards=1)
    return tfx.dsl.Pipeline(
        pipeline_name="imported-examples",
        pipeline_root="unused",
        components=[examples, balanced],
        enable_cache=True,
        beam_pipeline_args=RUNNER,
    )


def latest() -> tfx.dsl.Pipeline:
    """Return a resolver, which Vertex AI supports and open-source Kubeflow does not."""
    model = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestArtifactStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
    )
    return tfx.dsl.Pipeline(pipeline_name="latest", pipeline_root="unused", components=[model])


def large_seed() -> tfx.dsl.Pipeline:
    examples = ImageExampleGen(input_base="/photos", seed=2**60 + 1)
    return tfx.dsl.Pipeline(
        pipeline_name="large-seed", pipeline_root="unused", components=[examples]
    )


def module_file() -> tfx.dsl.Pipeline:
    """Return a pipeline with a module file, for which TFX would write a wheel to the store."""
    images = ImageExampleGen(input_base="/photos")
    trainer = tfx.components.Trainer(
        module_file=__file__,
        examples=images.outputs["examples"],
        train_args=tfx.proto.TrainArgs(),
        eval_args=tfx.proto.EvalArgs(),
    )
    return tfx.dsl.Pipeline(
        pipeline_name="module-file", pipeline_root="unused", components=[images, trainer]
    )


def badly_named() -> tfx.dsl.Pipeline:
    return tfx.dsl.Pipeline(pipeline_name="My Pipeline", pipeline_root="unused", components=[])


def needs_more(photos: str) -> tfx.dsl.Pipeline:
    raise AssertionError("never called")


def no_pipeline() -> dict:
    return {}


@dsl.component(base_image=default_image(), install_kfp_package=False)
def count(dataset: dsl.Input[dsl.Dataset], findings: int, metrics: dsl.Output[dsl.Metrics]):
    """Count the records of a dataset, in a component of the user with our image."""
    import trainer_utils

    metrics.log_metric("findings", findings)
    uri = dataset.metadata.get("dataset_uri", dataset.path)  # set if shards are stored elsewhere
    for split, batches in trainer_utils.load(uri, batch_size=None, features="label").items():
        metrics.log_metric(split, len(batches))


@dsl.pipeline(name="native")
def native(
    input_base: str, num_shards: int, dataset_root: str = "", max_reject_fraction: float = 0.01
):
    """Run the steps of the LocalDagRunner's pipeline as native components, and a few more."""
    examples = image_example_gen(
        input_base=input_base, max_reject_fraction=max_reject_fraction, dataset_root=dataset_root
    ).outputs["examples"]
    balanced = shard_balancer(
        examples=examples, num_shards=num_shards, dataset_root=dataset_root
    ).outputs["balanced_examples"]
    schema_export(examples=balanced)
    dataset_report(examples=balanced)
    findings = dataset_audit(examples=balanced).outputs["num_findings"]
    count(dataset=balanced, findings=findings)


@dsl.pipeline(name="imported")
def imported(photos: str):
    """Import raw data from an object store, which Kubeflow's launcher downloads."""
    raw = dsl.importer(artifact_uri=photos, artifact_class=dsl.Artifact, reimport=False)
    image_example_gen(source=raw.output, max_reject_fraction=0.1, splits={"all": 1})


@dsl.pipeline(name="texts")
def texts(input_base: str, version: str):
    """Merge two tables into one dataset; the first one may be cached by Kubeflow."""
    first = text_example_gen(input_base=input_base, input_version=version, columns={"n": "int"})
    second = text_example_gen(input_base=input_base, seed=1, splits={"test": 1, "train": 3})
    shard_balancer(
        examples=first.outputs["examples"],
        more_examples=second.outputs["examples"],
        shards_by_split={"train": 3},
    )


def cached_tfx() -> tfx.dsl.Pipeline:
    """Return a TFX pipeline with caching enabled."""
    table = tfx.dsl.experimental.RuntimeParameter(name="table", ptype=str)
    texts = TextExampleGen(input_base=table)
    balanced = ShardBalancer(examples=texts.outputs["examples"], num_shards=1)
    return tfx.dsl.Pipeline(
        pipeline_name="cached-tfx",
        pipeline_root="unused",
        components=[texts, balanced],
        enable_cache=True,
        beam_pipeline_args=RUNNER,
    )


@dsl.pipeline(name="cached")
def cached(input_base: str, dataset_root: str):
    """Define the same pipeline with native components."""
    version = input_fingerprint(input_base=input_base, siblings=False).output
    examples = text_example_gen(
        input_base=input_base, input_version=version, dataset_root=dataset_root
    ).outputs["examples"]
    shard_balancer(examples=examples, num_shards=1, dataset_root=dataset_root)
