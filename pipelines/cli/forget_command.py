"""`tfx-shards forget`: records taken out of all that lies below a folder, with a certificate."""

import sys

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress

__all__ = ["forget"]


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--in",
    "roots",
    metavar="ROOT",
    multiple=True,
    required=True,
    help="The folder to search; several may be given.",
)
@click.option(
    "--file",
    "listed",
    type=click.Path(exists=True, dir_okay=False),
    help="A file of further names, one a line.",
)
@click.option(
    "--cache",
    "caches",
    metavar="FOLDER",
    multiple=True,
    help="The cache= folder of a trainer on this machine, where it is not below ROOT.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="The certificate. Default: forgotten-….json in ROOT.",
)
@click.option("--plain-names", is_flag=True, help="Names in the certificate, not their SHA-256.")
@click.option("--dry-run", is_flag=True, help="List what would be taken out, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before datasets are rewritten.")
@json_option
@verbose_option
def forget(
    names: tuple[str, ...],
    roots: tuple[str, ...],
    listed: str | None,
    caches: tuple[str, ...],
    output: str | None,
    plain_names: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Take records out of all datasets below a folder.

    NAME is a record's filename, id or record_id. Datasets are rewritten beside the old ones, which
    they then replace; a run that was killed is finished by the same command. What was done stands
    in a certificate. The exit status is 1 if anything still names a record, such as a raw file.
    No other program may write below ROOT meanwhile.

    \b
    tfx-shards forget cat/1.jpg cat/2.jpg --in runs/ --dry-run
    tfx-shards forget --file withdrawn.txt --in runs/ --yes -o certificate.json
    """
    from pipelines.tools.forget import Forgetting
    from trainer_utils.storage import read_text

    lines = [] if listed is None else read_text(listed).removeprefix("\ufeff").splitlines()
    with show_progress("Searching") as advance:
        found = Forgetting.find(
            [*names, *(line for line in lines if line.strip())],
            roots,
            output=output,
            caches=caches,
            plain_names=plain_names,
            advance=advance,
        )
    if not dry_run:
        if not yes and is_terminal():
            print_messages(*str(found).split("\n"))
            try:
                is_wanted = click.confirm("Take them out?", err=True)
            except click.Abort:
                raise KeyboardInterrupt from None
            if not is_wanted:
                raise click.ClickException("Nothing was changed.")
        with show_progress("Rewriting") as advance:
            found.carry_out(advance=advance)
        print_messages(f"Written: {found.path}")
    print_facts(found.to_json, found.parts, as_json=as_json)
    click.get_current_context().exit(0 if found.certificate["complete"] else 1)


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
