"""Lists of files: CSV, TSV, lines of JSON, Parquet.

    read(inputs, ["list.csv"]).entries[0]

The image is the column `image_uri`, `image`, `filename`, `file_name`, `path`, `uri` or `url`, or
the one that `columns` calls `image`; a path is relative to the list, to the input base or to an
image root. Audio likewise. A row may have several files: then each is a feature by its column's
name, and a column whose every value names an image or a sound that is there is one too.

`split` says TRAIN, VALIDATION, TEST or UNASSIGNED. Every other column is a feature: numbers and
lists stay what they are, texts of `label`, `class` or `category` become ids, other texts stay
texts.

A CSV without a header is AutoML Vision's: `[split,]uri,label[,label…]`, or a box a row:
`split,uri,label,xmin,ymin,,,xmax,ymax,,` with two or four corners, rows of one image together; or
its columns are named by the user. What a header is, is told in `headers`.

Files named after splits (`train.csv`, `val.csv`) are Datum's: `filename` is below a folder of that
name, with or without its extension.
"""

import os
import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

from components.common.layout_inputs import LayoutInputs
from components.common.listing import (
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
from components.example_gen.list_files import (
    WORDS,
    embedded_sources,
    feature_names,
    file_sources,
    files_by_inspection,
    joined_sources,
    split_of_name,
)
from components.example_gen.list_tables import SUFFIXES, Table, read_table
from components.example_gen.settings import COLUMN_KINDS, MEDIA
from components.tables.column_types import LABEL_NAMES, typed_column
from components.tables.headers import ROWS, check_agreement, doubt, refuse_doubtful
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.format.media_formats import EXTENSIONS

__all__ = ["find", "is_list", "kind_of_list", "read"]

_FILE_COLUMNS = ("filename", "file_name", "path", "uri", "url")
_MEDIA_COLUMNS = {
    "image": ("image_uri", "image", *_FILE_COLUMNS),
    "audio": ("audio_uri", "audio", "clip", *_FILE_COLUMNS),
}
_KNOWN = frozenset(name for names in _MEDIA_COLUMNS.values() for name in names)
_SPLIT_COLUMNS = ("split", "set", "ml_use")
_UNASSIGNED = ("", "unassigned")


def is_list(path: str) -> bool:
    """Whether a file is a list by its name."""
    return os.path.splitext(path.lower())[1] in SUFFIXES


def kind_of_list(path: str) -> str:
    """`csv`, `tsv`, `jsonl` or `parquet`, of a list."""
    return SUFFIXES[os.path.splitext(path.lower())[1]]


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
        and (kind is None or kind_of_list(path) == kind)
        and not posixpath.basename(path).startswith(".")
    ]


def read(inputs: LayoutInputs, paths: Sequence[str]) -> Listing:
    """Reads lists; several must be named after splits.

    Raises:
        InputError: one is malformed, or an image is listed twice.
        ConfigError: `columns` names one that is not there.
    """
    if len(paths) > 1 and not all(map(split_of_name, paths)):
        raise InputError(
            f"input_base {inputs.base!r}: expected one list of {WORDS[inputs.media]}s, or lists "
            f"named after splits, got {', '.join(sorted(paths))}. "
            "Name one as the pattern of input_config."
        )
    tables = [read_table(inputs, path) for path in paths]
    headers = {
        table.path: [field.strip() for field in table.rows[0][1]]
        for table in tables
        if table.columns is None and table.rows and _has_header(table, inputs)
    }
    if not inputs.header and not inputs.column_names:
        check_agreement(headers, shown=[path for path in headers if {*headers[path]} & _KNOWN])
    return join_listings([_read_one(inputs, t, has_header=t.path in headers) for t in tables])


def _read_one(inputs: LayoutInputs, table: Table, *, has_header: bool) -> Listing:
    path = table.path
    inputs.note_rows(path, table.columns, [values for _, values in table.rows])
    if table.columns is None and not inputs.column_names and boxes.are_boxes(table.rows):
        return _read_boxes(inputs, table)
    names, rows = _named(table, inputs, has_header=has_header)
    if not rows:
        raise InputError(f"{path!r}: expected rows of {','.join(names)}, found none")
    roles = _roles(names, table, inputs)
    place_of = {name: place for place, name in enumerate(names) if name not in table.embedded}
    roles |= files_by_inspection(inputs, table, rows, roles, place_of)
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
        if roles[name] in (*MEDIA, "split", "ignore") or all(_trimmed(v) is None for v in values):
            continue
        if roles[name] == "label" or name.lower() in LABEL_NAMES:
            values = [*map(_trimmed, values)]
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
            sources_of.append(embedded_sources(table, table.embedded[name]))
        else:
            uris = [(position, str(_trimmed(row[place_of[name]]) or "")) for position, row in rows]
            sources_of.append(file_sources(inputs, table, uris, are_alone=len(media) == 1))
    sources = joined_sources(rows, sources_of)
    kinds = [str(roles[name]) for name in media]
    blobs = tuple(map(BlobColumn, kinds if len(media) == 1 else feature_names(media, kinds), kinds))
    return _listing(table, columns, zip(rows, splits, by_row, sources, strict=True), blobs)


def _read_boxes(inputs: LayoutInputs, table: Table) -> Listing:
    images = boxes.read_rows(table)
    splits = [_split(inputs, table, image.position, image.split) for image in images]
    by_row = [boxes.values(image.boxes) for image in images]
    rows: list[tuple[int, list[Any]]] = [(image.position, []) for image in images]
    uris = [(image.position, image.uri) for image in images]
    sources = joined_sources(rows, [file_sources(inputs, table, uris, are_alone=True)])
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


def _has_header(table: Table, inputs: LayoutInputs) -> bool:
    """Whether a CSV begins with the names of its columns.

    Raises:
        InputError: that cannot be told.
    """
    first, *others = [row for _, row in table.rows[: ROWS + 1]]
    names = [field.strip() for field in first]
    if inputs.column_names:
        return bool(inputs.header) or names == list(inputs.column_names)
    if inputs.header or {name.lower() for name in names} & _KNOWN or {*names} & {*inputs.columns}:
        return True
    if any(map(_is_file, names)):
        return False
    if (reason := doubt(first, others)) is not None:
        refuse_doubtful(table.path, first, others, reason)
    return True


def _is_file(field: str) -> bool:
    ending = posixpath.splitext(field)[1].lower()
    return "://" in field or ending in EXTENSIONS["image"] or ending in EXTENSIONS["audio"]


def _named(
    table: Table, inputs: LayoutInputs, *, has_header: bool
) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    """The columns' names, and the rows with that many values."""
    if table.columns is not None:
        return [*table.columns, *table.embedded], table.rows
    rows = table.rows[1:] if has_header else table.rows
    if inputs.column_names:
        names = list(inputs.column_names)
    elif has_header:
        automl = ("split", f"{inputs.media}_uri", "label")
        names = [name.strip() for name in table.rows[0][1]]
        names = [name.lower() if name.lower() in automl else name for name in names]
    else:
        names, rows = _as_automl(table, inputs)
    for position, row in rows:
        if len(row) != len(names):
            raise InputError(
                f"{table.path!r}: expected {len(names)} columns ({','.join(names)}), "
                f"got {len(row)} ({table.place(position)}). "
                f"If it is no list of the {WORDS[inputs.media]}s, set layout='folder'."
            )
    if not all(names) or len(set(names)) < len(names):
        what = next((f"{n!r} twice" for n in names if n and names.count(n) > 1), "one without")
        raise InputError(
            f"{table.path!r}: expected each column's name once in the first row, got {what}. Name "
            "them: header=True, column_names=[…] (tfx-shards convert … --header --columns …)."
        )
    return names, rows


def _as_automl(table: Table, inputs: LayoutInputs) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    """AutoML's names for a list without a header, and its rows, several labels as a list.

    Raises:
        InputError: its columns are others.
    """
    media, rows = f"{inputs.media}_uri", table.rows
    has_split = not any(_is_file(row[0].strip()) for _, row in rows)
    names = ["split", media, "label"] if has_split else [media, "label"]
    place = names.index(media)
    if any(len(row) <= place for _, row in rows) or (
        has_split and rows and not any(_is_split(row[0].strip()) for _, row in rows)
    ):
        refuse_doubtful(
            table.path,
            rows[0][1],
            [row for _, row in rows[1:2]],
            f"without a header, they should be {','.join(names)}",
        )
    if all(len(row) == place + 1 for _, row in rows):
        return names[:-1], rows
    if any(len(row) > len(names) for _, row in rows):  # several labels
        rows = [
            (line, [*row[: place + 1], _labels(row[place + 1 :])] if len(row) > place + 1 else row)
            for line, row in rows
        ]
    return names, rows


def _is_split(word: str) -> bool:
    return word.lower() in _UNASSIGNED or canonical_split(word) is not None


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


def _labels(fields: Sequence[str]) -> list[str]:
    return [label for field in fields if (label := field.strip())]


def _trimmed(value: Any) -> Any:
    """A path, a word or a label without spaces round it; None for what is empty then."""
    return (value.strip() or None) if isinstance(value, str) else value


def _only(names: Sequence[str], roles: dict[str, str | None], role: str) -> str | None:
    found = [name for name in names if roles[name] == role]
    if len(found) > 1:
        raise ConfigError(f"columns: expected one {role!r}, got {', '.join(found)}")
    return found[0] if found else None


def _split(inputs: LayoutInputs, table: Table, position: int, value: Any) -> str | None:
    if inputs.split is not None:
        return inputs.split
    text = str(value or "").strip()
    if text.lower() in _UNASSIGNED:
        return split_of_name(table.path) if value is None else None
    split = canonical_split(text)
    if split is None:
        raise InputError(
            f"{table.path!r}: expected split TRAIN, VALIDATION, TEST or UNASSIGNED, "
            f"got {text!r} ({table.place(position)})"
        )
    return split
