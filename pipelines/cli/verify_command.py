"""`tfx-shards verify`: every checksum and every record."""

import click

from pipelines.cli.options import files_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress

__all__ = ["verify"]


@click.command()
@files_argument
@json_option
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Processes that read at once. Default: one per core.",
)
@verbose_option
def verify(place: str | tuple[str, ...], as_json: bool, processes: int | None) -> None:
    """Read a whole dataset and check all of it; exit 1 if there is any problem.

    Checks the size and checksum of each published file, both checksums of each record, record
    counts, record indices, Datum's JSON, rejects and label counts, and lists every problem with
    file, record and byte. Without a manifest, as others write datasets, it checks the records;
    so it does with TFRecord files, by name or pattern.

    \b
    tfx-shards verify out/
    tfx-shards verify out/ --json | jq '.problems[].path'
    """
    from pipelines.tools.verification import verify_dataset
    from trainer_utils.machine import usable_cores

    with show_progress("Verifying") as advance:
        found = verify_dataset(place, processes=processes or usable_cores(), advance=advance)
    print_facts(found.to_json, found.__str__, as_json=as_json)
    click.get_current_context().exit(0 if found.is_good else 1)
