"""`tfx-shards audit`: copies, leakage, conflicts of labels, shifts."""

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress
from pipelines.cli.values import Names

__all__ = ["audit"]


@click.command()
@dataset_argument
@click.option("--against", metavar="URI", help="An earlier dataset to compare it with.")
@click.option(
    "--fail-on",
    type=Names(),
    default="",
    help="Kinds of findings that make the exit status 1, such as leakage,label_conflict.",
)
@click.option(
    "--label",
    default="label",
    show_default=True,
    help="The feature that has the class of a record.",
)
@click.option(
    "--most",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Findings of each kind to list; all are counted.",
)
@json_option
@verbose_option
def audit(
    uri: str, against: str | None, fail_on: list[str], label: str, most: int, as_json: bool
) -> None:
    """Find what makes a dataset less than it seems.

    Records of the same or nearly the same content, within splits and across them (leakage); equal
    content with unlike labels; classes that a split lacks; shifts of labels, sizes, brightness,
    lengths and words between splits and from an earlier dataset; images that are blank, dark,
    blurred, odd in shape or size.

    \b
    tfx-shards audit out/ --fail-on leakage,label_conflict
    tfx-shards audit out/ --against before/ --json | jq .counts
    """
    from trainer_utils.auditing import audit_dataset, check_kinds
    from trainer_utils.dataset.location import newest_dataset

    kinds = check_kinds("--fail-on", fail_on)
    earlier = None if against is None else newest_dataset(against)
    with show_progress("Auditing") as advance:
        found = audit_dataset(uri, against=earlier, label=label, most=most, advance=advance)
    print_facts(found.to_json, found.parts, as_json=as_json)
    if failing := found.failing(kinds):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in failing.items())
        print_messages(f"Error: found {counts}")
        click.get_current_context().exit(1)
