"""Files of TFRecords that somebody named: by path, or by a pattern such as `data/train-*`.

find_named_files(["gs://bucket/imagenet/train-*"])
# [('gs://bucket/imagenet/train-00000-of-01024', 142_857_142), …]: paths and bytes

Each folder is listed once, however many of its files are named.
"""

import fnmatch
import functools
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from trainer_utils.dataset.location import is_pattern
from trainer_utils.format import DatasetError
from trainer_utils.format.layouts import check_numbers
from trainer_utils.format.spelling import did_you_mean
from trainer_utils.storage import FolderEntry, list_folder

_NO_RECORDS = re.compile(r"^[._]|\.(json|jsonl|pbtxt|txt|md|csv|crc|index)$")


def find_named_files(patterns: Sequence[str]) -> list[tuple[str, int | None]]:
    """The files that paths and patterns name, and their bytes.

    Args:
        patterns: a path is that file, whatever it is called. In a pattern `*`, `?` and `[…]` stand
            for parts of one name, as in a shell; hidden files, and those that lie beside records,
            such as `dataset_info.json`, do not count.

    Returns:
        In the order of `patterns`, and of names where one matches several.

    Raises:
        DatasetError: nothing is there, or a file is missing of those that a pattern should match,
            as their names say how many there are.
    """
    listed = functools.cache(_listed)
    found: list[tuple[str, int | None]] = []
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        folder = folder or "/" * pattern.startswith("/")
        here = {} if is_pattern(folder) else listed(folder)
        if name in here and not here[name].is_folder:  # whatever characters are in its name
            found.append((pattern, here[name].size))
            continue
        if not is_pattern(pattern):
            raise DatasetError(
                f"file {pattern!r}: expected a file of TFRecords, found none."
                f"{did_you_mean(name, here)}",
                path=pattern,
            )
        matches = sorted(_matches(pattern, listed))
        if not matches:
            raise DatasetError(
                f"files {pattern!r}: expected at least one file of TFRecords that matches, found "
                "none. Check the folder, and that the pattern was not cut by a shell.",
                path=pattern,
            )
        is_wanted = functools.partial(_is_named_by, re.compile(fnmatch.translate(name)))
        check_numbers([path for path, _ in matches], is_wanted=is_wanted)
        found += matches
    return found


def _is_named_by(pattern: re.Pattern[str], path: str) -> bool:
    return pattern.match(path.rpartition("/")[2]) is not None


def _listed(folder: str) -> dict[str, FolderEntry]:
    """What is in a folder, by name; nothing where there is none."""
    try:
        return {entry.name: entry for entry in list_folder(folder or ".")}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _matches(
    pattern: str, listed: Callable[[str], dict[str, FolderEntry]]
) -> Iterator[tuple[str, int | None]]:
    """The files that a pattern matches."""
    parts = pattern.split("/")
    first = next(n for n in range(len(parts)) if is_pattern("/".join(parts[: n + 1])))
    folders = ["/".join(parts[:first]) or ("/" if first else "")]
    for part in parts[first:-1]:
        is_match = re.compile(fnmatch.translate(part)).match
        folders = [
            posixpath.join(folder, name)
            for folder in folders
            for name, entry in listed(folder).items()
            if entry.is_folder and is_match(name) and not name.startswith(".")
        ]
    is_match = re.compile(fnmatch.translate(parts[-1])).match
    for folder in folders:
        for name, entry in listed(folder).items():
            if not entry.is_folder and is_match(name) and not _NO_RECORDS.search(name):
                yield posixpath.join(folder, name), entry.size
