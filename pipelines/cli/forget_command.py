"""`tfx-shards forget`: records taken out of all that lies below a folder, with a certificate."""

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress
from pipelines.cli.process import quiet

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
    "--content",
    "with_content",
    is_flag=True,
    help="Take out records too that hold the same under another name.",
)
@click.option(
    "--cache",
    "caches",
    metavar="FOLDER",
    multiple=True,
    help="The cache_dir of a trainer on this machine, where it is not below ROOT.",
)
@click.option("--metadata", metavar="STORE", help="ML Metadata, as lineage takes it.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="The certificate. Default: forgotten-….json in ROOT.",
)
@click.option("--plain-names", is_flag=True, help="Names in the certificate, not their SHA-256.")
@click.option("--dry-run", is_flag=True, help="List what would be taken out, and change nothing.")
@json_option
@verbose_option
def forget(
    names: tuple[str, ...],
    roots: tuple[str, ...],
    listed: str | None,
    with_content: bool,
    caches: tuple[str, ...],
    metadata: str | None,
    output: str | None,
    plain_names: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take records out of all datasets, caches and unfinished runs below a folder.

    NAME is a record's filename, id or record_id. Datasets are rewritten in their place, whole at
    every moment; a run that was killed is finished by the next. What was done stands in a
    certificate. The exit status is 1 if something still holds a record, such as a raw file.
    No other program may write below ROOT meanwhile.

    \b
    tfx-shards forget cat/1.jpg cat/2.jpg --in runs/ --dry-run
    tfx-shards forget --file withdrawn.txt --in runs/ --content -o certificate.json
    """
    from pipelines.lineage.trained_models import trace_models
    from pipelines.tools.forget import forget as run
    from trainer_utils.storage import read_text

    lines = [] if listed is None else read_text(listed).removeprefix("\ufeff").splitlines()
    with quiet(), show_progress("Searching") as advance:
        done = run(
            [*names, *(line for line in lines if line.strip())],
            roots,
            with_content=with_content,
            output=output,
            caches=caches,
            plain_names=plain_names,
            is_dry_run=dry_run,
            trace=lambda uri: trace_models(uri, metadata=metadata),
            advance=advance,
        )
    if done.path is not None:
        print_messages(f"Written: {done.path}")
    certificate = done.certificate
    print_facts(certificate.to_json, lambda: certificate.parts(done.names), as_json=as_json)
    click.get_current_context().exit(0 if certificate.is_complete else 1)
