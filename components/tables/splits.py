"""Which column names each row's split, and what its words mean.

split_column(["text", "split"], given={}, words_of=words)     # 'split'
split_of_word("VALIDATION")                                   # 'eval'
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from trainer_utils.format import ConfigError, InputError, canonical_split

__all__ = ["MAYBE_SPLIT", "SPLIT_COLUMNS", "refuse_word", "split_column", "split_of_word"]

_NAMES = ("split", "ml_use")
MAYBE_SPLIT = "set"  # a column of that name is one of splits where each of its values names one
SPLIT_COLUMNS = frozenset(_NAMES)
_UNASSIGNED = ("", "unassigned")


def split_column(
    names: Sequence[str],
    *,
    given: Mapping[str, str],
    words_of: Callable[[str], Iterable[str]],
) -> str | None:
    """The column that says each row's split, if there is one.

    Raises:
        ConfigError: `given` names two.
    """
    asked = [name for name, kind in given.items() if kind == "split"]
    if len(asked) > 1:
        raise ConfigError(
            f"columns: expected one 'split', got {', '.join(asked)}", setting="columns"
        )
    if asked:
        return asked[0]
    free = {name.lower(): name for name in reversed(names) if name not in given}
    found = next((free[name] for name in _NAMES if name in free), None)
    if found is None and MAYBE_SPLIT in free:
        words = [word for word in words_of(free[MAYBE_SPLIT]) if word]
        if words and all(map(_is_word, words)):
            return free[MAYBE_SPLIT]
    return found


def _is_word(word: str) -> bool:
    return word.strip().lower() in _UNASSIGNED or canonical_split(word.strip()) is not None


def split_of_word(word: str) -> str | None:
    """The split that a value names; None where it leaves that to the hash.

    Raises:
        ValueError: it is no split's name.
    """
    split = canonical_split(word.strip())
    if split is None and not _is_word(word):
        raise ValueError(f"no split: {word!r}")
    return split


def refuse_word(column: str, word: str, place: str) -> InputError:
    """The error for a value that names no split."""
    return InputError(
        f"column {column!r}: expected split TRAIN, VALIDATION, TEST or UNASSIGNED, "
        f"got {word!r} ({place}). If it is no split: columns={{{column!r}: 'string'}}."
    )
