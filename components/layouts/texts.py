"""What files of texts mean: which layout they are, and where they are cut."""

import codecs
import dataclasses
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol

from absl import logging

from components.common.entry import ExcludedInput, InputTable
from components.common.layout_inputs import LayoutInputs, select_readable
from components.layouts import folder as class_folders
from components.layouts.junk import is_clutter
from components.layouts.refusals import refuse_layout
from components.tables.pieces import PIECE_BYTES, Piece, TableOptions, select_settings
from components.tables.reading import DELIMITERS, SUFFIXES, kind_of_table, pieces_of
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.storage import display_path, problem_of

_SUFFIXES = {**SUFFIXES, ".json": "json", ".txt": "lines"}
_TABLES = ("csv", "tsv", "jsonl", "parquet", "json")
_HEAD_BYTES = 1 << 20
_PIECE_FILES = 4096


class TextLayoutSettings(Protocol):
    """The settings that say how texts are cut: `TextSettings`."""

    @property
    def layout(self) -> str:
        """The name of a layout, or `auto`."""


def find_pieces(
    inputs: LayoutInputs, settings: TextLayoutSettings, *, folder: str
) -> tuple[list[Piece], list[ExcludedInput]]:
    """Recognises the layout, and cuts the files into pieces; returns these and excluded files.

    Copies of files that are not in UTF-8 are made in `folder`.

    Raises:
        InputError: the layout is not there, or a file is malformed.
        ConfigError: a setting is for another layout.
    """
    layout, paths = recognise(inputs, settings.layout)
    logging.info("%r: read as %s", inputs.root or inputs.base, layout)
    if layout == "folder":
        _check_unused(settings, layout, ("columns", "column_names", "header", "delimiter"))
        listing = class_folders.read(inputs)
        return list(_grouped(listing)), list(listing.excluded)
    if layout not in DELIMITERS:
        _check_unused(settings, layout, ("column_names", "header", "delimiter"))
    options = select_settings(TableOptions, settings)
    splits = _splits(inputs, paths)
    found: list[Piece] = []
    good, excluded = select_readable(inputs, paths, "a table")
    excluded = [dataclasses.replace(left, split=splits[left.name]) for left in excluded]
    for path in good:
        try:
            split = splits[path]
            found += pieces_of(
                inputs, path, kind=layout, split=split, options=options, folder=folder
            )
        except OSError as error:
            excluded.append(ExcludedInput(path, splits[path], *problem_of(error, path)))
    return found, excluded


def _check_unused(settings: TextLayoutSettings, layout: str, names: Sequence[str]) -> None:
    for name in names:
        if value := getattr(settings, name):
            raise ConfigError.of(name, value, allowed=f"none for the layout {layout!r}")


def recognise(inputs: LayoutInputs, layout: str) -> tuple[str, list[str]]:
    """Return the layout of text files, and the tables that are read."""
    if inputs.root in inputs.files:
        kind = kind_of_table(inputs.root, _SUFFIXES) or "lines" if layout == "auto" else layout
        if kind == "folder":
            _refuse(inputs, "a folder for layout='folder'", "a file", "Name its folder.")
        return _json_kind(inputs, kind, [inputs.root], layout), [inputs.root]
    seen = [(parts, file.path) for parts, file in inputs.below_root() if not is_clutter(parts)]
    by_kind: dict[str, list[str]] = {}
    for parts, path in seen:
        # Tables lie at the top, or in folders named after splits.
        if len(parts) == 1 or (len(parts) == 2 and canonical_split(parts[0])):
            by_kind.setdefault(kind_of_table(path, _SUFFIXES) or "", []).append(path)
    if layout == "folder":
        return layout, []
    if layout != "auto":
        paths = by_kind.get(layout, [])
        if not paths and layout != "parquet":  # files of text have any name
            paths = by_kind.get("", []) + by_kind.get("lines", []) + by_kind.get("json", [])
        if not paths:
            refuse_layout(inputs, layout, "files")
        return layout, paths
    tables = [kind for kind in _TABLES if kind in by_kind]
    if len(tables) > 1:
        got = " and ".join(by_kind[kind][0] for kind in tables)
        _refuse(inputs, "tables of one kind", got, f"Say which: layout={tables[0]!r}.")
    if tables:
        kind, paths = tables[0], by_kind[tables[0]]
        taken = set(paths)
        others = [
            path for _, path in seen if kind_of_table(path, _SUFFIXES) == kind and path not in taken
        ]
        if others:  # nobody would read them
            rule = "tables at its top or in folders named after splits"
            got = f"{display_path(others[0])!r} beside {display_path(paths[0])!r}"
            cure = "Move it, or name each split's pattern in input_config."
            _refuse(inputs, rule, got, cure)
        return _json_kind(inputs, kind, paths, layout), paths
    texts = by_kind.get("lines", [])
    if texts and len(texts) == len(seen) and all(_split_word(path) for path in texts):
        return "lines", texts
    return "folder", []


def _refuse(inputs: LayoutInputs, expected: str, got: str, advice: str) -> NoReturn:
    raise InputError(
        f"input_base {inputs.base!r}: expected {expected}, got {got}. {advice}", path=inputs.base
    )


def _json_kind(inputs: LayoutInputs, kind: str, paths: Sequence[str], layout: str) -> str:
    if kind != "json" or layout == "json":
        return kind
    good, _ = select_readable(inputs, paths, "a table")
    with inputs.open(good[0]) as stream:
        head = stream.read(_HEAD_BYTES)
    first, _, rest = head.partition(b"\n")
    try:
        value = json.loads(first.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError):
        return kind
    is_row = isinstance(value, dict) and not all(isinstance(v, dict) for v in value.values())
    return "jsonl" if isinstance(value, dict) and (rest.strip() or is_row) else kind


def _splits(inputs: LayoutInputs, paths: Sequence[str]) -> dict[str, str | None]:
    """The split that each file is: by the pattern, by its folder, or by its own name."""
    if inputs.split is not None:
        return dict.fromkeys(paths, inputs.split)
    prefix = f"{inputs.root}/" if inputs.root and inputs.root not in inputs.files else ""
    tops = {path: path.removeprefix(prefix).split("/")[:-1] for path in paths}
    if all(tops.values()):
        return {path: canonical_split(top[0]) for path, top in tops.items()}
    words = {path: _split_word(path) for path in paths}
    if len(paths) == 1:  # `test_scores.csv` alone is no test split
        (path,) = paths
        return {path: canonical_split(posixpath.basename(path).split(".")[0])}
    if any(words.values()) and not all(words.values()):
        strange = next(path for path, word in words.items() if word is None)
        rule, got = "all files to be named after splits, or none", f"{strange!r} beside others"
        _refuse(inputs, rule, got, "Name each split's in input_config.")
    return words


def _split_word(path: str) -> str | None:
    """The split that a file's name begins with, as in `train-00000-of-00008.parquet`."""
    return canonical_split(re.split(r"[.\-_ ]", posixpath.basename(path))[0])


def _grouped(listing: InputTable) -> Iterator[Piece]:
    by_split: dict[str | None, list[tuple[str, int, Any]]] = {}
    for entry in listing.entries:
        label = entry.values[0] if entry.values else None
        by_split.setdefault(entry.split, []).append((entry.name, entry.blobs[0].size, label))
    for split, files in by_split.items():
        start = size = 0
        for stop in range(1, len(files) + 1):
            size += files[stop - 1][1]
            if stop == len(files) or size >= PIECE_BYTES or stop - start == _PIECE_FILES:
                has_labels = bool(listing.columns)
                details = {"files": files[start:stop], "bytes": size, "has_labels": has_labels}
                yield Piece(path="", source="", layout="folder", split=split, details=details)
                start, size = stop, 0
