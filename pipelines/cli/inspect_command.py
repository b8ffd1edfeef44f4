"""`tfx-shards inspect`: what a dataset says of itself."""

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts

__all__ = ["inspect"]


@click.command()
@dataset_argument
@json_option
@verbose_option
def inspect(uri: str, as_json: bool) -> None:
    """Show what is in a dataset: splits, shards, features, label counts, rejects.

    URI is the folder of a dataset, of ours or of Datum, TFDS or TFX, or the output folder of
    `convert`. Only its small files are read; `verify` reads the records.

    \b
    tfx-shards inspect out/
    tfx-shards inspect gs://bucket/photos
    tfx-shards inspect out/ --json | jq .splits.train.records
    """
    from pipelines.tools.inspection import inspect_dataset

    facts = inspect_dataset(uri)
    print_facts(facts.to_json, facts.parts, as_json=as_json)
