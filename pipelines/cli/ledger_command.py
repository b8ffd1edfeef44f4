"""`tfx-shards ledger`: which records a training run saw at which step."""

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress
from pipelines.cli.process import quiet

__all__ = ["ledger"]


@click.command()
@click.argument("run")
@click.option("--step", type=click.IntRange(min=0), help="The records of its global batch, from 0.")
@click.option("--record", metavar="NAME", help="The steps that saw it: its filename or id.")
@click.option("--place", metavar="SPLIT:NUMBER", help="The same by its number in a split.")
@click.option(
    "--dataset",
    "datasets",
    metavar="URI",
    multiple=True,
    help="Where the dataset lies now; of several, each in the order in which it was read.",
)
@json_option
@verbose_option
def ledger(
    run: str,
    step: int | None,
    record: str | None,
    place: str | None,
    datasets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Tell which records a training run saw at which step.

    RUN is the folder that InputProgress was given, where each checkpoint leaves some hundred bytes.
    Without --step, --record or --place: what was read, and where the run was started anew. Steps
    that were trained after the last checkpoint and lost with the process are none of the run's.

    \b
    tfx-shards ledger checkpoints/ --step 1234
    tfx-shards ledger checkpoints/ --record cat/1.jpg --json
    tfx-shards ledger checkpoints/ --place train:17
    """
    from pipelines.tools.ledger import RunLedger

    if sum(asked is not None for asked in (step, record, place)) > 1:
        raise click.UsageError("--step, --record, --place: expected one of them")
    with quiet(), show_progress("Reading the ledger"):
        saw = RunLedger(run, datasets=datasets)
        found = (
            saw.at_step(step)
            if step is not None
            else saw.of_record(record)
            if record is not None
            else saw.of_place(*_place(place))
            if place is not None
            else saw.summary()
        )
    print_facts(found.to_json, found.parts, as_json=as_json)


def _place(text: str) -> tuple[str, int]:
    split, _, number = text.rpartition(":")
    if not split or not number.isascii() or not number.isdigit():
        raise click.UsageError(
            f"--place: expected a split and a number such as train:17, got {text!r}"
        )
    return split, int(number)
