"""Which column names each row's split, and what its words mean."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trainer_utils.format import ConfigError, canonical_split

SPLIT_NAMES = ("split", "ml_use")
MAYBE_SPLIT = "set"  # a column of that name is one of splits where each of its values names one
SPLIT_COLUMNS = frozenset(SPLIT_NAMES)
_UNASSIGNED = ("", "unassigned")
_DISCARDED = "discard"  # TFRecorder's word for rows that are in no split


class NoSplit(NamedTuple):
    """Why a row is in no split: a reject's code, None where it is skipped, and a sentence."""

    code: str | None
    detail: str


def split_column(
    names: Sequence[str], *, given: Mapping[str, str], words_of: Callable[[str], Iterable[str]]
) -> str | None:
    """The column that says each row's split, if there is one; `given` may not name two."""
    asked = [name for name, kind in given.items() if kind == "split"]
    if len(asked) > 1:
        raise ConfigError.of("columns", ", ".join(asked), allowed="one 'split'")
    if asked:
        return asked[0]
    free = {name.lower(): name for name in reversed(names) if name not in given}
    found = next((free[name] for name in SPLIT_NAMES if name in free), None)
    if found is None and MAYBE_SPLIT in free:
        words = [word for word in words_of(free[MAYBE_SPLIT]) if word]
        if words and all(map(is_split_word, words)):
            return free[MAYBE_SPLIT]
    return found


def is_split_word(word: str) -> bool:
    """Whether a value says something of a row's split."""
    found = split_of_word(word, column="")
    return not isinstance(found, NoSplit) or found.code is None


def split_of_word(word: str, *, column: str) -> str | NoSplit | None:
    """The split that a value of a column names; None where it leaves that to the hash."""
    word = word.strip()
    if word.lower() in _UNASSIGNED:
        return None
    if word.lower() == _DISCARDED:
        return NoSplit(None, f"{column} {word!r}")
    return canonical_split(word) or NoSplit(
        "UNKNOWN_SPLIT",
        f"column {column!r}: expected TRAIN, VALIDATION, TEST, UNASSIGNED or DISCARD, got "
        f"{word!r}. If it is no split: columns={{{column!r}: 'string'}}",
    )
