"""Find the splits of the tables in a folder, and the columns that come from their paths.

Tables may be at the top, in folders named after splits, or in folders that all tables share. An
example is `data/train-00000.parquet` in a clone of the Hub. They may also be in Hive partitions:
each folder `key=value` becomes a column (`year=2024/part-0.csv`).

Source: `pyarrow.dataset.HivePartitioning`, which reads the partitions of Hive and Spark.
"""

import collections
import posixpath
import re
import urllib.parse
from collections.abc import Mapping, Sequence

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.listing import LayoutInputs
from trainer_utils.core.errors import InputError
from trainer_utils.format.split_words import split_of_name, splits_of_paths
from trainer_utils.storage import display_path

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# Numbers of parts, and the hashes in names of the Hub: train-00000-of-00002-2ca4b0d7e1c6a0f5
_NUMBERS = re.compile(r"[-_. ]*([0-9a-f]{16}|part|shard|of|[0-9]+)(?=[-_. 0-9]|$)")
_DOCUMENT = re.compile(
    r"(readme|licen[cs]e)s?([^a-z/][^/]*)?(\.(md|txt|rst|html?|pdf))?"
    r"|dataset_infos?\.json|dataset_dict\.json|_(common_)?metadata|citation(\.\w+)?",
    re.IGNORECASE,
)


def is_document(path: str) -> bool:
    """Return whether a file next to tables is named like a document, such as `README.md`."""
    return _DOCUMENT.fullmatch(posixpath.basename(path)) is not None


def partitions_of(folders: Sequence[str]) -> dict[str, str | None]:
    """Return the column values of Hive partitions by name; None is a missing value.

    Args:
        folders: the names of the folders in a path.
    """
    partitions: dict[str, str | None] = {}
    for folder in filter(_is_partition, folders):
        key, _, value = folder.partition("=")
        value = urllib.parse.unquote(value)
        partitions[urllib.parse.unquote(key)] = None if value == _HIVE_NULL else value
    return partitions


def _is_partition(folder: str) -> bool:
    key, equals, _ = folder.partition("=")
    return bool(key and equals)


def check_folders(inputs: LayoutInputs, paths: Sequence[str]) -> None:
    """Raise an InputError if tables are in folders that are neither splits nor partitions.

    It is unclear whether rows of `en/part-0.csv` and `de/part-0.csv` belong together.

    Args:
        inputs: the inputs.
        paths: the paths of the tables.
    """
    folders = {path: inputs.parts_of(path)[:-1] for path in paths}
    depth = _shared_depth([*folders.values()])
    for path, parts in folders.items():
        inner = parts[depth:]
        strange = [part for part in inner if not _is_partition(part) and not split_of_name(part)]
        if not strange:
            continue
        other = next(path for path in paths if folders[path] != parts)
        place = display_path(posixpath.dirname(path))
        raise InputError(
            f"input_base {inputs.base!r}: expected tables at its top, or in folders named after "
            f"splits or after a column and its value (`year=2024/`), got {display_path(path)!r} "
            f"next to {display_path(other)!r}. Convert one folder at a time, such as "
            f"{posixpath.join(inputs.base, place)!r}; or leave the folder out: "
            f"{how_to_set(ignore=[place])}.",
            path=inputs.base,
        )


def _shared_depth(folders: Sequence[Sequence[str]]) -> int:
    """Return the number of leading folders that all tables share, up to the first partition."""
    depth = 0
    for names in zip(*folders, strict=False):
        if len({*names}) > 1 or _is_partition(names[0]):
            break
        depth += 1
    return depth


def splits_of_tables(inputs: LayoutInputs, paths: Sequence[str]) -> dict[str, str | None]:
    """Return the split of each table: from the pattern, or from a word of its path, or None.

    Args:
        inputs: the inputs.
        paths: the paths of the tables.

    Raises:
        InputError: only some tables name a split, or a table names two.
    """
    if inputs.split is not None:
        return dict.fromkeys(paths, inputs.split)
    is_file = inputs.root in inputs.files
    parts = {path: _names_of(inputs, path, is_file=is_file) for path in paths}
    depth = _shared_depth([parts_of_path[:-1] for parts_of_path in parts.values()])
    splits = _splits(paths, {path: parts_of_path[depth:] for path, parts_of_path in parts.items()})
    return splits if any(splits.values()) else _splits(paths, parts)


def warn_of_joined_tables(splits: Mapping[str, str | None]) -> None:
    """Log a warning if tables whose names differ in words, as train and train_small, join a split.

    Args:
        splits: the split of each table by its path.
    """
    tables: dict[tuple[str, str], dict[str, str]] = collections.defaultdict(dict)
    for path, split in sorted(splits.items()):
        folder, name = posixpath.split(path)
        if split is not None and split_of_name(name) == split:
            words = _NUMBERS.sub("", name.lower()).split(".")[0].strip("-_ ")
            tables[folder, split].setdefault(words, path)
    for (_, split), by_words in tables.items():
        if len(by_words) > 1:
            shown = ", ".join(repr(display_path(path)) for path in by_words.values())
            logging.warning(
                "the tables %s all become the split %r. If one has rows of another, leave it "
                "out: %s",
                *(shown, split, how_to_set(ignore=[display_path([*by_words.values()][-1])])),
            )


def _names_of(inputs: LayoutInputs, path: str, *, is_file: bool) -> list[str]:
    names = (posixpath.basename(path),) if is_file else inputs.parts_of(path)
    return [name for name in names[:-1] if not _is_partition(name)] + [names[-1]]


def _splits(paths: Sequence[str], parts: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    names = {path: "/".join(parts[path]) for path in paths}
    split_of_name = splits_of_paths(dict.fromkeys(names.values()), unit="table")
    return {path: split_of_name[name] for path, name in names.items()}
