"""Define the exceptions of tfx-shards: a small family under `ValueError` with data attributes.

except trainer_utils.CorruptShardError as error:
    print(error)                                    # what happened, where, and how to fix it
    print(error.path, error.record, error.offset)   # the same as data: no need to parse a message
"""

import ast
import contextlib
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from trainer_utils.core.printable import printable

_ALIKE = 0.7  # the least ratio of `difflib` at which a name counts as misspelt
_Error = TypeVar("_Error", bound="TfxShardsError")
# PyTorch's DataLoader raises an error of a worker process as the same class, with the traceback
# as its message. Source: torch/_utils.py, ExceptionWrapper.reraise.
_OF_LOADER = re.compile(r"Caught \w+ in .*\.\nOriginal Traceback")
_STRING = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PLACE = re.compile(rf"^[\w.]+: {_STRING}: .*?(?:\((?:record (\d+))?(?:, )?(?:byte (\d+))?\)|$)")


class TfxShardsError(ValueError):
    """The base class of wrong settings (`ConfigError`) and wrong data (`DatasetError`).

    Its message is printable in a terminal or a log, even with hostile names in the data.

    Args:
        message: what happened, where, and how to fix it.
        path: the file with the error.
        record: the index of the record in that file.
        offset: the offset of the record or of the error in the (decompressed) file, in bytes.
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
        if path is None and _OF_LOADER.match(message):
            path, record, offset = _place_in(message)
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
        """Return an error with a message made of its data. `advice` is in full sentences."""
        numbers = {"record": record, "byte": offset}
        places = ", ".join(f"{what} {n}" for what, n in numbers.items() if n is not None)
        message = f"{path!r}: expected {expected}, got {got}"
        message += f" ({places})" if places else ""
        message += f". {advice}" if advice else ""
        return cls(message, path=path, record=record, offset=offset)

    def __str__(self) -> str:
        text = super().__str__()
        keep = "\n" if _OF_LOADER.match(text) else ""  # keep the lines of the traceback
        return "\n".join((printable(text, keep=keep), *map(printable, self.details)))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {name: _plain(value) for name, value in vars(self).items()}


def _place_in(message: str) -> tuple[str | None, int | None, int | None]:
    """Return path, record and offset of the error that a loader's process printed last."""
    match = _PLACE.search(message.rstrip().rpartition("\n")[2])
    if match is None:
        return None, None, None
    record, offset = (None if number is None else int(number) for number in match.group(2, 3))
    return ast.literal_eval(match[1]), record, offset


class DatasetError(TfxShardsError):
    """The data at a uri is not a dataset, is incomplete, or lacks a requested part."""


class CorruptShardError(DatasetError):
    """The bytes of a shard are damaged; the error has its path and the byte offset."""


class ConfigError(TfxShardsError):
    """A setting has an invalid value; `allowed` describes the valid ones.

    It is not a `DatasetError`, so code that skips bad datasets does not hide a misspelt setting.
    """

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
        """Return an error with a message made of its data. `advice` ends without a full stop."""
        message = f"{setting}: expected {allowed}, got {value!r}"
        message += f". {advice}" if advice else ""
        return cls(message, setting=setting, value=value, allowed=allowed)


class InputError(DatasetError):
    """The raw input cannot become a dataset: it is missing, empty, or has too many bad records.

    `rejects` has the split, source, code and detail of each reject if the run ended early.
    """

    rejects: Sequence[Sequence[str]] = ()


@contextlib.contextmanager
def reading(path: str, expected: str, *, advice: str = "") -> Iterator[None]:
    """Convert any exception that a parser raises on a damaged file to a DatasetError."""
    try:
        yield
    except (TfxShardsError, MemoryError):
        raise
    except Exception as error:  # parsers raise many types
        raise DatasetError.at(path, expected=expected, got=repr(error), advice=advice) from error


def _plain(value: object) -> object:
    """Return a JSON value unchanged, and `repr` of any other: settings may not be picklable."""
    try:
        json.dumps(value)
    except Exception:  # any class may raise any exception here
        return repr(value)
    return value


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """Return a hint such as ` Did you mean 'seed'?`, or "" if no known name is similar to `given`.

    Values that are not strings are ignored.
    """
    if not isinstance(given, str):
        return ""
    names = {_squeezed(name): name for name in known if isinstance(name, str)}
    like = difflib.get_close_matches(_squeezed(given), names, n=1, cutoff=_ALIKE)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
