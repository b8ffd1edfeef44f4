"""Options and arguments that several commands take.

@dataset_argument        # or @files_argument
@json_option
@verbose_option
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import click

from pipelines.cli.process import quiet_libraries

__all__ = ["dataset_argument", "files_argument", "json_option", "verbose_option"]

Command: TypeAlias = Callable[..., Any]  # a function, or what click has made of one


def json_option(command: Command) -> Command:
    """`--json`, as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document in place of text."
    )(command)


def verbose_option(command: Command) -> Command:
    """`--verbose`; without it the logs of TensorFlow and TFX stay off the terminal."""

    def set_up(ctx: click.Context, _: click.Parameter, verbose: bool) -> None:
        ctx.find_root().meta["verbose"] = verbose
        if not verbose and not ctx.resilient_parsing:
            quiet_libraries()

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_up,
        help="Show the logs of TensorFlow and TFX, and tracebacks.",
    )(command)


def dataset_argument(command: Command) -> Command:
    """`URI`: of a dataset, or the folder that `convert` was given for its output."""
    return click.argument("uri", callback=_find_dataset)(command)


def _find_dataset(ctx: click.Context, param: click.Parameter, uri: str) -> str | None:
    from trainer_utils.dataset.location import newest_dataset

    if ctx.resilient_parsing:
        return None
    if not uri:
        raise click.BadParameter("expected a folder or a url, got an empty text", ctx, param)
    return newest_dataset(uri)


def files_argument(command: Command) -> Command:
    """`URI …`, as `place`: a dataset as of `dataset_argument`, or files of TFRecords."""
    return click.argument("place", metavar="URI...", nargs=-1, required=True, callback=_find_files)(
        command
    )


def _find_files(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> str | tuple[str, ...] | None:
    return given if len(given) > 1 else _find_dataset(ctx, param, *given)
