"""`tfx-shards plan`: what each worker will read."""

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, show_progress
from pipelines.cli.process import quiet

__all__ = ["plan"]


@click.command()
@dataset_argument
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    help="Number of replicas over all workers. Default: one each.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Records in a global batch.",
)
@click.option("--split", help="A split or a slice, such as 'train[:80%]'. Default: train.")
@click.option(
    "--remainder",
    type=click.Choice(["drop", "pad", "balance"]),
    help="What becomes of records that fill no whole batch. Default: a smaller last batch.",
)
@click.option("--no-shuffle", is_flag=True, help="Read in the order of the files.")
@json_option
@verbose_option
def plan(
    uri: str,
    workers: int,
    replicas: int | None,
    batch_size: int,
    split: str | None,
    remainder: str | None,
    no_shuffle: bool,
    as_json: bool,
) -> None:
    """Show what each worker will read: records, steps, dropped or padded.

    No record is read. A plan that is impossible, such as a batch that the workers cannot share,
    is an error that says what to change: exit 1.

    \b
    tfx-shards plan out/ --workers 8 --batch-size 256
    tfx-shards plan out/ --workers 8 --batch-size 256 --remainder pad --json
    """
    import trainer_utils

    try:
        with quiet(), show_progress("Planning"):
            made = trainer_utils.plan(
                uri,
                split,
                workers=workers,
                replicas=replicas,
                batch_size=batch_size,
                remainder=remainder,
                shuffle=not no_shuffle,
            )
    except trainer_utils.ConfigError as error:
        raise trainer_utils.DatasetError(str(error)) from error
    print_facts(made.to_dict, lambda: str(made), as_json=as_json)
