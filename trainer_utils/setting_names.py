"""Settings by name: one that is misspelt is refused with the name that was meant.

check_names({"batchsize": 8}, ["batch_size", "seed"], "input_fn")
# ConfigError: setting 'batchsize': expected one of input_fn, did you mean `batch_size`?
"""

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from trainer_utils.format.errors import ConfigError

__all__ = ["check_names", "checks_names"]

_Options = TypeVar("_Options")


def check_names(
    settings: Iterable[str], known: Sequence[str], of: str, also: Sequence[str] = ()
) -> None:
    """Refuses a setting that there is not.

    Args:
        settings: by name.
        known: the names that there are.
        of: whose, for the message.
        also: names that may be meant, beside the known ones.

    Raises:
        ConfigError: a name is not known.
    """
    for name in settings:
        if name in known:
            continue
        spellings = {_plain(meant): meant for meant in [*also, *known]}
        meant = difflib.get_close_matches(_plain(name), spellings, n=1)
        hint = (
            f"did you mean `{spellings[meant[0]]}`?" if meant else f"which are {', '.join(known)}"
        )
        raise ConfigError(f"setting {name!r}: expected one of {of}, {hint}")


def checks_names(options: type[_Options]) -> type[_Options]:
    """Makes a dataclass refuse what is not a field of it as `check_names` does."""
    make: Any = options.__init__
    known = [field.name for field in dataclasses.fields(options)]  # type: ignore[arg-type]

    @functools.wraps(make)
    def checked(self: _Options, *values: Any, **settings: Any) -> None:
        check_names(settings, known, options.__name__)
        make(self, *values, **settings)

    options.__init__ = checked  # type: ignore[assignment]
    return options


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
