"""`tfx-shards lineage` and `runs`: what ML Metadata or the datasets themselves know."""

import importlib

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress
from pipelines.cli.process import quiet
from pipelines.tools.conversion.outputs import METADATA_FILE

__all__ = ["lineage", "runs"]

_FORMS = "A sqlite file, grpc://host:port, or a folder with such a file or with datasets."


@click.command()
@dataset_argument
@click.option(
    "--metadata",
    metavar="WHERE",
    help=f"{_FORMS} Default: {METADATA_FILE} or the like in a folder above the dataset, else what "
    "the dataset itself says.",
)
@click.option("--record", metavar="NAME", help="Follow one record, by its filename or id.")
@json_option
@verbose_option
def lineage(uri: str, metadata: str | None, record: str | None, as_json: bool) -> None:
    """Show where a dataset comes from and what was made from it: runs, inputs, models.

    \b
    tfx-shards lineage out/
    tfx-shards lineage out/ --record palace_sky/0003.jpg
    tfx-shards lineage gs://bucket/photos --metadata grpc://metadata:8080 --json
    """
    describe_artifact = importlib.import_module("pipelines.lineage").describe_artifact
    with quiet(), show_progress("Reading the lineage"):
        found = describe_artifact(uri, metadata=metadata, record=record)
    print_facts(found.to_json, found.__str__, as_json=as_json)


@click.command()
@click.argument("where", metavar="[METADATA]", required=False)
@click.option("--metadata", metavar="METADATA", help="Where the metadata is, as for `lineage`.")
@json_option
@verbose_option
def runs(where: str | None, metadata: str | None, as_json: bool) -> None:
    """List the pipeline runs in ML Metadata, or those that datasets tell of.

    METADATA is a sqlite file, grpc://host:port, or a folder with such a file or with datasets.
    [default: this folder]

    \b
    tfx-shards runs out/metadata.sqlite
    tfx-shards runs --metadata out/ --json
    """
    if where is not None and metadata is not None:
        raise click.UsageError(f"METADATA is given twice: {where!r} and {metadata!r}")
    list_runs = importlib.import_module("pipelines.lineage").list_runs
    with quiet(), show_progress("Reading the lineage"):
        found = list_runs(where or metadata or ".")
    print_facts(found.to_json, found.__str__, as_json=as_json)
