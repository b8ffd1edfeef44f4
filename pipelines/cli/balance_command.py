"""`tfx-shards balance`: a dataset anew, its records left out, relabelled or joined by others."""

from typing import Any

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress
from pipelines.cli.process import end_if_interrupted, import_tfx_core, quiet, require_tfx
from pipelines.cli.setting_flags import CommandWithSettings, balancer_section, given_settings

__all__ = ["balance"]


@click.command(cls=CommandWithSettings, sections=balancer_section)
@click.argument("uri", metavar="URI")
@click.argument("out", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would be made, without making it.")
@json_option
@verbose_option
def balance(uri: str, out: str | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Write a dataset anew: in equal shards, with records left out, added or relabelled.

    URI is any dataset that `inspect` reads. OUT gets the new one with its lineage, as `convert`
    leaves it; the old one stays as it is.

    \b
    tfx-shards balance out/ balanced/ --num-shards 8
    tfx-shards balance out/ clean/ --exclude bad.txt --relabel new-labels.csv --keep-shards
    tfx-shards balance out/ large/ --where "height >= 64 and label != 'unknown'"
    tfx-shards balance out/ grown/ --add more/ --keep-shards --dry-run
    """
    require_tfx("balance")
    if out is None and not dry_run:
        raise click.UsageError("Missing argument 'OUT': a folder for the dataset.")
    settings = given_settings(given)
    from pipelines.tools.conversion.balancing import balance as run
    from pipelines.tools.conversion.balancing import check_balancing

    check_balancing(out or ".", settings)
    if dry_run:
        with quiet(), show_progress("Planning"):
            from components.shard_balancer import plan
            from trainer_utils.dataset.location import newest_dataset

            planned = plan(newest_dataset(uri), **settings)
        print_facts(planned.to_dict, planned.__str__, as_json=as_json)
        return
    print_messages("Starting TFX (some seconds) …")
    with quiet(), show_progress("Starting TFX"):
        import_tfx_core()
    end_if_interrupted()
    with quiet(), show_progress("Balancing"):
        made = run(uri, str(out), **settings)
    print_facts(lambda: {"uri": made}, lambda: made, as_json=as_json)
