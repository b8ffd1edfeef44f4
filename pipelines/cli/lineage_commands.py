"""`tfx-shards lineage` and `tfx-shards runs`: what ML Metadata knows."""

import importlib
import os

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress
from pipelines.cli.process import quiet, require_tfx
from pipelines.tools.conversion.outputs import METADATA_FILE

__all__ = ["lineage", "runs"]

_FORMS = "A sqlite file, mysql://user:password@host:port/database, or grpc://host:port."


@click.command()
@dataset_argument
@click.option(
    "--metadata",
    metavar="WHERE",
    help=f"{_FORMS} Default: {METADATA_FILE} in a folder above the dataset.",
)
@click.option("--record", metavar="NAME", help="Follow one record, by its filename or id.")
@json_option
@verbose_option
@click.pass_context
def lineage(
    ctx: click.Context, uri: str, metadata: str | None, record: str | None, as_json: bool
) -> None:
    """Show where a dataset comes from and what was made from it: runs, inputs, models.

    \b
    tfx-shards lineage out/
    tfx-shards lineage out/ --record palace_sky/0003.jpg
    tfx-shards lineage gs://bucket/photos --metadata grpc://metadata:8080 --json
    """
    require_tfx("lineage")
    describe_artifact = importlib.import_module("pipelines.lineage").describe_artifact
    with quiet(ctx), show_progress("Reading ML Metadata"):
        found = describe_artifact(uri, metadata=metadata, record=record)
    print_facts(found.to_json, found.__str__, as_json=as_json)


@click.command()
@click.argument("where", metavar="[METADATA]", required=False)
@click.option("--metadata", metavar="METADATA", help="Where the metadata is, as for `lineage`.")
@json_option
@verbose_option
@click.pass_context
def runs(ctx: click.Context, where: str | None, metadata: str | None, as_json: bool) -> None:
    """List the pipeline runs in ML Metadata.

    METADATA is a sqlite file, the output folder of `convert`, mysql://user:password@host:port/database
    or grpc://host:port.  [default: metadata.sqlite]

    \b
    tfx-shards runs out/metadata.sqlite
    tfx-shards runs --metadata out/ --json
    """
    if where is not None and metadata is not None:
        raise click.UsageError(f"METADATA is given twice: {where!r} and {metadata!r}", ctx)
    metadata = where or metadata or METADATA_FILE
    require_tfx("runs")
    list_runs = importlib.import_module("pipelines.lineage").list_runs
    if os.path.isdir(metadata):
        metadata = os.path.join(metadata, METADATA_FILE)
    with quiet(ctx), show_progress("Reading ML Metadata"):
        found = list_runs(metadata)
    print_facts(found.to_json, found.__str__, as_json=as_json)
