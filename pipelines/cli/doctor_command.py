"""`tfx-shards doctor`: what will hurt, and the cure."""

import dataclasses

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress

__all__ = ["doctor"]


@click.command()
@dataset_argument(required=False)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Default: as TF_CONFIG says, or 1.",
)
@click.option("--strategy", help="mirrored, multi-worker, parameter-server, tpu or one-device.")
@json_option
@verbose_option
def doctor(
    uri: str | None,
    workers: int | None,
    strategy: str | None,
    as_json: bool,
) -> None:
    """Say what on this machine, or in a dataset, will hurt, with the cure; exit 1 if it will fail.

    Looks at Python and package versions, Keras and the strategy, GPUs, cores, memory and its
    limit, disk and shared memory; of a dataset at its manifest, shards, compression, rejects and
    classes.

    \b
    tfx-shards doctor
    tfx-shards doctor out/ --workers 8 --strategy multi-worker
    """
    from pipelines.tools.doctor import checks_table, examine, is_good

    with show_progress("Examining"):
        checks = examine(uri, workers=workers, strategy=strategy)
    facts = {"good": is_good(checks), "checks": [dataclasses.asdict(check) for check in checks]}
    print_facts(lambda: facts, lambda: [checks_table(checks)], as_json=as_json)
    click.get_current_context().exit(0 if facts["good"] else 1)
