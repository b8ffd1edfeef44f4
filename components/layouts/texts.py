"""Recognise the layout of text files, and cut them into pieces."""

import codecs
import dataclasses
import itertools
import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs, select_readable
from components.layouts import folder as class_folders
from components.layouts.junk import is_clutter
from components.layouts.line_formats import check_lines, refuse_parallel
from components.layouts.refusals import refuse_layout
from components.layouts.table_files import (
    check_folders,
    is_document,
    partitions_of,
    splits_of_tables,
    warn_of_joined_tables,
)
from components.tables.json_rows import is_no_row, lists_in_document, rows_within
from components.tables.pieces import PIECE_BYTES, Piece, TextFile
from components.tables.reading import DELIMITERS, SUFFIXES, kind_of_table
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.core.settings import settings_of
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.split_words import split_of_name
from trainer_utils.storage import display_path

_SUFFIXES = {**SUFFIXES, ".json": "json", ".txt": "lines"}
_TABLES = ("csv", "tsv", "jsonl", "parquet", "json")
_HEAD_BYTES = 1 << 20
_PIECE_FILES = 4096
_MAX_SHOWN = 5
_NO_TEXTS = (
    *itertools.chain.from_iterable(EXTENSIONS.values()),
    *(".parquet", ".arrow", ".feather", ".npy", ".npz", ".h5", ".hdf5", ".pkl", ".pdf", ".docx"),
    *(".xlsx", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".mp4", ".tfrecord"),
)
_DATA = (".arrow", ".feather", ".npy", ".npz", ".h5", ".hdf5", ".pkl", ".xlsx")
_PACKED_TEXTS = (".txt.gz", ".text.gz", ".log.gz")
_OF_DELIMITED = ("column_names", "header", "delimiter", "quoting")


class TextLayoutSettings(Protocol):
    """The settings for reading text; `TextSettings` implements them."""

    @property
    def layout(self) -> str:
        """Name of a layout, or `auto`."""


@dataclasses.dataclass(frozen=True)
class TextFiles:
    """The files of text inputs that were recognised."""

    pieces: list[Piece]  # pieces of several files with one text each
    tables: list[Piece]  # tables, each as one piece
    sizes: list[int]  # the size of each table in bytes
    excluded: list[ExcludedInput]


def find_files(inputs: LayoutInputs, settings: TextLayoutSettings) -> TextFiles:
    """Recognise the layout, and return its files.

    Args:
        inputs: the inputs.
        settings: the settings for reading text.

    Raises:
        InputError: there are no files of the layout.
        ConfigError: a setting does not apply to the layout.
    """
    layout, paths = recognise(inputs, settings.layout)
    logging.info("%r: read as %s", inputs.root or inputs.base, layout)
    if layout in ("folder", "lines") and settings.layout == "auto":
        refuse_parallel(inputs, layout)
    if layout == "folder":
        _check_unused(settings, layout, ("columns", *_OF_DELIMITED))
        listing = class_folders.read(inputs)
        names = [entry.name for entry in listing.entries]
        _refuse_no_texts(inputs, names)
        if settings.layout == "auto":
            check_lines(inputs, layout, names)
        return TextFiles([*_grouped(listing)], [], [], [*listing.excluded])
    if layout == "lines" and settings.layout == "auto":
        check_lines(inputs, layout, paths)
    if layout not in DELIMITERS:
        _check_unused(settings, layout, _OF_DELIMITED)
    splits = splits_of_tables(inputs, paths)
    if inputs.split is None:
        warn_of_joined_tables(splits)
    good, excluded = select_readable(inputs, paths, "a table")
    excluded = [dataclasses.replace(left, split=splits[left.name]) for left in excluded]
    excluded += _skipped(inputs, paths)
    tables = [_whole_table(inputs, path, layout, splits[path]) for path in good]
    return TextFiles([], tables, [inputs.files[path].size for path in good], excluded)


def _whole_table(inputs: LayoutInputs, path: str, layout: str, split: str | None) -> Piece:
    """Return a table as one piece, with additional columns from its folders."""
    partitions = partitions_of(inputs.parts_of(path)[:-1])
    return Piece(path=path, source=path, layout=layout, split=split, partitions=partitions)


def _skipped(inputs: LayoutInputs, tables: Sequence[str]) -> Iterator[ExcludedInput]:
    """Yield the files next to tables that are not read, such as `README.md`."""
    taken = {*tables}
    for parts, file in inputs.below_root():
        if inputs.root not in inputs.files and file.path not in taken and not is_clutter(parts):
            yield ExcludedInput(file.path, None, None, "no table of this layout")


def _check_unused(settings: TextLayoutSettings, layout: str, names: Sequence[str]) -> None:
    known = settings_of(type(settings))  # type: ignore[arg-type]
    for name in names:
        if (value := getattr(settings, name)) != known[name].default:
            raise ConfigError.of(name, value, allowed=f"none for the layout {layout!r}")


def recognise(inputs: LayoutInputs, layout: str) -> tuple[str, list[str]]:
    """Return the layout of text files, and the tables to read.

    Args:
        inputs: the inputs.
        layout: the setting `layout`.

    Raises:
        InputError: the files do not fit the layout, or several layouts fit.
    """
    if inputs.root in inputs.files:
        kind = kind_of_table(inputs.root, _SUFFIXES) or "lines" if layout == "auto" else layout
        if kind == "folder":
            _refuse(inputs, "a folder for layout='folder'", "a file", "Name its folder.")
        return _json_kind(inputs, kind, [inputs.root], layout), [inputs.root]
    seen = [file.path for parts, file in inputs.below_root() if not is_clutter(parts)]
    by_kind: dict[str, list[str]] = {}
    for path in seen:
        by_kind.setdefault(kind_of_table(path, _SUFFIXES) or "", []).append(path)
    if layout == "folder":
        return layout, []
    if arrow := next((path for path in seen if path.endswith(".arrow")), None):
        cure = (
            "Convert it from Python: pipelines.convert(datasets.load_from_disk(source), out); or "
            "write it as Parquet: Dataset.to_parquet."
        )
        _refuse(inputs, "tables or text files", f"the Arrow file {display_path(arrow)!r}", cure)
    if layout != "auto":
        paths = by_kind.get(layout, [])
        if not paths and layout != "parquet":  # text files may have any suffix
            paths = [p for kind in ("", "lines", "json") for p in by_kind.get(kind, [])]
        if not paths:
            refuse_layout(inputs, layout, "files")
        check_folders(inputs, paths)
        return layout, paths
    tables = [kind for kind in _TABLES if any(map(_is_table, by_kind.get(kind, ())))]
    if len(tables) > 1:
        got = " and ".join(display_path(by_kind[kind][0]) for kind in tables)
        others = [f"*{posixpath.splitext(by_kind[kind][0])[1]}" for kind in tables[1:]]
        cure = f"Choose one: {how_to_set(layout=tables[0])}; or leave the others out: "
        cure += f"{how_to_set(ignore=others)}."
        _refuse(inputs, "tables of one format", got, cure)
    if tables:
        paths = [*filter(_is_table, by_kind[tables[0]])]
        _check_others(inputs, seen, paths)
        check_folders(inputs, paths)
        return _json_kind(inputs, tables[0], paths, layout), paths
    texts = by_kind.get("lines", [])
    parts = [inputs.parts_of(path) for path in texts]
    are_splits = all(
        _is_at_top_or_in_split(parts_of_path) and split_of_name(parts_of_path[-1])
        for parts_of_path in parts
    )
    if texts and len(texts) == len(seen) and are_splits:
        return "lines", texts
    return "folder", []


def _is_table(path: str) -> bool:
    return not is_document(path)


def _is_at_top_or_in_split(parts: Sequence[str]) -> bool:
    return len(parts) == 1 or (len(parts) == 2 and split_of_name(parts[0]) is not None)


def _refuse_no_texts(inputs: LayoutInputs, paths: Sequence[str]) -> None:
    """Raise an InputError if files to be read as one text each are tables, media or archives."""
    documents = [path for path in paths if path.lower().endswith(_NO_TEXTS)]
    if not documents:
        return
    patterns = sorted({f"*{posixpath.splitext(path)[1]}" for path in documents})
    shown = ", ".join(repr(display_path(path)) for path in documents[:_MAX_SHOWN])
    more = f" and {len(documents) - _MAX_SHOWN} more" if len(documents) > _MAX_SHOWN else ""
    cure = f"To leave them out: {how_to_set(ignore=patterns)}."
    if all(path.lower().endswith(_PACKED_TEXTS) for path in documents):
        cure = f"If each line is an example: {how_to_set(layout='lines')}. {cure}"
    if any(path.lower().endswith(_DATA) for path in documents):
        cure = f"Save their rows as CSV, JSON lines or Parquet, in place of these files. {cure}"
    _refuse(inputs, "only text files", f"{shown}{more}", cure)


def _check_others(inputs: LayoutInputs, seen: Sequence[str], tables: Sequence[str]) -> None:
    """Raise an InputError if a file next to tables is neither a table nor a document."""
    taken = set(tables)
    others = [path for path in seen if path not in taken and not is_document(path)]
    others = [path for path in others if inputs.files[path].size]
    if not others:
        return
    shown = ", ".join(repr(display_path(path)) for path in others[:_MAX_SHOWN])
    more = f" and {len(others) - _MAX_SHOWN} more" if len(others) > _MAX_SHOWN else ""
    names = [*map(posixpath.basename, others)]
    patterns = sorted({f"*{end}" if (end := posixpath.splitext(n)[1]) else n for n in names})
    table = f"*{posixpath.splitext(tables[0])[1]}"
    _refuse(
        inputs,
        f"only tables such as {display_path(tables[0])!r}",
        f"{shown}{more}",
        f"To read the tables alone: {how_to_set(ignore=patterns)}. To read the other files alone: "
        f"{how_to_set(ignore=[table])}.",
    )


def _refuse(inputs: LayoutInputs, expected: str, got: str, advice: str) -> NoReturn:
    raise InputError(
        f"input_base {inputs.base!r}: expected {expected}, got {got}. {advice}", path=inputs.base
    )


def _json_kind(inputs: LayoutInputs, kind: str, paths: Sequence[str], layout: str) -> str:
    """Return `jsonl` for a file of kind `json` with an object per line, else the kind unchanged."""
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
    if not rest.strip() and (rows_within(value) is not value or lists_in_document(first)):
        return kind
    if isinstance(value, dict) and not rest.strip() and is_no_row(value):
        return kind
    is_row = isinstance(value, dict) and not all(isinstance(v, dict) for v in value.values())
    return "jsonl" if isinstance(value, dict) and (rest.strip() or is_row) else kind


def _grouped(listing: InputTable) -> Iterator[Piece]:
    """Yield pieces of files of one split, with a limited size and number of files."""
    by_split: dict[str | None, list[TextFile]] = {}
    for entry in listing.entries:
        label: Any = entry.values[0] if entry.values else None
        file = TextFile(entry.name, entry.blobs[0].size, label)
        by_split.setdefault(entry.split, []).append(file)
    for split, files in by_split.items():
        start = size = 0
        for stop in range(1, len(files) + 1):
            size += files[stop - 1].size
            if stop == len(files) or size >= PIECE_BYTES or stop - start == _PIECE_FILES:
                yield Piece(
                    path="",
                    source="",
                    layout="folder",
                    split=split,
                    files=files[start:stop],
                    unpacked_bytes=size,
                    has_labels=bool(listing.columns),
                )
                start, size = stop, 0
