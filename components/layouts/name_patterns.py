"""Take labels, splits and other features from the names of files, by a regular expression.

name_pattern=r"(?P<label>.+)_\\d+"                    # images/Abyssinian_12.jpg
name_pattern=r"(?P<age>\\d+)_(?P<gender>[01])_"       # 26_1_20170109.jpg
name_pattern=r"(?P<label>[^/]+)/(?P<clip>[^/]+)/"    # jump/clip_3/frame_0001.jpg
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import (
    bool_array,
    bytes_of,
    string_array,
    string_scalar,
    to_numpy,
)
from components.inputs.input_table import Column, Value
from components.inputs.listing import LayoutInputs
from components.layouts.list_table import typed_values
from trainer_utils.core.errors import InputError
from trainer_utils.format import split_of_name
from trainer_utils.format.naming import SPLIT_SPELLINGS
from trainer_utils.storage import display_path
from trainer_utils.storage.paths import decode_path

Texts = list[str | None]

LABEL, SPLIT = "label", "split"  # groups with a meaning; all others are features
_MAX_SHOWN = 3
_LIKE_LABELS = re.compile(r"([A-Za-z]+(?:[ _-][A-Za-z]+)*)[._ -]+[0-9]+\Z")
_FIELD_END = re.compile("[_-]+")
_YEAR_OR_DATE = re.compile(r"(19|20)\d\d(\d{4})?\Z")
_SPLIT_AND_LABEL = re.compile(rf"(?:{'|'.join(SPLIT_SPELLINGS)})(?:[ _-]+|\Z)", re.IGNORECASE)


def groups_of_pattern(pattern: str) -> tuple[str, ...]:
    """Return the names of the groups of a pattern, in order."""
    return tuple(re.compile(pattern).groupindex)


def match_names(
    inputs: LayoutInputs, paths: pa.Array, is_readable: npt.NDArray[np.bool_]
) -> dict[str, Texts]:
    """Return the text of each group of `name_pattern` in each path, None for no text.

    A pattern with a slash is compared with the path of a file below the root of the layout, another
    one with its name; in both cases from the beginning.

    Args:
        inputs: the inputs, with a `name_pattern`.
        paths: the paths of the files, `large_binary`.
        is_readable: the mask of the files to match. The others are rejected anyway.

    Raises:
        InputError: some names do not match.
    """
    assert inputs.name_pattern is not None
    pattern = re.compile(inputs.name_pattern)
    is_for_paths = "/" in inputs.name_pattern
    texts_by_group: dict[str, Texts] = {name: [None] * len(paths) for name in pattern.groupindex}
    unmatched = []
    for place, path in enumerate(map(decode_path, bytes_of(paths))):
        if not is_readable[place]:
            continue
        parts = inputs.parts_of(path)
        match = pattern.match("/".join(parts) if is_for_paths else parts[-1])
        if match is None:
            unmatched.append(path)
            continue
        for name, text in match.groupdict().items():
            texts_by_group[name][place] = text or None
    if unmatched:
        shown = ", ".join(repr(display_path(path)) for path in unmatched[:_MAX_SHOWN])
        raise InputError(
            f"name_pattern {inputs.name_pattern!r}: expected a match from the beginning of every "
            f"file's {'path' if is_for_paths else 'name'}, got none for {len(unmatched)} of "
            f"{len(paths)}, such as {shown}. Change the pattern; or leave these files, with "
            f"their labels and splits, out: {how_to_set(ignore=_patterns_of(unmatched, paths))}.",
            path=inputs.base,
        )
    return texts_by_group


def _patterns_of(unmatched: Sequence[str], paths: pa.Array) -> list[str]:
    """Return patterns for `ignore`: folders without any match, and the other names."""
    matched = {*map(decode_path, bytes_of(paths))}.difference(unmatched)
    kept = {folder for path in matched for folder in _folders_above(path)}
    patterns = dict[str, None]()
    for path in unmatched:
        folder = next((f for f in _folders_above(path) if f not in kept), None)
        patterns[path if folder is None else f"{folder}/*"] = None
    return [*patterns]


def _folders_above(path: str) -> list[str]:
    """Return the folders of a path, from the top."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: place + 1]) for place in range(len(parts))]


def splits_of_groups(
    inputs: LayoutInputs, texts: Texts, is_readable: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return the split of each file, by the text of its group.

    Raises:
        InputError: the text of a file to read is not the name of a split.
    """
    splits = {text: split_of_name(text or "") for text in dict.fromkeys(texts)}
    for text, is_read in zip(texts, is_readable.tolist(), strict=True):
        if is_read and splits[text] is None:
            raise InputError(
                f"name_pattern {inputs.name_pattern!r}: expected the name of a split in the group "
                f"'split', such as train, val or test, got {text or ''!r}. Give the group another "
                "name to make it a feature.",
                path=inputs.base,
            )
    return string_array(splits[text] for text in texts)


def features_of_groups(
    groups: Mapping[str, Texts], paths: pa.Array, is_taken: npt.NDArray[np.bool_]
) -> list[tuple[Column, list[Value]]]:
    """Return the column of each group, with values of the types that a CSV file would have.

    Args:
        groups: the texts of each group, one for each file.
        paths: the paths of the files that are taken.
        is_taken: the mask of these files.
    """
    place = lambda n: repr(display_path(decode_path(paths[n].as_py())))  # noqa: E731
    columns = []
    for name, texts in groups.items():
        taken = pc.filter(string_array(texts), bool_array(is_taken))
        if (column := typed_values(name, [(taken, True)], kind=None, place=place)) is not None:
            columns.append(column)
    return columns


def labels_in_names(paths: pa.Array) -> tuple[list[str], str]:
    """Return the beginnings of file names that may be classes, such as cat of cat.12.jpg.

    Either every name consists of words and a number, or all of the same number of fields, like
    0002_c1_000451.jpg; and there are several beginnings, each of several names.

    Returns:
        The beginnings, or an empty list; and the `name_pattern` whose group `label` matches them.
    """
    if words := _several_of_each(_LIKE_LABELS.match, paths):
        without_splits = {_SPLIT_AND_LABEL.sub("", word) for word in words}
        if len(without_splits) == 1:  # train_1.jpg, val_1.jpg
            return [], ""
        have_splits = all(map(_SPLIT_AND_LABEL.match, words))
        return words, "(?P<split>[A-Za-z]+)[ _-]+" * have_splits + "(?P<label>.+?)[._ -]+[0-9]+"
    if not len(paths) or (count := len(_FIELD_END.findall(_stem(paths[0].as_py())))) < 2:
        return [], ""
    fields = _several_of_each(re.compile(rf"([^_-]+)(?:[_-]+[^_-]+){{{count}}}\Z").match, paths)
    if all(map(_YEAR_OR_DATE.match, fields)):
        return [], ""
    return fields, "(?P<label>[^_-]+)[_-]"


def _stem(path: bytes) -> str:
    return posixpath.splitext(posixpath.basename(decode_path(path)))[0]


def _several_of_each(match: Callable[[str], re.Match[str] | None], paths: pa.Array) -> list[str]:
    """Return the first groups of a match of each name, sorted.

    The result is empty if a name does not match, if all have the same group, or one is the only one
    with its group.
    """
    counts: dict[str, int] = {}
    for path in bytes_of(paths):
        if (matched := match(_stem(path))) is None:
            return []
        counts[matched[1]] = counts.get(matched[1], 0) + 1
    return sorted(counts) if len(counts) > 1 and min(counts.values()) > 1 else []


def warn_of_labels_in_names(paths: pa.Array, splits: pa.Array) -> None:
    """Log a warning if the beginnings of names may be labels, with the setting to paste.

    Args:
        paths: the paths of the files.
        splits: their splits. Files of other splits than train may have no labels in their names.
    """
    labels, pattern = labels_in_names(paths)
    cure = how_to_set(name_pattern=pattern) if labels else ""
    if not labels:
        is_train = bool_array(to_numpy(pc.equal(splits, string_scalar("train")), null=False))
        labels, pattern = labels_in_names(pc.filter(paths, is_train))
        if not labels:
            return
        others = map(decode_path, bytes_of(pc.filter(paths, pc.invert(is_train))))
        ignore = _patterns_of([*others], paths)
        cure = f"{how_to_set(name_pattern=pattern, ignore=ignore)}, without the other splits"
    more = " …" if len(labels) > _MAX_SHOWN else ""
    logging.warning(
        "the files have no label, but their names begin with %d values: %s%s. If these are the "
        "labels: %s",
        *(len(labels), ", ".join(map(repr, labels[:_MAX_SHOWN])), more, cure),
    )
