"""The exceptions of tfx-shards: a small family under `ValueError`, with data beside their text.

except trainer_utils.CorruptShardError as error:
    print(error)                                    # what happened, where, and how to mend it
    print(error.path, error.record, error.offset)   # the same as data: nobody parses a message
"""

import contextlib
import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from trainer_utils.format.printable import printable

_ALIKE = 0.7  # of `difflib`'s ratio: further apart, a name is another rather than misspelt
_Error = TypeVar("_Error", bound="DatasetError")


class DatasetError(ValueError):
    """The root: what is at the uri is no dataset, is not whole, or lacks what was asked of it.

    Its text is one line that a terminal or a log can take, whatever names of the data are in it.

    Args:
        message: what happened, where, and how to mend it.
        path: the file that it is about.
        record: the record's number in that file, from 0 on.
        offset: where that record, or what is wrong, begins in the file, in (decompressed) bytes.
        details: further lines of the message, such as one per rejected input.
    """

    def __init__(
        self,
        message: str = "",
        *,
        path: str | None = None,
        record: int | None = None,
        offset: int | None = None,
        details: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.path, self.record, self.offset = path, record, offset
        self.details = tuple(details)

    @classmethod
    def at(
        cls: type[_Error],
        path: str,
        *,
        expected: str,
        got: str,
        record: int | None = None,
        offset: int | None = None,
        advice: str = "",
    ) -> _Error:
        """An error whose message is made of its data; `advice`: whole sentences how to mend it."""
        numbers = {"record": record, "byte": offset}
        places = ", ".join(f"{what} {n}" for what, n in numbers.items() if n is not None)
        message = f"{path!r}: expected {expected}, got {got}{f' ({places})' * bool(places)}"
        message += f". {advice}" if advice else ""
        return cls(message, path=path, record=record, offset=offset)

    def __str__(self) -> str:
        return "\n".join(printable(line) for line in (super().__str__(), *self.details))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {name: _plain(value) for name, value in vars(self).items()}


class CorruptShardError(DatasetError):
    """A shard's bytes are not what they should be; it names file and byte offset."""


class ConfigError(DatasetError):
    """A setting has a value that is not allowed; `allowed` says what it takes, in words."""

    def __init__(
        self,
        message: str = "",
        *,
        setting: str | None = None,
        value: object = None,
        allowed: str | None = None,
        **place: Any,
    ) -> None:
        super().__init__(message, **place)
        self.setting, self.value, self.allowed = setting, value, allowed

    @classmethod
    def of(cls, setting: str, value: object, *, allowed: str, advice: str = "") -> "ConfigError":
        """An error whose message is made of its data; `advice` ends without a full stop."""
        message = f"{setting}: expected {allowed}, got {value!r}{f'. {advice}' * bool(advice)}"
        return cls(message, setting=setting, value=value, allowed=allowed)


class InputError(DatasetError):
    """The raw input cannot be turned into a dataset: missing, empty, or too much of it is bad."""


@contextlib.contextmanager
def reading(path: str, expected: str, *, advice: str = "") -> Iterator[None]:
    """Makes a DatasetError of whatever a damaged file makes its parser raise."""
    try:
        yield
    except (DatasetError, MemoryError):
        raise
    except Exception as error:  # of as many kinds as parsers have
        raise DatasetError.at(path, expected=expected, got=repr(error), advice=advice) from error


def _plain(value: object) -> object:
    """A value of JSON's types, or its `repr`: a setting may be given what cannot be sent."""
    try:
        json.dumps(value)
    except Exception:  # of as many kinds as there are classes
        return repr(value)
    return value


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """` Did you mean 'seed'?`, to end an error about `given`; empty where nothing known is like it.

    Of what is given, and of what is known, only texts count.
    """
    if not isinstance(given, str):
        return ""
    names = {_squeezed(name): name for name in known if isinstance(name, str)}
    like = difflib.get_close_matches(_squeezed(given), names, n=1, cutoff=_ALIKE)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
