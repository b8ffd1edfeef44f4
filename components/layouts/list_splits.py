"""Take splits from the paths of listed files: `train/1.jpg` in a list, `val2017/1.jpg` in JSON.

Check that no file of rows with several files is in two splits.
"""

import collections
import posixpath
from collections.abc import Sequence

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import array_of, blob_paths, bytes_of, is_in_table
from components.inputs.input_table import InputTable
from trainer_utils.core.errors import InputError
from trainer_utils.format.split_words import split_of_name, split_of_path
from trainer_utils.storage import display_path
from trainer_utils.storage.paths import decode_path

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


def check_files_of_rows(lists: Sequence[str], parts: Sequence[InputTable]) -> None:
    """Check that no file of lists with several files per row is in two splits.

    If a hash decides the splits, log a warning for files in several rows, since the hash of a row
    is that of its first file.

    Args:
        lists: the path of each list.
        parts: the inputs of each list.

    Raises:
        InputError: rows of two splits name the same file.
    """
    if all(len(part.blobs) == 1 for part in parts):
        return
    split_of: dict[bytes, str] = {}
    shared: dict[bytes, tuple[str, str]] = {}
    rows_of = collections.Counter[bytes]()
    for part in parts:
        splits = array_of(part.rows, "split").to_pylist()
        for blob in part.blobs:
            column = f"blob:{blob.name}"
            if is_in_table(part.rows, column):
                continue
            for file, split in zip(bytes_of(blob_paths(part.rows, column)), splits, strict=True):
                if split is None:
                    rows_of[file] += 1
                elif (other := split_of.setdefault(file, split)) != split:
                    shared.setdefault(file, (other, split))
    if shared:
        file, (first, second) = next(iter(shared.items()))
        raise InputError(
            f"{' and '.join(map(repr, lists))}: expected each file in one split, got "
            f"{display_path(decode_path(file))!r} in rows of {first!r} and of {second!r} "
            f"({len(shared):,} such files in all). Move these rows to one split. If splits may "
            f"share files: {how_to_set(rows='each')}.",
            path=lists[0],
        )
    repeated = [file for file, count in rows_of.items() if count > 1]
    if repeated:
        logging.warning(
            "%s: %d files are in several rows, such as %r, and may be in several splits. To keep "
            "them in one, add a column `split` to the list",
            " and ".join(map(repr, lists)),
            len(repeated),
            display_path(decode_path(repeated[0])),
        )
