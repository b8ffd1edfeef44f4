"""Take splits from the paths of listed files: `train/1.jpg` in a list, `val2017/1.jpg` in JSON."""

import posixpath
from collections.abc import Sequence

from trainer_utils.core.errors import InputError
from trainer_utils.format.split_words import split_of_name, split_of_path

_SHARE = 0.1  # up to this fraction of names may have a word like `test` by chance


def splits_of_files(paths: Sequence[str], *, source: str) -> list[str | None]:
    """Return the split of each file by its folders, or else by its name.

    Either all files have a split or no file has.

    Args:
        paths: paths of the files in the list, relative to the inputs.
        source: the list, for messages.

    Raises:
        InputError: some files name a split and others do not.
    """
    for parts_of, least in ((posixpath.dirname, 0.0), (posixpath.basename, _SHARE)):
        of_part = {part: _split_of(part) for part in {parts_of(path) for path in paths}}
        splits = [of_part[parts_of(path)] for path in paths]
        named = [path for path, split in zip(paths, splits, strict=True) if split]
        if not named:
            continue
        if len(named) == len(splits):
            return splits
        if len(named) > least * len(splits):
            nameless = next(p for p, split in zip(paths, splits, strict=True) if not split)
            raise InputError(
                f"{source!r}: {len(named)} of its {len(paths)} files name a split, such as "
                f"{named[0]!r}, but others do not, such as {nameless!r}. Add a column `split` with "
                "each file's split: TRAIN, VALIDATION, TEST or UNASSIGNED (a hash decides).",
                path=source,
            )
    return [None] * len(paths)


def _split_of(part: str) -> str | None:
    return split_of_path(part) if "/" in part else split_of_name(part)
