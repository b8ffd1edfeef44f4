"""What files of texts mean: where they are cut, and the rows of each piece.

pieces, left_out = find_pieces(inputs, settings, folder=working_folder(uri))
rows = read_piece("reviews/", pieces[0], settings)
"""

import dataclasses
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from components.common.layout_inputs import LayoutInputs, readable, unseen
from components.common.listing import LeftOut
from components.example_gen.folder import is_clutter
from components.tables import (
    delimited,
    documents,
    json_lines,
    keyed_json,
    lines,
    parquet,
)
from components.tables.pieces import MAX_ROW_BYTES, Piece
from components.tables.rows import BadRow, Rows
from components.tables.transcoding import in_utf8
from components.text_example_gen.settings import TextSettings
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.storage import (
    FileRefusedError,
    display_path,
    is_remote,
    join,
    open_for_reading,
    problem_of,
)

__all__ = ["find_pieces", "is_source_file", "read_piece", "what_was_looked_for"]

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".json": "json",
    ".txt": "lines",
}
_TABLES = ("csv", "tsv", "jsonl", "parquet", "json")
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_HEAD_BYTES = 1 << 20


def is_source_file(path: str) -> bool:
    """Whether a file is by itself what examples are made of: any is."""
    return bool(path)


def what_was_looked_for(names: Iterable[str]) -> str:
    """A sentence for an input that is none of the layouts, with what is at its top."""
    return (
        f"Looked for tables ({', '.join(_SUFFIXES)}) and for text files in folders; "
        f"at its top: {_some(names)}."
    )


def _some(names: Iterable[str]) -> str:
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")


def find_pieces(
    inputs: LayoutInputs, settings: TextSettings, *, folder: str
) -> tuple[list[Piece], list[LeftOut]]:
    """Recognises the layout, and cuts the files into pieces.

    Args:
        inputs: the files, and where the layout begins.
        settings: of the component.
        folder: for copies of files that are not in UTF-8.

    Returns:
        The pieces in their order, and files that are left out.

    Raises:
        InputError: the layout is not there, or a file is malformed.
        ConfigError: a setting is for another layout.
    """
    layout, paths = _recognise(inputs, settings.layout)
    logging.info("%r: read as %s", inputs.root or inputs.base, layout)
    if layout == "folder":
        _check_unused(settings, layout, ("columns", "column_names", "header", "delimiter"))
        pieces, listing = documents.find_pieces(inputs)
        return pieces, list(listing.left_out)
    if layout not in _DELIMITERS:
        _check_unused(settings, layout, ("column_names", "header", "delimiter"))
    splits = _splits(inputs, paths)
    found: list[Piece] = []
    good, left_out = readable(inputs, paths, "a table")
    left_out = [dataclasses.replace(left, split=splits[left.name]) for left in left_out]
    left_out += unseen(inputs)
    for path in good:
        try:
            found += [*_pieces_of(inputs, path, layout, splits[path], settings, folder)]
        except (FileRefusedError, FileNotFoundError, PermissionError) as error:
            left_out.append(LeftOut(path, splits[path], *problem_of(error)))
    return found, left_out


def _check_unused(settings: TextSettings, layout: str, names: Sequence[str]) -> None:
    for name in names:
        if value := getattr(settings, name):
            raise ConfigError(f"{name}: expected none for the layout {layout!r}, got {value!r}")


def _recognise(inputs: LayoutInputs, layout: str) -> tuple[str, list[str]]:
    """The layout, and its files in order."""
    if inputs.root in inputs.files:
        kind = _kind(inputs.root) or "lines" if layout == "auto" else layout
        if kind == "folder":
            raise InputError("input_base: expected a folder for layout='folder', got a file")
        return _json_kind(inputs, kind, [inputs.root], layout), [inputs.root]
    seen = [
        (parts, file.path)
        for parts, file in inputs.below_root()
        if not is_clutter(parts) and not file.is_folder
    ]
    by_kind: dict[str, list[str]] = {}
    for parts, path in seen:
        # Tables lie at the top, or in folders named after splits.
        if len(parts) == 1 or (len(parts) == 2 and canonical_split(parts[0])):
            by_kind.setdefault(_kind(path) or "", []).append(path)
    if layout == "folder":
        return layout, []
    if layout != "auto":
        paths = by_kind.get(layout, [])
        if not paths and layout != "parquet":  # files of text have any name
            paths = by_kind.get("", []) + by_kind.get("lines", []) + by_kind.get("json", [])
        if not paths:
            raise InputError(
                f"input_base {inputs.base!r}: expected files for layout={layout!r}, found none; "
                f"at its top: {_some(parts[0] for parts, _ in seen)}."
            )
        return layout, paths
    tables = [kind for kind in _TABLES if kind in by_kind]
    if len(tables) > 1:
        raise InputError(
            f"input_base {inputs.base!r}: expected tables of one kind, got "
            f"{' and '.join(by_kind[kind][0] for kind in tables)}. Say which: layout={tables[0]!r}."
        )
    if tables:
        paths = by_kind[tables[0]]
        return _json_kind(inputs, tables[0], paths, layout), paths
    texts = by_kind.get("lines", [])
    if texts and len(texts) == len(seen) and all(_split_word(path) for path in texts):
        return "lines", texts
    return "folder", []


def _kind(path: str) -> str | None:
    name = path.lower().removesuffix(".gz")
    return _SUFFIXES.get(posixpath.splitext(name)[1])


def _json_kind(inputs: LayoutInputs, kind: str, paths: Sequence[str], layout: str) -> str:
    """`jsonl` for files called .json that hold an object a line."""
    if kind != "json" or layout == "json":
        return kind
    good, _ = readable(inputs, paths, "a table")
    with inputs.open(good[0]) as stream:
        head = stream.read(_HEAD_BYTES)
    first, _, rest = head.partition(b"\n")
    try:
        value = json.loads(first.removeprefix(b"\xef\xbb\xbf"))
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
        raise InputError(
            f"input_base {inputs.base!r}: expected all files to be named after splits, or none, "
            f"got {strange!r} beside others that are. Name each split's in input_config."
        )
    return words


def _split_word(path: str) -> str | None:
    """The split that a file's name begins with, as in `train-00000-of-00008.parquet`."""
    return canonical_split(re.split(r"[.\-_ ]", posixpath.basename(path))[0])


def _pieces_of(
    inputs: LayoutInputs,
    path: str,
    layout: str,
    split: str | None,
    settings: TextSettings,
    folder: str,
) -> Iterator[Piece]:
    if layout == "parquet":
        yield from parquet.find_pieces(inputs, path, source=path, split=split)
        return
    copy = in_utf8(
        inputs, path, encoding=settings.encoding, is_utf8=settings.is_utf8, folder=folder
    )
    if layout in _DELIMITERS:
        yield from delimited.find_pieces(
            inputs,
            copy,
            source=path,
            layout=layout,
            split=split,
            delimiter=settings.delimiter or _DELIMITERS[layout],
            settings=settings,
        )
    elif layout == "json":
        yield from keyed_json.find_pieces(inputs, copy, source=path, split=split)
    else:
        yield from json_lines.find_pieces(inputs, copy, source=path, layout=layout, split=split)


def read_piece(base: str, piece: Piece, settings: TextSettings) -> Rows:
    """The rows of a piece.

    A piece of a file that was exchanged or has vanished is one bad row.

    Raises:
        InputError: the piece as a whole cannot be read.
    """
    if piece.too_long:
        detail = f"expected at most {MAX_ROW_BYTES} bytes in a row, got {piece.stop - piece.start}"
        return Rows({}, found=1, bad=[BadRow(0, "TOO_LARGE", detail, 0)], lines=1)
    if piece.layout == "folder":
        return documents.read(base, piece, encoding=None if settings.is_utf8 else settings.encoding)
    try:
        return _read_table(base, piece, settings)
    except (FileRefusedError, FileNotFoundError, PermissionError) as error:
        code, detail = problem_of(error)
        return Rows({}, found=1, bad=[BadRow(0, code, detail, 0)], lines=1)


def _read_table(base: str, piece: Piece, settings: TextSettings) -> Rows:
    ignored = frozenset(name for name, kind in settings.columns.items() if kind == "ignore")
    # A copy in UTF-8 is our own, and lies elsewhere.
    is_listed = piece.path == piece.source and not is_remote(base)
    root = os.path.realpath(base) if is_listed else None
    with open_for_reading(join(base, piece.path), root=root) as stream:
        if piece.layout == "parquet":
            return parquet.read(stream, piece, ignored=ignored)
        stream.seek(piece.start)
        data = stream.read(piece.stop - piece.start)
    if len(data) != piece.stop - piece.start:
        raise InputError(f"{piece.source!r}: became shorter while it was read")
    if piece.layout in _JSON_READERS:
        rows = _JSON_READERS[piece.layout](data, piece, ignored=ignored)
    else:
        rows = _READERS[piece.layout](data, piece)
    if piece.path == piece.source:  # else it is a copy; Parquet has returned
        rows.sums = [(piece.start, len(data), extend_crc32c(0, data))]
    rows.columns = {name: column for name, column in rows.columns.items() if name not in ignored}
    return rows


_JSON_READERS = {"jsonl": json_lines.read, "json": keyed_json.read}
_READERS = {
    "csv": delimited.read,
    "tsv": delimited.read,
    "lines": lines.read,
}
