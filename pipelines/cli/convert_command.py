"""`tfx-shards convert`: raw files to a balanced dataset."""

import csv
import dataclasses
import os
from typing import Any

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, say
from pipelines.cli.process import quiet, require_tfx
from pipelines.cli.values import Bytes, Counts, parse_json_or_text

__all__ = ["convert"]

_KINDS = ("image", "text", "audio")


@click.command(short_help="Raw files to a balanced dataset, its lineage kept.")
@click.argument("source", metavar="SRC")
@click.argument("out", required=False)
@click.option("--kind", type=click.Choice(_KINDS), help="Default: told by what is there.")
@click.option("--layout", help="Of the files, such as folder, csv or voc. Default: recognised.")
@click.option(
    "--splits",
    type=Counts(),
    metavar="NAME=SHARE,…",
    help="That a hash assigns, such as train=8,eval=1,test=1. Default: what the files say, or "
    "train=2,eval=1.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=KIND",
    help="What a column of a table is: int, float, string, text, label, image, audio, split, "
    "ignore. Default: by names and values.",
)
@click.option(
    "--columns",
    "column_names",
    metavar="NAME,…",
    help="The names of the columns of a CSV or TSV without a header, such as text,label.",
)
@click.option(
    "--header", is_flag=True, default=None, help="The first row of each CSV or TSV has the names."
)
@click.option(
    "--image-root",
    "image_roots",
    multiple=True,
    metavar="DIR",
    help="A folder beside SRC that a list of images or sounds may point into. Repeatable.",
)
@click.option(
    "--num-shards",
    type=Counts(bare=True),
    metavar="N or NAME=N,…",
    help="Of each split. Default: by their size.",
)
@click.option("--target-shard-bytes", type=Bytes(), help="Such as 128MiB, the default.")
@click.option("--group-by", metavar="COLUMN", help="Equal values share a split.")
@click.option("--stratify", is_flag=True, default=None, help="Splits keep the share of each class.")
@click.option("--compression", type=click.Choice(["none", "gzip"]))
@click.option("--seed", type=int, help="Of splits and orders.")
@click.option(
    "--max-reject-fraction",
    type=click.FloatRange(0, 1),
    help="Of the inputs that may be bad before the run fails. Default: 0.01.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other option of the ExampleGen or ShardBalancer; VALUE is JSON or a text.",
)
@click.option("--metadata", type=click.Path(dir_okay=False), help="Default: OUT/metadata.sqlite.")
@click.option("--dry-run", is_flag=True, help="Show what would be made, and make nothing.")
@json_option
@verbose_option
@click.pass_context
def convert(
    ctx: click.Context,
    source: str,
    out: str | None,
    kind: str | None,
    metadata: str | None,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Turn images, texts or sounds into a balanced dataset of TFRecord shards.

    SRC is a folder, a table or an archive, local or gs://. OUT gets the artifacts of the TFX
    pipeline that does it, their lineage in metadata.sqlite, and `latest`, a link to the newest
    dataset, whose uri is printed. What did not change is not made again.

    \b
    tfx-shards convert photos/ out/
    tfx-shards convert reviews.csv out/ --splits train=8,eval=2 --column stars=float
    tfx-shards convert clips/ out/ --set sample_rate=16000 --num-shards train=8,eval=2
    tfx-shards convert photos/ --dry-run
    """
    require_tfx("convert")
    if out is None and not dry_run:
        raise click.UsageError("Missing argument 'OUT': a folder for the dataset.", ctx)
    options = _options(given)
    from pipelines.tools.conversion.settings import check_places, prepare

    with quiet(ctx):
        conversion = prepare(source, kind=kind, **options)
    if out is not None:
        check_places(conversion.source, out, metadata)
    if kind is None:
        say(f"{source}: {conversion.seen}")
    if ctx.find_root().meta.get("verbose"):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")  # so that its import is heard as well
    say("Starting TFX (some seconds) …")
    with quiet(ctx):
        if dry_run:
            from pipelines.tools.conversion.dry_run import plan_prepared

            planned = dataclasses.replace(plan_prepared(conversion), source=source)
        else:
            from pipelines.tools.conversion.convert import run_conversion

            made = run_conversion(conversion, str(out), metadata=metadata)
    if dry_run:
        print_facts(planned.to_json, planned.parts, as_json=as_json)
        return
    if not as_json:
        say(*str(made).split("\n"))
    print_facts(made.to_json, lambda: made.uri, as_json=as_json)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as `pipelines.convert` takes them."""
    settings, columns = given.pop("settings"), given.pop("columns")
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if "image_roots" in options:
        options["image_roots"] = [*options["image_roots"]]
    if "column_names" in options:
        options["column_names"] = _names(options["column_names"])
    if columns:
        options["columns"] = {}
        for column in columns:
            name, found, kind = column.rpartition("=")
            if not found or not name:
                raise click.BadParameter(
                    f"expected NAME=KIND, got {column!r}", param_hint="--column"
                )
            options["columns"][name] = kind
    for name, value in map(parse_json_or_text, settings):
        if name in options:
            raise click.BadParameter(f"{name} is given twice", param_hint="--set")
        options[name] = value
    return options


def _names(given: str) -> list[str]:
    """`text,label`; a name with a comma in it in quotes, as in a CSV."""
    return [name.strip() for name in next(csv.reader([given], skipinitialspace=True), [])]
