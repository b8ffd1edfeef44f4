"""`tfx-shards inspect`: what a dataset says of itself."""

import click

from pipelines.cli.options import files_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress

__all__ = ["inspect"]


@click.command()
@files_argument
@json_option
@verbose_option
def inspect(place: str | tuple[str, ...], as_json: bool) -> None:
    """Show what is in a dataset: splits, shards, features, label counts, rejects.

    URI is the folder of a dataset, of ours or of Datum, TFDS or TFX, of any TFRecord files, or
    the output folder of `convert`; or TFRecord files, by name or pattern. Only small files are
    read, where they say what the records hold; `verify` reads the records.

    \b
    tfx-shards inspect out/
    tfx-shards inspect gs://bucket/photos
    tfx-shards inspect 'imagenet/train-*'
    tfx-shards inspect out/ --json | jq .splits.train.records
    """
    from components.report.inspection import inspect_dataset

    with show_progress("Reading"):
        facts = inspect_dataset(place)
    print_facts(facts.to_json, facts.parts, as_json=as_json)
