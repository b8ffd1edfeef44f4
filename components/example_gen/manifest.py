"""Lists of files: CSV, TSV, lines of JSON, Parquet.

    read(inputs, ["list.csv"]).entries[0]

The image is the column `image_uri`, `image`, `filename`, `file_name`, `path`, `uri` or `url`, or
the one that `columns` calls `image`; a path is relative to the list, to the input base or to an
image root. Audio likewise. A row may have several files: then each is a feature by its column's
name, and a column whose every value names an image or a sound that is there is one too.

`split` says TRAIN, VALIDATION, TEST or UNASSIGNED. Every other column is a feature: numbers and
lists stay what they are, texts of `label`, `class` or `category` become ids, other texts stay
texts.

A CSV without a header is AutoML Vision's: `split,uri,label[,label…]`, or a box a row:
`split,uri,label,xmin,ymin,,,xmax,ymax,,` with two or four corners, rows of one image together.

Files named after splits (`train.csv`, `val.csv`) are Datum's: `filename` is below a folder of that
name, with or without its extension.
"""

import collections
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from components.common.layout_inputs import LayoutInputs
from components.common.listing import (
    Blob,
    BlobColumn,
    Column,
    Entry,
    LeftOut,
    Listing,
    Value,
    join_listings,
)
from components.common.rejects import RejectedInputError
from components.example_gen import boxes
from components.example_gen.column_types import LABEL_NAMES, typed_column
from components.example_gen.tables import SUFFIXES, Embedded, Table, read_table
from components.media.audio import AUDIO_EXTENSIONS
from components.media.images import IMAGE_EXTENSIONS
from trainer_utils.format import ConfigError, InputError, canonical_split

__all__ = ["COLUMN_KINDS", "find", "is_list", "read"]

MEDIA = ("image", "audio")
COLUMN_KINDS = ("int", "float", "string", "text", "label", *MEDIA, "split", "ignore")
_FILE_COLUMNS = ("filename", "file_name", "path", "uri", "url")
_MEDIA_COLUMNS = {
    "image": ("image_uri", "image", *_FILE_COLUMNS),
    "audio": ("audio_uri", "audio", "clip", *_FILE_COLUMNS),
}
_EXTENSIONS = {"image": IMAGE_EXTENSIONS, "audio": AUDIO_EXTENSIONS}
_WORDS = {"image": "image", "audio": "sound"}
_SPLIT_COLUMNS = ("split", "set", "ml_use")
_UNASSIGNED = ("", "unassigned")

_Source = tuple[str, Blob] | RejectedInputError
_Sources = tuple[str, tuple[Blob, ...]] | RejectedInputError


def is_list(path: str) -> bool:
    """Whether a file is a list by its name."""
    return os.path.splitext(path.lower())[1] in SUFFIXES


def find(inputs: LayoutInputs, *, kind: str | None = None) -> list[str]:
    """The lists at the root of the inputs.

    Args:
        inputs: where to look.
        kind: `csv`, `tsv`, `jsonl` or `parquet`; None for any.
    """
    return [
        path
        for path in inputs.files
        if (path == inputs.root or posixpath.dirname(path) == inputs.root)
        and is_list(path)
        and (kind is None or SUFFIXES[os.path.splitext(path.lower())[1]] == kind)
        and not posixpath.basename(path).startswith(".")
    ]


def read(inputs: LayoutInputs, paths: Sequence[str]) -> Listing:
    """Reads lists; several must be named after splits.

    Raises:
        InputError: one is malformed, or an image is listed twice.
        ConfigError: `columns` names one that is not there.
    """
    if len(paths) > 1 and not all(map(_split_of_name, paths)):
        raise InputError(
            f"input_base {inputs.base!r}: expected one list of {_WORDS[inputs.media]}s, or lists "
            f"named after splits, got {', '.join(sorted(paths))}. "
            "Name one as the pattern of input_config."
        )
    return join_listings([_read_one(inputs, path) for path in paths])


def _split_of_name(path: str) -> str | None:
    return canonical_split(posixpath.basename(path).split(".")[0])


def _read_one(inputs: LayoutInputs, path: str) -> Listing:
    table = read_table(inputs, path)
    if table.columns is None and boxes.are_boxes(table.rows):
        return _read_boxes(inputs, table)
    names, rows = _header(table, inputs)
    if not rows:
        raise InputError(f"{path!r}: expected rows of {','.join(names)}, found none")
    roles = _roles(names, table, inputs)
    place_of = {name: place for place, name in enumerate(names) if name not in table.embedded}
    roles |= _files_by_inspection(inputs, table, rows, roles, place_of)
    media = [name for name in names if roles[name] in MEDIA]
    if not media:
        raise InputError(
            f"{path!r}: expected a column with the files "
            f"({', '.join(_MEDIA_COLUMNS[inputs.media])}), got {', '.join(names)}. "
            f"Name it: columns={{'<column>': '{inputs.media}'}}."
        )
    columns: list[Column] = []
    features: list[list[Value]] = []
    for name, place in place_of.items():
        values = [row[place] for _, row in rows]
        if roles[name] in (*MEDIA, "split", "ignore") or all(v in (None, "") for v in values):
            continue
        column, typed = typed_column(
            name,
            values,
            are_texts=table.columns is None,
            kind="string" if roles[name] == "text" else roles[name],
            place=lambda row: f"{path!r}, {table.place(rows[row][0])}",
        )
        columns.append(column)
        features.append(typed)
    split = _only(names, roles, "split")
    splits = [
        _split(inputs, table, position, row[place_of[split]] if split else None)
        for position, row in rows
    ]
    by_row = list(zip(*features, strict=True)) if features else [()] * len(rows)
    sources_of = []
    for name in media:
        if name in table.embedded:
            sources_of.append(_embedded_sources(inputs, table, table.embedded[name]))
        else:
            uris = [(position, str(row[place_of[name]] or "")) for position, row in rows]
            sources_of.append(_file_sources(inputs, table, uris, are_alone=len(media) == 1))
    sources = _joined_sources(rows, sources_of)
    kinds = [str(roles[name]) for name in media]
    blobs = tuple(map(BlobColumn, kinds if len(media) == 1 else _features(media, kinds), kinds))
    return _listing(table, columns, zip(rows, splits, by_row, sources, strict=True), blobs)


def _features(media: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """What several columns of files are called as features: `filename` is taken."""
    return [
        name if name != "filename" else kind if kind not in media else f"{kind}_file"
        for name, kind in zip(media, kinds, strict=True)
    ]


def _joined_sources(
    rows: Sequence[tuple[int, list[Any]]], sources_of: Sequence[Iterator[_Source]]
) -> Iterator[_Sources]:
    """The name and all files of each row; the name is its first file's, made different."""
    names: set[str] = set()
    for (position, _), *sources in zip(rows, *sources_of, strict=True):
        if error := next((s for s in sources if isinstance(s, RejectedInputError)), None):
            yield error
            continue
        files = cast(list[tuple[str, Blob]], sources)
        name = files[0][0]
        while name in names:
            name += f"#{position}"
        names.add(name)
        yield name, tuple(blob for _, blob in files)


def _files_by_inspection(
    inputs: LayoutInputs,
    table: Table,
    rows: Sequence[tuple[int, list[Any]]],
    roles: Mapping[str, str | None],
    place_of: Mapping[str, int],
) -> dict[str, str | None]:
    """Those other columns whose every value names a file of one kind, one of them being there."""
    found: dict[str, str | None] = {}
    folder = posixpath.dirname(table.path)
    for name, place in place_of.items():
        values = [row[place] for _, row in rows if row[place] not in (None, "")]
        if roles[name] is not None or not all(isinstance(value, str) for value in values):
            continue
        endings = {posixpath.splitext(value)[1].lower() for value in values}
        kind = next((kind for kind in MEDIA if endings <= _EXTENSIONS[kind]), None)
        if values and kind is not None and any(_is_there(inputs, v, folder) for v in values):
            found[name] = kind
    return found


def _is_there(inputs: LayoutInputs, uri: str, folder: str) -> bool:
    try:
        inputs.resolve(uri, folder=folder)
    except RejectedInputError:
        return False
    return True


def _read_boxes(inputs: LayoutInputs, table: Table) -> Listing:
    images = boxes.read_rows(table)
    splits = [_split(inputs, table, image.position, image.split) for image in images]
    by_row = [boxes.values(image.boxes) for image in images]
    rows: list[tuple[int, list[Any]]] = [(image.position, []) for image in images]
    uris = [(image.position, image.uri) for image in images]
    sources = _joined_sources(rows, [_file_sources(inputs, table, uris, are_alone=True)])
    parts = zip(rows, splits, by_row, sources, strict=True)
    return _listing(table, boxes.BOX_COLUMNS, parts, (BlobColumn("image", "image"),))


def _listing(
    table: Table,
    columns: Sequence[Column],
    parts: Iterable[Any],
    blobs: tuple[BlobColumn, ...],
) -> Listing:
    """Joins what was found; without its label an image is left out, if others have one."""
    label = next(
        (n for n, c in enumerate(columns) if c.name.lower() in LABEL_NAMES and not c.is_list), None
    )
    entries, left_out = [], []
    for (position, _), split, values, source in parts:
        place = table.place(position)
        if isinstance(source, RejectedInputError):
            detail = f"{place}: {source.detail}"
            left_out.append(LeftOut(source.name, split, source.code, detail))
        elif label is not None and values[label] is None:
            left_out.append(LeftOut(source[0], split, "NO_LABEL", place))
        else:
            entries.append(Entry(source[0], split, source[1], values))
    return Listing(tuple(entries), tuple(left_out), tuple(columns), blobs)


def _header(table: Table, inputs: LayoutInputs) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    """The columns' names, and the rows with that many values."""
    if table.columns is not None:
        return [*table.columns, *table.embedded], table.rows
    rows = table.rows
    first = [field.lower() for field in rows[0][1]] if rows else []
    known = {name for names in _MEDIA_COLUMNS.values() for name in names}
    headerless = ("split", f"{inputs.media}_uri", "label")
    if set(first) & {*known, *(name.lower() for name in inputs.columns)}:
        names, rows = list(rows[0][1]), rows[1:]
        names = [name if name.lower() not in headerless else name.lower() for name in names]
    else:
        names = list(headerless)
        if any(len(row) > len(names) for _, row in rows):  # several labels
            rows = [
                (line, [*row[:2], [label for label in row[2:] if label]] if len(row) > 2 else row)
                for line, row in rows
            ]
    for position, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"{table.path!r}: expected {len(names)} columns ({','.join(names)}), "
                f"got {len(row)} ({table.place(position)}). "
                f"If it is no list of the {_WORDS[inputs.media]}s, set layout='folder'."
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{table.path!r}: expected each column once, got {twice!r} twice")
    return names, rows


def _roles(names: Sequence[str], table: Table, inputs: LayoutInputs) -> dict[str, str | None]:
    """What each column is for: as the user says, or by its name; None: a feature to inspect."""
    given = inputs.columns
    for name, kind in given.items():
        if name not in names:
            raise ConfigError(
                f"columns: expected columns of {table.path!r} ({', '.join(names)}), got {name!r}"
            )
        if kind not in COLUMN_KINDS:
            raise ConfigError(
                f"columns[{name!r}]: expected one of {', '.join(COLUMN_KINDS)}, got {kind!r}"
            )
    roles: dict[str, str | None] = {name: given.get(name) for name in names}
    media = (inputs.media, _MEDIA_COLUMNS[inputs.media])
    for role, candidates in (media, ("split", _SPLIT_COLUMNS)):
        if role in roles.values() or (role in MEDIA and {*MEDIA} & {*roles.values()}):
            continue
        by_lower = {name.lower(): name for name in reversed(names) if roles[name] is None}
        found = next((by_lower[name] for name in candidates if name in by_lower), None)
        if role in MEDIA and found is None:
            found = next((name for name in table.embedded if roles[name] is None), None)
        if found is not None:
            roles[found] = role
    return roles


def _only(names: Sequence[str], roles: dict[str, str | None], role: str) -> str | None:
    found = [name for name in names if roles[name] == role]
    if len(found) > 1:
        raise ConfigError(f"columns: expected one {role!r}, got {', '.join(found)}")
    return found[0] if found else None


def _split(inputs: LayoutInputs, table: Table, position: int, value: Any) -> str | None:
    if inputs.split is not None:
        return inputs.split
    text = str(value or "")
    if text.lower() in _UNASSIGNED:
        return _split_of_name(table.path) if value is None else None
    split = canonical_split(text)
    if split is None:
        raise InputError(
            f"{table.path!r}: expected split TRAIN, VALIDATION, TEST or UNASSIGNED, "
            f"got {text!r} ({table.place(position)})"
        )
    return split


def _file_sources(
    inputs: LayoutInputs, table: Table, uris: Sequence[tuple[int, str]], *, are_alone: bool
) -> Iterator[_Source]:
    """The name and the file of each row; of a list named after a split also as Datum has them."""
    folder = posixpath.dirname(table.path)
    own_folder = posixpath.splitext(table.path)[0] if _split_of_name(table.path) else None
    stems: dict[str, list[str]] = collections.defaultdict(list)
    if own_folder is not None:
        for path in inputs.files:
            if path.startswith(f"{own_folder}/"):
                stems[posixpath.splitext(path)[0]].append(path)
    place_of: dict[str, str] = {}
    for position, uri in uris:
        place = table.place(position)
        if own_folder is not None:
            uri = _datum_path(table, place, uri, own_folder, stems, inputs)
        try:
            name, blob = inputs.resolve(uri, folder=folder)
        except RejectedInputError as error:
            error.name = uri
            yield error
            continue
        if name in place_of and are_alone:
            raise InputError(
                f"{table.path!r}: expected each {_WORDS[inputs.media]} once, got {uri!r} in "
                f"{_both(place_of[name], place)}. Remove one of them."
            )
        place_of[name] = place
        yield name, blob


def _both(first: str, second: str) -> str:
    """`lines 1 and 2`, of `line 1` and `line 2`."""
    unit, number = first.split()
    return f"{unit}s {number} and {second.split()[1]}"


def _datum_path(
    table: Table,
    place: str,
    uri: str,
    own_folder: str,
    stems: dict[str, list[str]],
    inputs: LayoutInputs,
) -> str:
    """`uri` as a path from the list's folder, where it is Datum's: below the split's folder."""
    path = posixpath.normpath(posixpath.join(own_folder, uri))
    found = [path] if path in inputs.files else stems.get(path, [])
    if len(found) > 1:
        raise InputError(
            f"{table.path!r}: expected one {_WORDS[inputs.media]} called {uri!r}, "
            f"got {', '.join(found)} ({place})"
        )
    folder = posixpath.dirname(table.path)
    return posixpath.relpath(found[0], folder or ".") if found else uri


def _embedded_sources(inputs: LayoutInputs, table: Table, embedded: Embedded) -> Iterator[_Source]:
    """The name and the place of each row's bytes: its own path where all have one, and another."""
    paths = embedded.paths
    are_names = all(paths) and len(set(paths)) == len(paths)
    for row, path in enumerate(paths):
        name = path if are_names and path else f"{table.path}/{row:08d}"
        yield (
            name,
            Blob(table.path, embedded.bytes_per_row, row=row, column=embedded.bytes_column),
        )
