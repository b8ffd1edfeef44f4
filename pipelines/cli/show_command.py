"""`tfx-shards show`: records of a dataset, on the terminal or as files."""

import click

from pipelines.cli.options import files_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress

__all__ = ["show"]


@click.command()
@files_argument
@click.option("--split", help="A split or a slice: 'train[100:]'. Default: the first split.")
@click.option("--record", metavar="NAME", help="Those of this filename or id, in any split.")
@click.option(
    "-n",
    "--number",
    "count",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Most records to show.",
)
@click.option(
    "--export",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a CSV, and images, sounds and long texts as files, into an empty folder.",
)
@json_option
@verbose_option
def show(
    place: str | tuple[str, ...],
    split: str | None,
    record: str | None,
    count: int,
    folder: str | None,
    as_json: bool,
) -> None:
    """Show records: numbers, texts, names of labels, what images and sounds are.

    URI is any dataset or files that `inspect` reads. Only the records that are shown are read,
    where there is an index.

    \b
    tfx-shards show out/
    tfx-shards show out/ --split 'eval[100:]' -n 5
    tfx-shards show out/ --record cat/1.jpg
    tfx-shards show out/ -n 100 --export looked-at/
    """
    from components.report.records import (
        ExampleReader,
        as_text,
        export_examples,
        read_examples,
    )
    from components.report.records.display import EXAMPLES_FILE
    from trainer_utils.text_output import quantity

    if split is not None and record is not None:
        raise click.UsageError("--split, --record: expected one of them")
    if record is not None:
        found = ExampleReader(place).named(record, count=count)
    else:
        found = read_examples(place, split, count=count)
    if folder is not None:
        with show_progress("Writing"):
            written = export_examples(found, folder)
        print_messages(f"{quantity(written, 'record')}: {folder}/{EXAMPLES_FILE}")
        return
    with show_progress("Reading"):
        examples = list(found)
    print_facts(
        lambda: [example.to_json() for example in examples],
        lambda: as_text(examples),
        as_json=as_json,
    )
