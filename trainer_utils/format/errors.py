"""The exceptions of tfx-shards: a small family under `ValueError`, with data beside their text.

except trainer_utils.CorruptShardError as error:
    print(error)                                    # what happened, where, and how to mend it
    print(error.path, error.record, error.offset)   # the same as data: nobody parses a message
"""

import ast
import contextlib
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from trainer_utils.format.printable import printable

_ALIKE = 0.7  # of `difflib`'s ratio: further apart, a name is another rather than misspelt
_Error = TypeVar("_Error", bound="TfxShardsError")
# PyTorch's DataLoader raises the class of an error of its processes with their traceback as the
# message. Source: torch/_utils.py, ExceptionWrapper.reraise.
_OF_LOADER = re.compile(r"Caught \w+ in .*\.\nOriginal Traceback")
_STRING = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PLACE = re.compile(rf"^[\w.]+: {_STRING}: .*?(?:\((?:record (\d+))?(?:, )?(?:byte (\d+))?\)|$)")


class TfxShardsError(ValueError):
    """The root: a wrong setting (`ConfigError`) or wrong data (`DatasetError`).

    A terminal or a log can take each line of its text, whatever names are in the data.

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
        """An error whose message is made of its data; `advice`: whole sentences how to mend it."""
        numbers = {"record": record, "byte": offset}
        places = ", ".join(f"{what} {n}" for what, n in numbers.items() if n is not None)
        message = f"{path!r}: expected {expected}, got {got}{f' ({places})' * bool(places)}"
        message += f". {advice}" if advice else ""
        return cls(message, path=path, record=record, offset=offset)

    def __str__(self) -> str:
        text = super().__str__()
        keep = "\n" if _OF_LOADER.match(text) else ""  # its lines are those of a traceback
        return "\n".join((printable(text, keep=keep), *map(printable, self.details)))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {name: _plain(value) for name, value in vars(self).items()}


def _place_in(message: str) -> tuple[str | None, int | None, int | None]:
    """Return path, record and offset of the error that a loader's process printed last."""
    found = _PLACE.search(message.rstrip().rpartition("\n")[2])
    if found is None:
        return None, None, None
    record, offset = (None if one is None else int(one) for one in found.group(2, 3))
    return ast.literal_eval(found[1]), record, offset


class DatasetError(TfxShardsError):
    """The data at a uri is not a dataset, is incomplete, or lacks what was asked of it."""


class CorruptShardError(DatasetError):
    """A shard's bytes are not what they should be; it names file and byte offset."""


class ConfigError(TfxShardsError):
    """A setting has a value that is not allowed; `allowed` says what it takes, in words.

    It is not a `DatasetError`, so that code which skips bad datasets hides no misspelt setting.
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
        """An error whose message is made of its data; `advice` ends without a full stop."""
        message = f"{setting}: expected {allowed}, got {value!r}{f'. {advice}' * bool(advice)}"
        return cls(message, setting=setting, value=value, allowed=allowed)


class InputError(DatasetError):
    """The raw input cannot be turned into a dataset: missing, empty, or too much of it is bad.

    `rejects` are the rejects of a run that ended before it had read all inputs: split, source, code
    and detail of each.
    """

    rejects: Sequence[Sequence[str]] = ()


@contextlib.contextmanager
def reading(path: str, expected: str, *, advice: str = "") -> Iterator[None]:
    """Makes a DatasetError of whatever a damaged file makes its parser raise."""
    try:
        yield
    except (TfxShardsError, MemoryError):
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
