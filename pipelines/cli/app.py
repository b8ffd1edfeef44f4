"""The group of all commands; an error becomes one sentence and an exit status.

app.main(["inspect", "out/"], prog_name="tfx-shards")
"""

import sys
import traceback
from typing import Any

import click

from pipelines.cli import commands  # noqa: F401  registers the commands
from pipelines.cli.signatures import COMMANDS, Group
from pipelines.cli.terminal import is_verbose, take_over_process

_PROGRAM = "tfx-shards"


class _BadData(click.ClickException):
    exit_code = 1


class _BadUsage(click.ClickException):
    exit_code = 2


class _Interrupted(click.ClickException):
    exit_code = 130  # the status of a shell after Ctrl-C


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of definition

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group, each with the first sentence of its help in full."""
        for group in Group:
            members = [
                (name, command) for name, command in COMMANDS.items() if command.group is group
            ]
            with formatter.section(group.value):
                lines = [
                    (name, (command.help or "").partition("\n")[0]) for name, command in members
                ]
                formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown one suggests a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from trainer_utils.core.errors import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or f" Expected one of {', '.join(COMMANDS)}."
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn an exception into an error message of one sentence."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort) as error:
            raise _Interrupted(": ".join(["interrupted", *map(str, error.args)])) from None
        except Exception as error:
            from trainer_utils.core.printable import printable

            if is_verbose():
                print(printable(traceback.format_exc(), keep="\n"), file=sys.stderr, end="")
            raise _failure(error) from error


def _failure(error: Exception) -> click.ClickException:
    """Return the message and exit status for an error of a command."""
    from trainer_utils.core.errors import ConfigError, CorruptShardError, TfxShardsError
    from trainer_utils.core.printable import printable

    if isinstance(error, ConfigError):
        return _BadUsage(str(error))
    if isinstance(error, TfxShardsError):
        if isinstance(error, CorruptShardError) and error.path:
            from pipelines.tools.conversion.run_record import note_failed_read

            note_failed_read(error.path)
        return _BadData(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!r}: " if error.filename else ""
        return _BadData(f"{where}{error.strerror}")
    what = printable(f"{type(error).__name__}: {error}")
    return _BadData(f"unexpected {what}. Run it with --verbose to see where.")


@click.group(
    cls=_Commands,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0; 1 for bad data; 2 for bad usage. docs/cli.md shows each command.",
)
@click.version_option(package_name="tfx-shards", prog_name=_PROGRAM, message="%(prog)s %(version)s")
def app() -> None:
    """Convert raw files to datasets of TFRecord shards, and inspect, check and change datasets.

    \b
    tfx-shards convert photos/ out/     # raw files to a balanced dataset
    tfx-shards inspect out/             # its splits, shards and features
    tfx-shards show out/                # some of its records
    tfx-shards verify out/              # check every record
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with the exit status.

    Args:
        arguments: the arguments; None for the arguments of the process.
    """
    take_over_process()
    try:
        app.main(args=arguments, prog_name=_PROGRAM)
    except KeyboardInterrupt:  # outside of any command
        click.echo("Error: interrupted", err=True)
        sys.exit(_Interrupted.exit_code)
    sys.exit(0)
