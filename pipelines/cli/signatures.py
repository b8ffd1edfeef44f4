"""Make commands from functions; the signature and the settings define arguments and flags.

    @command(Group.CHECK)
    def audit(uri: Dataset, *, against: Annotated[str | None, "URI"] = None):
        '''Find problems in the content of a dataset.

        Args:
            against: An earlier dataset to compare it with.
        '''
        return audit_dataset(uri, ...)          # printed, as text or with --json

Parameters before the star are arguments, the others flags, with their help in `Args`. `Annotated`
adds a type of click, a string with the names of the flag or with the metavar, or `With`.
"""

import csv
import enum
import inspect
import json
import re
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click

from pipelines.cli.terminal import print_facts, quiet, set_verbose

if TYPE_CHECKING:  # imports numpy
    from trainer_utils.core.settings import Setting

COMMANDS: dict[str, "_Command"] = {}
"""The commands by name, in the order of the help."""


class Group(enum.Enum):
    """The groups of commands, in the order of the help."""

    MAKE = "Create and change datasets"
    LOOK = "Look at datasets"
    CHECK = "Check datasets"
    TRAIN = "Train"
    PIPELINE = "Pipelines and lineage"


_UNITS = {
    **{"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9},
    **{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30},
    **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30},
}


def number_of_bytes(text: str) -> int:
    """Parse a number of bytes, at least 1: `134217728`, `128MiB`, `128MB`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _UNITS:
        raise click.BadParameter(f"expected bytes such as 134217728 or 128MiB, got {text!r}")
    if (number := int(float(match[1]) * _UNITS[match[2]])) < 1:
        raise click.BadParameter(f"expected at least 1 byte, got {text!r}")
    return number


def list_of_names(text: str) -> list[str]:
    """Parse a list of names, `text,label`; a name with a comma is quoted, as in CSV."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def pair(text: str) -> tuple[str, str]:
    """Parse a column and its kind: `stars=float`."""
    name, _, kind = text.rpartition("=")
    if not name:
        raise click.BadParameter(f"expected NAME=KIND, got {text!r}")
    return name, kind


def height_and_width(text: str) -> tuple[int, int]:
    """Parse a size in pixels: `224` or `224x256`."""
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", text.strip().lower())
    if not match:
        raise click.BadParameter(f"expected a size such as 224 or 224x224, got {text!r}")
    return int(match[1]), int(match[2] or match[1])


def delimiter(text: str) -> str:
    """Parse a delimiter, where a tab may be written as in messages, with a backslash."""
    return "\t" if text == r"\t" else text


def counts(text: str) -> int | dict[str, float]:
    """Parse a number, or numbers by split: `8`, `train=8,eval=2`."""
    return int(text) if text.strip().isdecimal() else _by_split(text, r"\d+", "8 or train=8,eval=2")


def shares(text: str) -> dict[str, float]:
    """Parse shares by split: `train=8,eval=2`, or fractions, `train=0.8,eval=0.2`."""
    return _by_split(text, r"\d+|\d*\.\d+", "train=8,eval=2 or train=0.8,eval=0.2")


def _by_split(text: str, number: str, expected: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(rf"\s*(\w+)\s*=\s*({number})\s*", part, re.ASCII)
        if match is None or match[1] in shares:
            raise click.BadParameter(f"expected {expected}, got {text!r}")
        shares[match[1]] = int(match[2]) if match[2].isdecimal() else float(match[2])
    return shares


def json_or_text(setting: str) -> tuple[str, Any]:
    """Parse `NAME=VALUE`; a value that is not JSON is a string."""
    name, equals_sign, value = setting.partition("=")
    if not equals_sign or not name.isidentifier():
        raise click.BadParameter(f"expected NAME=VALUE, got {setting!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


class With:
    """Keyword arguments for a parameter of click."""

    def __init__(self, **options: Any) -> None:
        self.options = options


def _find_dataset(ctx: click.Context, param: click.Parameter, uri: str) -> str | None:
    from trainer_utils.dataset.location import newest_dataset

    if ctx.resilient_parsing:
        return None
    if not uri:
        raise click.BadParameter("expected a folder or a url, got an empty string", ctx, param)
    return newest_dataset(uri)


def _find_files(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> Any:
    return given if len(given) > 1 else _find_dataset(ctx, param, *given)


Dataset = Annotated[str, With(callback=_find_dataset)]
"""The type of `URI`: a dataset, or the output folder of `convert`."""
Files = Annotated[Any, "URI...", With(nargs=-1, callback=_find_files)]
"""The type of `URI...`: the same, or TFRecord files."""


def command(
    group: Group,
    *,
    has_json: bool = True,
    sections: Callable[[], Mapping[str, Mapping[str, "Setting"]]] | None = None,
    more: Sequence[click.Parameter] = (),
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function, which returns a result for `print_facts`, or None.

    It may return a pair of the result and a boolean: True for exit status 0, False for 1.

    Args:
        group: the group of the command in the help.
        has_json: whether the command has `--json`.
        sections: returns the settings by section of the help and by name; each becomes a flag.
        more: further parameters, for a function with `**kwargs`.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        """Make a command of a function: its docstring is the help, its parameters the options."""

        def run(as_json: bool = False, **given: Any) -> None:
            with quiet():
                result = function(**given)
            facts, is_good = result if type(result) is tuple else (result, True)
            if facts is not None:
                print_facts(facts, as_json=as_json)
            click.get_current_context().exit(0 if is_good else 1)

        help, _, arguments_text = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
        entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments_text, re.MULTILINE)
        sentences = {name: " ".join(sentence.split()) for name, sentence in entries}
        parameters = inspect.signature(function).parameters.values()
        named = [
            parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
        ]
        params = [
            _parameter(parameter, parameter.annotation, sentences.get(parameter.name))
            for parameter in named
        ]
        params += [*more, *([_JSON] if has_json else []), _VERBOSE]
        name = function.__name__
        command_of_function = _Command(
            name, callback=run, params=params, help=help, sections=sections, group=group
        )
        COMMANDS[name] = command_of_function
        return command_of_function

    return make


_JSON = click.Option(
    ["--json", "as_json"], is_flag=True, help="Print one JSON document instead of text."
)
_VERBOSE = click.Option(
    ["-v", "--verbose"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=set_verbose,
    help="Show the logs of TensorFlow and TFX, and tracebacks.",
)


def _parameter(parameter: inspect.Parameter, kind: Any, help: str | None) -> click.Parameter:
    """Return the argument or option for a parameter of a command's function."""
    names, options = [f"--{parameter.name.replace('_', '-')}"], dict[str, Any]()
    for extra in getattr(kind, "__metadata__", ()):
        if isinstance(extra, str) and extra.startswith("-"):
            names = extra.split()
        elif isinstance(extra, str):
            options["metavar"] = extra
        else:
            options |= extra.options if isinstance(extra, With) else {"type": extra}
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return click.Argument(
            [parameter.name], **{"required": parameter.default is parameter.empty, **options}
        )
    if kind is bool:
        options["is_flag"] = True
    elif typing.get_origin(kind) is tuple:
        options["multiple"] = True
    elif isinstance(parameter.default, (int, float, str)) and parameter.default != "":
        options |= {"default": parameter.default, "show_default": True}
    return click.Option([*names, parameter.name], help=help, **options)


_OLD_FLAGS = {"file_roots": "--image-root"}
_OTHER_KINDS: dict[str, dict[str, Any]] = {
    "columns": {"type": pair, "multiple": True, "metavar": "NAME=KIND"},
    "file_roots": {"multiple": True, "metavar": "DIR"},
    "ignore": {"multiple": True, "metavar": "PATTERN"},
    "tensors": {"type": pair, "multiple": True, "metavar": "NAME=DTYPE[SHAPE]"},
    "feature_names": {"type": pair, "multiple": True, "metavar": "NAME=NAME"},
    "delimiter": {"type": delimiter, "metavar": "TEXT"},
    "num_shards": {"type": counts, "metavar": "N or NAME=N,…"},
    **{name: {"type": str} for name in ("encoding", "layout")},  # the choices depend on the kind
    "exclude": {"type": str, "metavar": "FILE"},
    "relabel": {"type": str, "metavar": "CSV"},
    "add": {"multiple": True, "metavar": "URI"},
}


class _Choices(click.Choice[str]):
    """Choices for the help and shell completion; the setting itself refuses other values."""

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> str:
        return str(value)


class _Command(click.Command):
    """A command with its settings as flags, in sections of the help."""

    def __init__(self, *arguments: Any, sections: Any, group: Group, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.group = group
        self._sections: dict[str, list[click.Option]] = {}
        self._make_sections = sections

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; flags of settings are created now, because they import numpy."""
        if self._make_sections:
            for title, settings in self._make_sections().items():
                self._sections[title] = [_flag(name, setting) for name, setting in settings.items()]
                self.params += self._sections[title]
            if len(self._sections) > 1:
                self.params.append(_HELP_ALL)
            self._make_sections = None
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then the settings by section.

        A command with several sections has many settings: `--help` describes the usual ones in a
        sentence and names the others, and `--help-all` describes all of them in full.
        """
        params = self.get_params(ctx)
        settings = {flag for flags in self._sections.values() for flag in flags}
        other_flags = [p for p in params if isinstance(p, click.Option) and p not in settings]
        shortens = len(self._sections) > 1 and not ctx.meta.get(_HELP_ALL.name)
        for title, flags in [("Options", other_flags), *self._sections.items()]:
            records = {flag: record for flag in flags if (record := flag.get_help_record(ctx))}
            rare: list[click.Option] = []
            if shortens and title != "Options":
                from pipelines.cli.sections import first_sentence, is_usual

                rare = [flag for flag in flags if not is_usual(str(flag.name))]
                records = {
                    option: (flag, first_sentence(text))
                    for option, (flag, text) in records.items()
                    if option not in rare
                }
            with formatter.section(title):
                formatter.write_dl([*records.values()])
                if rare:
                    flags_text = f"More: {', '.join(flag.opts[0] for flag in rare)}"
                    indent = " " * formatter.current_indent
                    lines = textwrap.wrap(  # click would break flags at their hyphens
                        flags_text,
                        formatter.width,
                        initial_indent=indent,
                        subsequent_indent=indent,
                        break_on_hyphens=False,
                    )
                    formatter.write("\n".join([*lines, ""]))


def _print_full_help(ctx: click.Context, param: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        ctx.meta[str(param.name)] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_full_help,
    help="Describe all settings in full and exit.",
)


def _flag(name: str, setting: "Setting") -> click.Option:
    """Return the option for a setting of a component."""
    from components.inputs.advice import FLAGS
    from pipelines.cli.sections import text_for_flags

    spelling = FLAGS.get(name, f"--{name.replace('_', '-')}")
    help = text_for_flags(setting, spelling)
    if bool in setting.kinds:
        if setting.default is not False:
            spelling = f"{spelling}/--no-{name.replace('_', '-')}"
        return click.Option([spelling, name], is_flag=True, default=None, help=help)
    return click.Option(
        [spelling, *_OLD_FLAGS.get(name, "").split(), name],
        help=help,
        **(_OTHER_KINDS.get(name) or _kind(setting)),
    )


def _kind(setting: "Setting") -> dict[str, Any]:
    """Return the type and metavar of a flag; the setting itself validates the value."""
    if setting.is_collection:
        return {"type": list_of_names, "metavar": "NAME,…"}
    if setting.kinds == (str,) and setting.choices:
        return {"type": _Choices([str(choice) for choice in setting.choices if choice is not None])}
    if setting.name.endswith("_bytes"):
        return {"type": number_of_bytes, "metavar": "BYTES"}
    return {"type": setting.kinds[0] if setting.kinds[0] in (int, float) else str}


def given_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the flags in use, in the form for `pipelines.convert`."""
    settings = {name: value for name, value in given.items() if value not in (None, ())}
    for name, value in settings.items():
        if isinstance(value, tuple):  # a repeatable flag
            settings[name] = dict(value) if isinstance(value[0], tuple) else list(value)
    return settings
