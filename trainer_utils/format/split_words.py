"""Determine the split that a path names, from the names of its file and folders.

    split_of_path("my_test_0.csv")                      # 'test'
    split_of_path("imagenet1k-validation-00.tar")       # 'eval'
    splits_of_paths(["a/train_1.tar", "a/val_1.tar"])   # {'a/train_1.tar': 'train', …: 'eval'}

A split is named by a word: a run of letters, so that `train2017`, `seg_train`, `Testing` and
`trainImages` name one, and `station` and `trainval` do not. A name with words of two splits, such
as `train_test_split`, names neither.
"""

import re
from collections.abc import Iterable

from trainer_utils.core.errors import InputError
from trainer_utils.format.naming import SPLIT_SPELLINGS, canonical_split

_WORD = re.compile(r"[A-Z][a-z]+|[a-z]+|[A-Z]+")

SPLIT_WORD_PATTERN = (
    rf"(?i:(?:^|[^a-z])(?:{'|'.join(SPLIT_SPELLINGS)})(?:$|[^a-z]))|[a-z][A-Z]|[A-Z]{2}[a-z]"
)
"""An RE2 pattern that matches every name with a split's word, and some others. It finds the few
names, among millions, that `split_of_name` has to check.
"""


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: runs of letters, cut before capitals."""
    return [word.lower() for word in _WORD.findall(name)]


def split_word(name: str) -> str | None:
    """Return the word of a name that names its split; None without one, or for two splits."""
    word_of_split = {split: word for word in words_of(name) if (split := canonical_split(word))}
    return next(iter(word_of_split.values())) if len(word_of_split) == 1 else None


def split_of_name(name: str) -> str | None:
    """Return `train`, `eval` or `test` if a word of a single name is a spelling of it, or None."""
    word = split_word(name)
    return None if word is None else canonical_split(word)


def split_of_path(path: str) -> str | None:
    """Return the split that a folder or the file's name in a relative path names, else None.

    Raises:
        InputError: two of its names name different splits.
    """
    part_of_split = {split: part for part in path.split("/") if (split := split_of_name(part))}
    if len(part_of_split) > 1:
        first, second = list(part_of_split.items())[:2]
        raise InputError.at(
            path,
            expected="a path that names one split",
            got=f"{first[0]!r} by {first[1]!r} and {second[0]!r} by {second[1]!r}",
            advice="Rename the file or its folder, or leave it out: "
            f"ignore=[{path!r}] (--ignore {path!r}).",
        )
    return next(iter(part_of_split), None)


def splits_of_paths(paths: Iterable[str], *, unit: str = "file") -> dict[str, str | None]:
    """Return the split of each path. Either every path names one, or no path does.

    Args:
        paths: the paths relative to the root of the inputs, so that folders above do not count.
        unit: the word for one of them in messages, such as `archive`.

    Raises:
        InputError: some paths name a split and others do not, or one path names two.
    """
    split_of = {path: split_of_path(path) for path in paths}
    named = [path for path, split in split_of.items() if split is not None]
    nameless = [path for path, split in split_of.items() if split is None]
    if named and nameless:
        raise InputError.at(
            nameless[0],
            expected=f"the name of a split in the path of every {unit}, as in {named[0]!r} "
            f"({split_of[named[0]]}), or in none",
            got=f"{len(nameless)} of {len(split_of)} without one",
            advice="Rename them, or leave them out: "
            f"ignore=[{nameless[0]!r}] (--ignore {nameless[0]!r}).",
        )
    return split_of
