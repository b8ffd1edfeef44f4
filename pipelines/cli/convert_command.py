"""`tfx-shards convert`: raw files to a balanced dataset."""

import dataclasses
import os
from typing import Any

import click

from pipelines.cli.options import json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages, show_progress
from pipelines.cli.process import (
    end_if_interrupted,
    import_tfx_core,
    is_verbose,
    quiet,
    require_tfx,
)
from pipelines.cli.setting_flags import CommandWithSettings, given_settings
from pipelines.cli.values import Counts, parse_json_or_text

__all__ = ["convert"]

_KINDS = ("image", "text", "audio")


@click.command(cls=CommandWithSettings)
@click.argument("source", metavar="SRC")
@click.argument("out", required=False)
@click.option(
    "--kind",
    type=click.Choice(_KINDS),
    help="Kind of the input. Default: recognised from the files.",
)
@click.option(
    "--splits",
    type=Counts(),
    metavar="NAME=SHARE,…",
    help="Splits that a hash assigns, such as train=8,eval=1,test=1. Default: what the files "
    "say, or train=2,eval=1.",
)
@click.option(
    "--set",
    "others",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any of the settings below by its name in Python, such as vocabulary; VALUE is JSON or a "
    "text.",
)
@click.option(
    "--beam-arg",
    "beam_args",
    multiple=True,
    metavar="--FLAG=VALUE",
    help="A flag for Beam, such as --beam-arg=--runner=DataflowRunner; may be repeated.",
)
@click.option("--metadata", type=click.Path(dir_okay=False), help="Default: OUT/metadata.sqlite.")
@click.option("--dry-run", is_flag=True, help="Show what would be made, without making it.")
@json_option
@verbose_option
def convert(
    source: str,
    out: str | None,
    kind: str | None,
    beam_args: tuple[str, ...],
    metadata: str | None,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Turn images, texts or sounds into a balanced dataset of TFRecord shards.

    SRC is a folder, a table or an archive, local or in a bucket, or an .npz of arrays. OUT gets the
    artifacts of the TFX pipeline that does it, their lineage in metadata.sqlite, and `latest`, a
    link to the newest dataset, whose uri is printed. What did not change is not made again.

    \b
    tfx-shards convert photos/ out/
    tfx-shards convert reviews.csv out/ --splits train=8,eval=2 --column stars=float
    tfx-shards convert clips/ out/ --sample-rate 16000 --num-shards train=8,eval=2
    tfx-shards convert photos/ --dry-run
    """
    require_tfx("convert")
    if out is None and not dry_run:
        raise click.UsageError("Missing argument 'OUT': a folder for the dataset.")
    options = _options(given)
    if beam_args:
        options["beam_pipeline_args"] = list(beam_args)
    with quiet(), show_progress("Looking at the input"):
        from pipelines.tools.conversion.python_sources import is_array_file
        from pipelines.tools.conversion.settings import check_places, prepare
        from pipelines.tools.conversion.staging import stage

        if out is not None and is_array_file(source):
            check_places("", out, metadata)
            flags = {n: options.pop(n) for n in ("beam_pipeline_args",) if n in options}
            staged = stage(source, out, kind=kind, options=options)
            source, kind, options = staged.source, staged.kind, {**staged.options, **flags}
        conversion = prepare(source, kind=kind, **options)
        if out is not None:
            check_places(conversion.source, out, metadata)
    if kind is None:
        print_messages(f"{source}: {conversion.seen}")
    if is_verbose():
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")  # so that its import is heard as well
    if dry_run:
        with quiet(), show_progress("Planning"):
            from pipelines.tools.conversion.dry_run import plan_prepared

            planned = dataclasses.replace(plan_prepared(conversion), source=source)
        print_facts(planned.to_json, planned.parts, as_json=as_json)
        return
    with quiet(), show_progress("Looking at the input"):
        from pipelines.tools.conversion.dry_run import check_small_table

        check_small_table(conversion)
    end_if_interrupted()
    print_messages("Starting TFX (some seconds) …")
    with quiet(), show_progress("Starting TFX"):
        import_tfx_core()
        from pipelines.tools.conversion.convert import run_conversion
    end_if_interrupted()
    with quiet():
        made = run_conversion(conversion, str(out), metadata=metadata)
    if not as_json:
        print_messages(*made.summary().split("\n"))
    print_facts(made.to_json, lambda: made.uri, as_json=as_json)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as `pipelines.convert` takes them."""
    others = given.pop("others")
    options = given_settings(given)
    for name, value in map(parse_json_or_text, others):
        if name in options:
            raise click.BadParameter(f"{name} is given twice", param_hint="--set")
        options[name] = value
    return options
