"""`tfx-shards report`: a page that shows what is in a dataset."""

import click

from pipelines.cli.options import dataset_argument, verbose_option
from pipelines.cli.output import print_messages, show_progress
from pipelines.cli.process import quiet, require_tfx

__all__ = ["report"]


@click.command()
@dataset_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Most records of each split to read.",
)
@click.option(
    "--statistics",
    metavar="URI",
    help="TFX's ExampleStatistics of the dataset, which the page shows beside its own.",
)
@verbose_option
def report(uri: str, output: str, sample: int, statistics: str | None) -> None:
    """Write a page that shows what is in a dataset: one HTML file that needs no network.

    Splits, shards, labels, statistics of each feature, pictures by class, wave forms, texts,
    rejects, settings, and what `doctor` would say. URI is any dataset that `inspect` reads.

    \b
    tfx-shards report out/ -o report.html
    """
    if statistics is not None:
        require_tfx("report --statistics")
    from components.report.page import write_report

    with quiet(), show_progress("Reading") as advance:
        write_report(uri, output, sample_records=sample, statistics=statistics, advance=advance)
    print_messages(f"Written: {output}")
