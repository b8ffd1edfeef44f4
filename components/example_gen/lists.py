"""Lists of files: CSV, TSV, JSON lines, Parquet, and AutoML Vision's CSV without a header.

The image is the column `image_uri`, `image`, `filename`, `file_name`, `path`, `uri` or `url`, or
the one that `columns` calls `image`; sounds likewise. A row may have several files: then each is a
feature by its column's name. `split` says TRAIN, VALIDATION, TEST or UNASSIGNED; every other column
is a feature. Files named after splits (`train.csv`, `val.csv`) are Datum's: `filename` is below a
folder of that name, with or without its extension.
"""

import dataclasses
import posixpath
from collections.abc import Sequence

from components.common.entry import BlobColumn, Column, Entry, ExcludedInput, Value
from components.common.input_table import InputTable, join_inputs
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError
from components.example_gen.list_files import (
    WORDS,
    embedded_sources,
    feature_names,
    file_sources,
    files_by_inspection,
    is_own_list,
    joined_sources,
    split_of_name,
)
from components.example_gen.list_table import ListTable, read_list
from components.example_gen.settings import MEDIA
from components.tables.delimited import check_agreement
from components.tables.kinds import LABEL_NAMES, check_columns
from components.tables.reading import DELIMITERS, SUFFIXES, kind_of_table
from components.tables.splits import NoSplit, split_column, split_of_word
from trainer_utils.format import InputError

_ENDINGS = tuple(SUFFIXES)
_FILE_COLUMNS = ("filename", "file_name", "path", "uri", "url")
_MEDIA_COLUMNS = {
    "image": ("image_uri", "image", *_FILE_COLUMNS),
    "audio": ("audio_uri", "audio", "clip", *_FILE_COLUMNS),
}
_KNOWN = frozenset(name for names in _MEDIA_COLUMNS.values() for name in names)
_AUTOML = ("split", "image_uri", "audio_uri", "label")  # in lower case, however they are written


def is_list(path: str) -> bool:
    """Whether a file is a list by its name."""
    return posixpath.splitext(path.lower())[1] in SUFFIXES


def find(inputs: LayoutInputs, *, kind: str | None = None) -> list[str]:
    """The lists at the root of the inputs, of a kind of `LISTS` or of any."""
    if "csv_path" in inputs.names:
        return [path for path in inputs.files.ending(_ENDINGS) if is_own_list(inputs, path)]
    return [
        path
        for path in inputs.files.ending(_ENDINGS)
        if (path == inputs.root or posixpath.dirname(path) == inputs.root)
        and is_list(path)
        and (kind is None or kind_of_table(path) == kind)
        and not posixpath.basename(path).startswith(".")
    ]


def read(inputs: LayoutInputs, paths: Sequence[str]) -> InputTable:
    """Reads lists; several must be named after splits.

    Raises:
        InputError: one is malformed, or an image is listed twice.
        ConfigError: `columns` names one that is not there.
    """
    if len(paths) > 1 and not all(split_of_name(inputs, path) for path in paths):
        raise InputError(
            f"input_base {inputs.base!r}: expected one list of {WORDS[inputs.media]}s, or lists "
            f"named after splits, got {', '.join(sorted(paths))}. "
            "Name one as the pattern of input_config.",
            path=inputs.base,
        )
    tables = [_with_known_names(read_list(inputs, path, known=_KNOWN)) for path in paths]
    headers = {t.path: t.names for t in tables if kind_of_table(t.path) in DELIMITERS}
    if not inputs.header and not inputs.column_names:
        check_agreement(headers, shown=[path for path in headers if {*headers[path]} & _KNOWN])
    return join_inputs([_of_table(inputs, table) for table in tables])


def _with_known_names(table: ListTable) -> ListTable:
    """A CSV's columns of AutoML's names in lower case, however they are written."""
    if kind_of_table(table.path) not in DELIMITERS:
        return table
    columns = {n.lower() if n.lower() in _AUTOML else n: v for n, v in table.columns.items()}
    return dataclasses.replace(table, columns=columns)


def _of_table(inputs: LayoutInputs, table: ListTable) -> InputTable:
    """Splits, features and files of all rows."""
    path, names = table.path, table.names
    if not table.positions:
        raise InputError(f"{path!r}: expected rows of {','.join(names)}, found none", path=path)
    roles = _roles(names, table, inputs)
    roles |= files_by_inspection(inputs, table, roles)
    media = [name for name in names if roles[name] in MEDIA]
    if not media:
        word = inputs.media
        rule = f"a column with the files ({', '.join(_MEDIA_COLUMNS[word])})"
        advice = (
            f"Name it: --column <column>={word} (columns={{'<column>': '{word}'}}). If it is no "
            f"list of {WORDS[word]}s, move it away."
        )
        raise InputError.at(path, expected=rule, got=", ".join(names), advice=advice)
    columns: list[Column] = []
    features: list[list[Value]] = []
    for name in names:
        if name in table.embedded or roles[name] in (*MEDIA, "split"):
            continue
        is_label = roles[name] == "label" or name.lower() in LABEL_NAMES
        if (found := table.cast_column(name, roles[name], trim=is_label)) is not None:
            columns.append(found[0])
            features.append(found[1])
    by_row = list(zip(*features, strict=True)) if features else [()] * len(table.positions)
    split = next((name for name in names if roles[name] == "split"), None)
    words = table.values(split) if split else [None] * len(table.positions)
    splits = [_split(inputs, table, split or "", word) for word in words]
    sources_of = []
    for name in media:
        if name in table.embedded:
            sources_of.append(embedded_sources(table, table.embedded[name]))
        else:
            values = ("" if uri is None else str(uri).strip() for uri in table.values(name))
            uris = list(zip(table.positions, values, strict=True))
            sources_of.append(file_sources(inputs, table, uris, are_alone=len(media) == 1))
    sources = joined_sources(table.positions, sources_of)
    kinds = [str(roles[name]) for name in media]
    blobs = tuple(map(BlobColumn, feature_names(media, kinds), kinds))
    # An image without a label is rejected, if others have one.
    label = next(
        (n for n, c in enumerate(columns) if c.name.lower() in LABEL_NAMES and not c.is_list), None
    )
    entries, excluded = [], []
    for position, own, row, source in zip(table.positions, splits, by_row, sources, strict=True):
        place = table.place(position)
        name = source.name if isinstance(source, RejectedInputError) else source[0]
        if isinstance(own, NoSplit):
            excluded.append(ExcludedInput(name, None, own.code, f"{place}: {own.detail}"))
        elif isinstance(source, RejectedInputError):
            excluded.append(ExcludedInput(name, own, source.code, f"{place}: {source.detail}"))
        elif label is not None and row[label] is None:
            excluded.append(ExcludedInput(name, own, "NO_LABEL", place))
        else:
            entries.append(Entry(name, own, source[1], row))
    return InputTable.of(entries, excluded, tuple(columns), blobs)


def _roles(names: Sequence[str], table: ListTable, inputs: LayoutInputs) -> dict[str, str | None]:
    """What each column is for: as the user says, or by its name; None: a feature to inspect."""
    given = inputs.columns
    check_columns(given, names, of=repr(table.path))
    roles: dict[str, str | None] = {name: given.get(name) for name in names}
    split = split_column(
        names, given=given, words_of=lambda name: {str(word or "") for word in table.values(name)}
    )
    if split is not None:
        roles[split] = "split"
    if not {*MEDIA} & {*roles.values()}:
        by_lower = {name.lower(): name for name in reversed(names) if roles[name] is None}
        candidates = (by_lower.get(name) for name in _MEDIA_COLUMNS[inputs.media])
        embedded = (name for name in table.embedded if roles[name] is None)
        found = next(filter(None, candidates), None) or next(embedded, None)
        if found is not None:
            roles[found] = inputs.media
    return roles


def _split(
    inputs: LayoutInputs, table: ListTable, column: str, word: object
) -> str | NoSplit | None:
    """The split that a row names, or its pattern or list; None where the hash decides."""
    if inputs.split is not None:
        return inputs.split
    if word is None:
        return split_of_name(inputs, table.path)
    return split_of_word(str(word), column=column)
