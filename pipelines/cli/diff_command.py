"""`tfx-shards diff`: what is different between two datasets."""

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress

__all__ = ["diff"]


@click.command()
@click.argument("before")
@click.argument("after")
@click.option(
    "--most",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Changes of each kind to list; all are counted.",
)
@json_option
@verbose_option
def diff(before: str, after: str, most: int, as_json: bool) -> None:
    """Show which records were added, removed, changed, or moved to another split.

    Records are the same where their names are: `filename` or `id`. BEFORE and AFTER are any
    datasets that `inspect` reads. The exit status is 0 whether they differ or not.

    \b
    tfx-shards diff out/artifacts/ShardBalancer/balanced_examples/4 out/
    tfx-shards diff before/ after/ --json | jq .counts
    """
    from pipelines.tools.diff import compare_datasets
    from trainer_utils.dataset.location import newest_dataset

    uris = newest_dataset(before), newest_dataset(after)
    with show_progress("Comparing") as advance:
        found = compare_datasets(*uris, most=most, advance=advance)
    print_facts(found.to_json, found.parts, as_json=as_json)
