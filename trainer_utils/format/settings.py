"""A setting is declared once: its kind, default, rule and sentence are one field of a dataclass.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Resizing(Settings):
        side: int | None = setting(None, number(1), "shorter side in pixels. Default: as it is.")
        filter: str = setting("area", one_of("area", "cubic"), "`area`, or `cubic`, sharper.")

    Resizing(side=0)                # ConfigError: side: expected int at least 1, got 0
    settings_of(Resizing)["side"]   # Setting(name='side', kind=int | None, default=None, …)

Constructors, execution properties, flags, Kubeflow's functions and the docs' tables are made of it.
"""

import collections.abc
import dataclasses
import functools
import inspect
import numbers
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from trainer_utils.format.errors import ConfigError, did_you_mean

Rule = Callable[[str, Any], Any]  # takes name and value, returns the value to keep, or raises
_SETTING, _GROUP = "setting", "group"
_INT64 = -(2**63)
_Options = TypeVar("_Options", bound="type[Settings]")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One declared setting: a field's name, annotation and default, what is allowed, and a sentence
    that says what it does, as it follows its name and a colon."""

    name: str
    kind: Any
    default: Any
    rule: Rule
    help: str

    @property
    def is_optional(self) -> bool:
        """Whether None is a value."""
        return type(None) in _members(self.kind)

    @property
    def kinds(self) -> tuple[type, ...]:
        """The classes of its values, but for None."""
        members = [member for member in _members(self.kind) if member is not type(None)]
        return tuple(typing.get_origin(member) or member for member in members)

    @property
    def is_collection(self) -> bool:
        """Whether a value may be a list or a mapping."""
        return any(kind.__module__ == collections.abc.__name__ for kind in self.kinds)

    @property
    def choices(self) -> tuple[object, ...]:
        """The values that there are, where they are few."""
        return self.rule.choices if isinstance(self.rule, one_of) else ()

    @property
    def sentence(self) -> str:
        """What it does, with the range of a number before what stands for the default."""
        if not isinstance(self.rule, number) or str(self.rule) in self.help:
            return self.help
        what, default, rest = self.help.partition(" Default:")
        return f"{what} {self.rule}{default}{rest}"

    @property
    def shown_default(self) -> str:
        """The default for people, `128 MiB`; empty where there is none."""
        is_group = isinstance(self.default, Settings)  # whose defaults stand in its own table
        return "" if is_group or self.default in (None, (), {}) else format_value(self.default)


def setting(default: object, rule: Rule, help: str = "") -> Any:
    """A field of a settings class: default, rule (None is always allowed), and what it does."""
    metadata = {_SETTING: (default, rule, help)}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def group(options: type["Settings"], *, only: Collection[str] | None = None) -> Any:
    """A field that holds other settings, all or some, set as if they were this class's own."""
    names = settings_of(options) if only is None else only
    return dataclasses.field(default=options(), metadata={_GROUP: (options, names)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the dataclasses of settings: every value is checked where an object is made."""

    def __post_init__(self) -> None:
        for name, declared in _declared(type(self)).items():
            value = getattr(self, name)
            if isinstance(value, str) and "\0" in value:  # no path or name may have one
                raise ConfigError.of(name, value, allowed="a text without NUL characters")
            if value is not None or not declared.is_optional:
                object.__setattr__(self, name, declared.rule(name, value))
        for name, (options, _) in groups_of(type(self)).items():
            if not isinstance(value := getattr(self, name), options):
                raise ConfigError.of(name, value, allowed=f"{options.__name__}(…)")


def settings_of(options: type[Settings]) -> dict[str, Setting]:
    """The settings of a class by name, those of its groups among them."""
    found = dict(_declared(options))
    for inner, names in groups_of(options).values():
        found |= {name: one for name, one in settings_of(inner).items() if name in names}
    return found


def groups_of(options: type[Settings]) -> dict[str, tuple[type[Settings], Collection[str]]]:
    """The groups of a class by the field's name: their class, and the names that can be set."""
    fields = dataclasses.fields(options)
    return {field.name: field.metadata[_GROUP] for field in fields if _GROUP in field.metadata}


def _declared(options: type[Settings]) -> Mapping[str, Setting]:
    """The settings of a class that are fields of itself."""
    fields = [field for field in dataclasses.fields(options) if _SETTING in field.metadata]
    return {f.name: Setting(f.name, f.type, *f.metadata[_SETTING]) for f in fields}


def documents_settings(options: _Options, *, moved: Mapping[str, str] | None = None) -> _Options:
    """Adds the settings of a class to its docstring, for `help()`, and has it refuse what is none
    of them as `check_names` does."""
    make: Any = options.__init__
    known = [field.name for field in dataclasses.fields(options)]

    @functools.wraps(make)
    def checked(self: Settings, *values: Any, **settings: Any) -> None:
        if values:
            rule = f"settings by name, such as {known[0]}=…"
            raise ConfigError.of(options.__name__, values[0], allowed=rule)
        check_names(options.__name__, settings, known, moved=moved)
        make(self, **settings)

    options.__init__ = checked  # type: ignore[assignment, method-assign]
    wrapper = textwrap.TextWrapper(92, "    ", "        ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    settings = settings_of(options).values()
    entries = "\n".join(wrapper.fill(f"{one.name}: {one.sentence}") for one in settings)
    before, end, after = (inspect.getdoc(options) or "").partition("\n\nRaises:\n")
    options.__doc__ = f"{before}\n\nArgs:\n{entries}{end}{after}"
    return options


def check_names(
    taker: str,
    given: Mapping[str, object],
    known: Collection[str],
    *,
    alternatives: Iterable[str] = (),
    allowed: str | None = None,
    moved: Mapping[str, str] | None = None,
) -> None:
    """Refuses a setting that there is not by a ConfigError that says which name was meant.

    Args:
        taker: what takes the settings, for the message.
        given: settings by name.
        known: the names that there are.
        alternatives: other names that may be meant, such as its positional arguments.
        allowed: the known names in words; None: a list of them.
        moved: what took the place of settings that there are no more.
    """
    for name, value in given.items():
        if name not in known:
            rule, meant = (moved or {}).get(name), ""
            if rule is None:
                rule = allowed or f"one of {', '.join(known)}"
                meant = did_you_mean(name, [*alternatives, *known])
            said = f"{taker}, setting {name!r}: expected {rule}, got {name}={value!r}.{meant}"
            raise ConfigError(said.removesuffix("."), setting=name, value=value, allowed=rule)


def _members(kind: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return typing.get_args(kind) if is_union else (kind,)


def format_value(value: object) -> str:
    """A value for people: `128 MiB`, `89,478,485`, `0.01`, `(0.08, 1)`."""
    for bits, unit in ((30, "GiB"), (20, "MiB")):
        if isinstance(value, int) and value and not value % (1 << bits):
            return f"{value >> bits} {unit}"
    if isinstance(value, tuple):
        return f"({', '.join(map(format_value, value))})"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


class one_of:
    """A rule: the value is one of these."""

    def __init__(self, *choices: object) -> None:
        self.choices = choices

    def __call__(self, name: str, value: object) -> object:
        """The value, or a ConfigError."""
        if not isinstance(value, collections.abc.Hashable) or value not in self.choices:
            allowed = f"one of {', '.join(map(str, self.choices))}"
            advice = did_you_mean(value, self.choices).strip()
            raise ConfigError.of(name, value, allowed=allowed, advice=advice)
        return value


@dataclasses.dataclass(frozen=True)
class number:
    """A rule: a number of this kind in [least, most]; an int is a float as well, a bool neither."""

    least: float
    most: float = float("inf")
    _: dataclasses.KW_ONLY
    kind: type[float] = int

    def __call__(self, name: str, value: Any) -> Any:
        """The value, or a ConfigError."""
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            value = int(value)  # of numpy, as a framework counts its steps
        is_number = is_int(value) or (self.kind is float and isinstance(value, float))
        if not is_number or not self.least <= value <= self.most or value >= -_INT64:
            most = "" if self.most == float("inf") else f" to {self.most}"
            words = f"{'from' if most else 'at least'} {self.least}{most}"
            raise ConfigError.of(name, value, allowed=f"{self.kind.__name__} {words}")
        return value

    def __str__(self) -> str:
        if self.least == _INT64:
            return "64 bits, signed."
        if self.most == float("inf"):
            return f"At least {format_value(self.least)}."
        return f"From {format_value(self.least)} to {format_value(self.most)}."


def settings_or_dict(options: type[Settings]) -> Rule:
    """A rule: the settings of a class, or a dict of them, as JSON has it."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return options(**value)
        if not isinstance(value, options):
            raise ConfigError.of(name, value, allowed=f"{options.__name__}(…)")
        return value

    return check


def where(is_allowed: Callable[[Any], bool], allowed: str) -> Rule:
    """A rule: what a predicate is true of, in words for the message."""

    def check(name: str, value: Any) -> Any:
        if not is_allowed(value):
            raise ConfigError.of(name, value, allowed=allowed)
        return value

    return check


def is_int(value: object) -> bool:
    """Whether a value is a number, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


flag = where(lambda value: isinstance(value, bool), "a bool")
"""A rule: True or False, and not 1 or 0."""
text = where(lambda value: isinstance(value, str), "a text")
"""A rule: a text."""
