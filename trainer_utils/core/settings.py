"""Declare each setting once, with type, default, rule and description, as a dataclass field.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Resizing(Settings):
        side: int | None = setting(None, number(1), "shorter side in pixels. Default: unchanged.")
        filter: str = setting("area", one_of("area", "cubic"), "`area`, or `cubic`, sharper.")

    Resizing(side=0)                # ConfigError: side: expected int at least 1, got 0
    settings_of(Resizing)["side"]   # Setting(name='side', kind=int | None, default=None, …)

Constructors, execution properties, CLI flags, Kubeflow functions and the docs' tables derive from
it.
"""

import collections.abc
import dataclasses
import functools
import inspect
import numbers
import os
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from trainer_utils.core.errors import ConfigError, did_you_mean

Rule = Callable[[str, Any], Any]  # takes name and value, returns the value to keep, or raises
_SETTING, _GROUP = "setting", "group"
_INT64 = -(2**63)
_Options = TypeVar("_Options", bound="type[Settings]")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One declared setting.

    It has the field's name, annotation and default, the rule for its values, and a description that
    reads well after its name and a colon. A setting that takes paths also accepts `os.PathLike`,
    which becomes a string.
    """

    name: str
    kind: Any
    default: Any
    rule: Rule
    help: str
    is_path: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether None is allowed."""
        return type(None) in _members(self.kind)

    @property
    def kinds(self) -> tuple[type, ...]:
        """Types of its values, except None."""
        members = [member for member in _members(self.kind) if member is not type(None)]
        return tuple(typing.get_origin(member) or member for member in members)

    @property
    def is_collection(self) -> bool:
        """Whether a value may be a list or a mapping."""
        return any(kind.__module__ == collections.abc.__name__ for kind in self.kinds)

    @property
    def choices(self) -> tuple[object, ...]:
        """Allowed values if the rule lists them, else empty."""
        return self.rule.choices if isinstance(self.rule, one_of) else ()

    @property
    def sentence(self) -> str:
        """Description, with the range of a number inserted before the default."""
        if not isinstance(self.rule, NumberRule) or str(self.rule) in self.help:
            return self.help
        what, default, rest = self.help.partition(" Default:")
        return f"{what} {self.rule}{default}{rest}"

    @property
    def shown_default(self) -> str:
        """Default for people, such as `128 MiB`; empty without a default."""
        is_group = isinstance(self.default, Settings)  # its defaults are in its own table
        return "" if is_group or self.default in (None, (), {}) else format_value(self.default)

    def check(self, value: Any) -> Any:
        """Return the value to keep; raise ConfigError if the rule does not allow the value."""
        if self.is_path:
            value = plain_paths(value)
        if isinstance(value, str) and "\0" in value:  # never valid in a path or name
            raise ConfigError.of(self.name, value, allowed="a string without NUL characters")
        return value if value is None and self.is_optional else self.rule(self.name, value)


def setting(default: object, rule: Rule, help: str = "", *, is_path: bool = False) -> Any:
    """Declare a field of a settings class. None is always allowed by its rule.

    Args:
        default: the default value.
        rule: the check of its values.
        help: the description.
        is_path: whether strings are paths or uris, so that `os.PathLike` is accepted as well.
    """
    metadata = {_SETTING: (default, rule, help, is_path)}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def group(options: type["Settings"], *, only: Collection[str] | None = None) -> Any:
    """Declare a field that holds other settings, which are set like settings of this class.

    Args:
        options: the class of the other settings.
        only: the names to include. None: all of them.
    """
    names = settings_of(options) if only is None else only
    return dataclasses.field(default=options(), metadata={_GROUP: (options, names)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the dataclasses of settings, which check every value on creation."""

    def __post_init__(self) -> None:
        for name, declared in _declared(type(self)).items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))
        for name, (options, _) in groups_of(type(self)).items():
            if not isinstance(value := getattr(self, name), options):
                raise ConfigError.of(name, value, allowed=f"{options.__name__}(…)")


def plain_paths(value: Any) -> Any:
    """Return a path as a string, and a list of paths as a list of strings."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return type(value)(map(plain_paths, value)) if type(value) in (list, tuple) else value


def settings_of(options: type[Settings]) -> dict[str, Setting]:
    """Return the settings of a class by name, including its groups."""
    settings = dict(_declared(options))
    for inner, names in groups_of(options).values():
        settings |= {name: setting for name, setting in settings_of(inner).items() if name in names}
    return settings


def groups_of(options: type[Settings]) -> dict[str, tuple[type[Settings], Collection[str]]]:
    """Return the groups of a class by field name: their class, and the names that can be set."""
    fields = dataclasses.fields(options)
    return {field.name: field.metadata[_GROUP] for field in fields if _GROUP in field.metadata}


def _declared(options: type[Settings]) -> Mapping[str, Setting]:
    """Return the settings that are fields of the class itself."""
    fields = [field for field in dataclasses.fields(options) if _SETTING in field.metadata]
    return {f.name: Setting(f.name, f.type, *f.metadata[_SETTING]) for f in fields}


def documents_settings(options: _Options, *, moved: Mapping[str, str] | None = None) -> _Options:
    """Add the settings of a class to its docstring, and make it reject unknown names.

    See `check_names` for the error and for `moved`.
    """
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
    entries = "\n".join(wrapper.fill(f"{setting.name}: {setting.sentence}") for setting in settings)
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
    """Raise ConfigError for an unknown setting, with the name that was probably meant.

    Args:
        taker: the function or class that takes the settings, for the message.
        given: the settings by name.
        known: the valid names.
        alternatives: other names that may be meant, such as positional arguments.
        allowed: a description of the valid names. None: a list of them.
        moved: the replacements of removed settings, by name.
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
    """Format a value for people: `128 MiB`, `89,478,485`, `0.01`, `(0.08, 1)`."""
    for bits, unit in ((30, "GiB"), (20, "MiB")):
        if isinstance(value, int) and value and not value % (1 << bits):
            return f"{value >> bits} {unit}"
    if isinstance(value, tuple):
        return f"({', '.join(map(format_value, value))})"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


class one_of:
    """A rule that allows only the given values."""

    def __init__(self, *choices: object) -> None:
        self.choices = choices

    def __call__(self, name: str, value: object) -> object:
        """Return the value, or raise ConfigError."""
        if not isinstance(value, collections.abc.Hashable) or value not in self.choices:
            allowed = f"one of {', '.join(map(str, self.choices))}"
            advice = did_you_mean(value, self.choices).strip()
            raise ConfigError.of(name, value, allowed=allowed, advice=advice)
        return value


@dataclasses.dataclass(frozen=True)
class NumberRule:
    """A rule for numbers of a type in [least, most]. An int is also a float; a bool is neither."""

    least: float
    most: float = float("inf")
    _: dataclasses.KW_ONLY
    kind: type[float] = int

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value, or raise ConfigError."""
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            value = int(value)  # numpy integers, such as the step counts of frameworks
        is_number = is_int(value) or (self.kind is float and isinstance(value, float))
        if not is_number or not self.least <= value <= self.most or value >= -_INT64:
            most = "" if self.most == float("inf") else f" to {self.most}"
            words = f"{'from' if most else 'at least'} {self.least}{most}"
            raise ConfigError.of(name, value, allowed=f"{self.kind.__name__} {words}")
        return value

    def __str__(self) -> str:
        if self.least == _INT64:
            return "A signed 64-bit integer."
        if self.most == float("inf"):
            return f"At least {format_value(self.least)}."
        return f"From {self.least:,} to {self.most:,}."


def settings_or_dict(options: type[Settings]) -> Rule:
    """Return a rule that allows settings of a class, or a dict of them as in JSON."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return options(**value)
        if not isinstance(value, options):
            raise ConfigError.of(name, value, allowed=f"{options.__name__}(…)")
        return value

    return check


@dataclasses.dataclass(frozen=True)
class Predicate:
    """A rule that allows the values with a true predicate; `allowed` describes them."""

    is_allowed: Callable[[Any], bool]
    allowed: str

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value; raise ConfigError if the predicate is false."""
        if not self.is_allowed(value):
            raise ConfigError.of(name, value, allowed=self.allowed)
        return value


def is_int(value: object) -> bool:
    """Return whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


flag = Predicate(lambda value: isinstance(value, bool), "a bool")
"""A rule that allows True or False, but not 1 or 0."""
text = Predicate(lambda value: isinstance(value, str), "a text")
"""A rule that allows any string."""
