"""Names that are misspelt: refused with the one that was meant.

check_names("input_fn", {"batchsize": 8}, ["batch_size", "seed"])
# ConfigError: input_fn, setting 'batchsize': expected one of …. Did you mean 'batch_size'?
"""

import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from trainer_utils.format.errors import ConfigError

_Options = TypeVar("_Options")
_ALIKE = 0.7  # of `difflib`'s ratio: further apart, a name is another rather than misspelt


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """` Did you mean 'seed'?`, to end an error about `given`; empty where nothing known is like it.

    Of what is given, and of what is known, only texts count.
    """
    if not isinstance(given, str):
        return ""
    names = {_plain(name): name for name in known if isinstance(name, str)}
    like = difflib.get_close_matches(_plain(given), names, n=1, cutoff=_ALIKE)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


def misspelt(given: object, known: Iterable[object]) -> str:
    """`'sead'. Did you mean 'seed'?`, to end an error that says what it got, or `'sead'`."""
    return f"{given!r}.{did_you_mean(given, known)}".removesuffix(".")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def check_names(
    taker: str,
    given: Mapping[str, object],
    known: Collection[str],
    *,
    alternatives: Iterable[str] = (),
    called: str = "setting",
    allowed: str | None = None,
    moved: Mapping[str, str] | None = None,
) -> None:
    """Refuses a setting that there is not.

    Args:
        taker: what takes the settings, for the message.
        given: settings by name.
        known: the names that there are.
        alternatives: other names that may be meant, such as its positional arguments.
        called: what the taker calls a setting.
        allowed: the known names in words; None: a list of them.
        moved: what took the place of settings that there are no more.

    Raises:
        ConfigError: a name is not known; the message has its value, and the name that was meant.
    """
    for name, value in given.items():
        if name not in known:
            rule, meant = (moved or {}).get(name), ""
            if rule is None:
                rule = allowed or f"one of {', '.join(known)}"
                meant = did_you_mean(name, [*alternatives, *known])
            said = f"{taker}, {called} {name!r}: expected {rule}, got {name}={value!r}.{meant}"
            raise ConfigError(said.removesuffix("."), setting=name, value=value, allowed=rule)


def checks_names(
    options: type[_Options], *, moved: Mapping[str, str] | None = None
) -> type[_Options]:
    """Makes a dataclass refuse what is not a field of it as `check_names` does."""
    make: Any = options.__init__
    known = [field.name for field in dataclasses.fields(options)]  # type: ignore[arg-type]

    @functools.wraps(make)
    def checked(self: _Options, *values: Any, **settings: Any) -> None:
        if values:
            rule = f"settings by name, such as {known[0]}=…"
            raise ConfigError.of(options.__name__, values[0], allowed=rule)
        check_names(options.__name__, settings, known, moved=moved)
        make(self, **settings)

    options.__init__ = checked  # type: ignore[assignment]
    return options
