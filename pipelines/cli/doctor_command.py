"""`tfx-shards doctor`: what will hurt, and the cure."""

import dataclasses

import click

from pipelines.cli.console import dataset_argument, json_option, print_facts, verbose_option

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command(short_help="What will hurt, on this machine or in a dataset, and the cure.")
@dataset_argument(required=False)
@click.option("--workers", type=click.IntRange(min=1), help="Default: as TF_CONFIG says, or 1.")
@click.option("--strategy", help="mirrored, multi-worker, parameter-server, tpu or one-device.")
@json_option
@verbose_option
@click.pass_context
def doctor(
    ctx: click.Context,
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
    from pipelines.tools.doctor import examine
    from trainer_utils.format.printable import printable

    checks = examine(uri, workers=workers, strategy=strategy)
    is_good = all(check.level != "bad" for check in checks)
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        level = click.style(f"{check.level:<4}", fg=_COLOURS[check.level])
        lines.append(f"{level}  {check.name:<{width}}  {printable(check.message)}")
        if check.cure:
            lines.append(f"{'':4}  {'':{width}}  → {printable(check.cure)}")
    facts = {"good": is_good, "checks": [dataclasses.asdict(check) for check in checks]}
    print_facts(facts, "\n".join(lines), as_json=as_json, is_styled=True)
    ctx.exit(0 if is_good else 1)
