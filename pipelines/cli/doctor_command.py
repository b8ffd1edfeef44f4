"""`tfx-shards doctor`: what will hurt, and the cure."""

import dataclasses

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress

__all__ = ["doctor"]


@click.command()
@dataset_argument
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many will read it.",
)
@json_option
@verbose_option
def doctor(uri: str, workers: int, as_json: bool) -> None:
    """Say what in a dataset will hurt a training, with the cure; exit 1 if it will fail.

    Looks at its manifest, shards, compression, rejects and classes; reads no record.

    \b
    tfx-shards doctor out/ --workers 8
    """
    from components.report.doctor import checks_table, dataset_checks, is_good

    with show_progress("Examining"):
        checks = list(dataset_checks(uri, workers=workers))
    facts = {"good": is_good(checks), "checks": [dataclasses.asdict(check) for check in checks]}
    print_facts(lambda: facts, lambda: [checks_table(checks)], as_json=as_json)
    click.get_current_context().exit(0 if facts["good"] else 1)
