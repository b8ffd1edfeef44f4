"""`tfx-shards diff`: what is different between two datasets."""

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress

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
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="A page to write too, with the pictures and values of both.",
)
@json_option
@verbose_option
def diff(before: str, after: str, most: int, output: str | None, as_json: bool) -> None:
    """Show which records were added, removed, changed, or moved to another split.

    Records are the same where their names are: `filename` or `id`. BEFORE and AFTER are any
    datasets that `inspect` reads. The exit status is 0 whether they differ or not.

    \b
    tfx-shards diff out/artifacts/ShardBalancer/balanced_examples/4 out/
    tfx-shards diff before/ after/ --json | jq .counts
    tfx-shards diff before/ after/ -o diff.html
    """
    from pipelines.tools.diff import compare_datasets
    from trainer_utils.dataset.location import newest_dataset

    if output is not None:
        try:
            from pipelines.tools.diff.page import render_difference
            from pipelines.tools.html import write_page
        except ModuleNotFoundError as error:
            raise click.UsageError(
                f"--output: needs {error.name}: pip install {error.name}"
            ) from None
    uris = newest_dataset(before), newest_dataset(after)
    with show_progress("Comparing") as advance:
        found = compare_datasets(*uris, most=most, advance=advance)
    if output is not None:
        write_page(output, render_difference(found))
        print_messages(f"Written: {output}")
    print_facts(found.to_json, found.parts, as_json=as_json)
