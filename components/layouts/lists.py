"""Read lists of files: CSV, TSV, JSON lines, Parquet, and AutoML Vision's CSV without a header.

The image column is `image_uri`, `image`, `filename`, `file_name`, `path`, `uri` or `url`, or the
column that `columns` sets to `image`. Audio columns are found likewise. A row may have several
files; each is then a feature with the name of its column. The column `split` has the values TRAIN,
VALIDATION, TEST or UNASSIGNED. Every other column is a feature. Lists named after splits
(`train.csv`, `val.csv`) follow Datum: `filename` is relative to a folder with the name of the list,
with or without its suffix.
"""

import base64
import collections
import dataclasses
import posixpath
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import blob_paths, bytes_of, is_in_table
from components.inputs.input_table import (
    Blob,
    BlobColumn,
    Entry,
    ExcludedInput,
    InputTable,
    join_inputs,
)
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.file_kinds import kind_of_bytes, kind_of_heads, kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.list_files import MISSING, FileFinder
from components.layouts.list_rows import ListRows
from components.layouts.list_splits import check_files_of_rows, splits_of_files
from components.layouts.list_table import ListTable, kind_of_list, read_list
from components.layouts.names import MEDIA, WORDS
from components.layouts.table_files import check_folders
from components.tables.column_roles import NoSplit, split_column, split_of_word
from components.tables.column_types import check_columns
from components.tables.delimited import check_agreement
from components.tables.hub import check_class_names
from components.tables.reading import DELIMITERS, SUFFIXES, kind_of_table
from trainer_utils.core.errors import InputError
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.split_words import split_of_name, split_of_path
from trainer_utils.storage import display_path
from trainer_utils.storage.paths import decode_path

_ENDINGS = tuple(SUFFIXES)
_FILE_COLUMNS = ("filename", "file_name", "path", "uri", "url")
_MEDIA_COLUMNS = {
    "image": ("image_uri", "image", *_FILE_COLUMNS),
    "audio": ("audio_uri", "audio", "clip", *_FILE_COLUMNS),
}
_KNOWN = frozenset(name for names in _MEDIA_COLUMNS.values() for name in names)
_AUTOML = ("split", "image_uri", "audio_uri", "label")  # matched in any case
_ID_NAME = re.compile(r"id(?![a-z])|image|img|file|photo|picture|name|clip|audio", re.IGNORECASE)
_SPLIT = "{split}"  # the placeholder in `csv_path` and `image_dir`
_HUB_LIST = "metadata"
_BASE64_CHARACTERS = 64  # enough for the first bytes of all formats; a multiple of 4
_SAMPLE = 8  # files of a column to search for
_HEAD_BYTES = 1 << 12  # enough for the first line of a list
_WORDS_FOR_FILES = frozenset(
    {"file", "filename", "image", "imageid", "path", "uri", "url", "id", "name"}
)

# The name and the file of a row, or the error if it is missing.
_Source = tuple[str, Blob] | RejectedInputError


def is_list(path: str) -> bool:
    """Return whether a file has the suffix of a list."""
    return posixpath.splitext(path.lower())[1] in SUFFIXES


def kind_of(inputs: LayoutInputs, path: str) -> str | None:
    """Return the format of a list that `find` returned."""
    return kind_of_list(inputs, path, known=_KNOWN)


def find(inputs: LayoutInputs, *, kind: str | None = None) -> list[str]:
    """Return the lists that `csv_path` names, or else the lists at the root of the inputs.

    Without these, return the Hub's lists in split folders, or Parquet files in any folder.

    Args:
        inputs: the inputs.
        kind: a format of `LISTS`, to search for lists of this format only.
    """
    tables = inputs.files.ending((*_ENDINGS, ".txt"))
    if not tables:
        return []
    if "csv_path" in inputs.names:
        wanted = posixpath.join(inputs.root, inputs.names["csv_path"])
        return [
            path
            for path in tables
            if wanted.replace(_SPLIT, _word_of(inputs, path), 1) == path
            and kind_of_list(inputs, path, known=_KNOWN) is not None
            and (_SPLIT not in wanted or _split_of_name(inputs, path) is not None)
        ]
    paths = [
        path
        for path in tables
        if (path == inputs.root or posixpath.dirname(path) == inputs.root)
        and _is_list(inputs, path, kind)
    ]
    paths = paths or _find_in_splits(inputs, tables, kind)
    return paths or (_find_below(inputs) if kind in (None, "parquet") else [])


def _is_list(inputs: LayoutInputs, path: str, kind: str | None) -> bool:
    name = posixpath.basename(path)
    if name.startswith(".") or name.lower().endswith(".gz"):
        return False
    kind_of_path = kind_of_list(inputs, path, known=_KNOWN)
    return kind_of_path is not None and (kind is None or kind_of_path == kind)


def _find_in_splits(inputs: LayoutInputs, tables: Iterable[str], kind: str | None) -> list[str]:
    """Return the lists in the Hub's folders: `metadata.csv` in the folder of each split."""
    paths = []
    for path in tables:
        parts = inputs.parts_of(path)
        stem = posixpath.splitext(parts[-1])[0]
        if len(parts) == 2 and stem == _HUB_LIST and split_of_path(parts[0]) is not None:
            paths += [path] if _is_list(inputs, path, kind) else []
    return paths


def _find_below(inputs: LayoutInputs) -> list[str]:
    """Return the Parquet files in folders, as in clones of the Hub; [] if there are media files."""
    endings = [ending for kind in MEDIA for ending in EXTENSIONS[kind]]
    paths = [*inputs.files.ending([".parquet"]).below(inputs.root)]
    paths = [path for path in paths if not is_clutter(inputs.parts_of(path))]
    if not paths or len(inputs.files.ending(endings)):
        return []
    check_folders(inputs, paths)
    return paths


def _word_of(inputs: LayoutInputs, path: str) -> str:
    """Return the name of a list, or the value of `{split}` in `csv_path` for it."""
    pattern = inputs.names.get("csv_path", "")
    if _SPLIT in pattern:
        start, end = posixpath.join(inputs.root, pattern).split(_SPLIT, 1)
        return path.removeprefix(start).removesuffix(end)
    return posixpath.basename(path).split(".")[0]


def _split_of_name(inputs: LayoutInputs, path: str) -> str | None:
    """Return the split in a list's name, or None; for Parquet, any word of the path counts."""
    if kind_of_table(path) == "parquet" and "csv_path" not in inputs.names:
        is_file = inputs.root in inputs.files
        return split_of_path(
            posixpath.basename(path) if is_file else "/".join(inputs.parts_of(path))
        )
    if inputs.root not in inputs.files and "csv_path" not in inputs.names:
        parts = inputs.parts_of(path)
        if len(parts) == 2:  # a list in the folder of a split
            return split_of_path(parts[0])
    return split_of_name(_word_of(inputs, path))


def _likeness_to_list(inputs: LayoutInputs, path: str) -> tuple[bool, int]:
    """Return whether a table's first line has a word for files or ids, and its size."""
    with inputs.open(path) as stream:
        first = stream.read(_HEAD_BYTES).split(b"\n")[0].decode("latin-1").lower()
    words = re.findall(r"[a-z]+", first)
    return not _WORDS_FOR_FILES.isdisjoint(words), inputs.files[path].size


def read(inputs: LayoutInputs, paths: Sequence[str]) -> InputTable:
    """Read lists.

    Args:
        inputs: the inputs that the lists are among.
        paths: the paths of the lists.

    Raises:
        InputError: several lists are not named after splits, or a list cannot be read.
    """
    paths = _without_copies(inputs, paths)
    if len(paths) > 1 and not all(_split_of_name(inputs, path) for path in paths):
        wanted = [path for path in sorted(paths) if _split_of_name(inputs, path)]
        if len(wanted) < 2 or "train" not in {_split_of_name(inputs, path) for path in wanted}:
            wanted = [max(sorted(paths), key=lambda path: _likeness_to_list(inputs, path))]
        others = [path for path in sorted(paths) if path not in wanted]
        shown = " and ".join(map(repr, wanted))
        advice = f"To read {shown} alone, leave the others out: {how_to_set(ignore=others)}"
        raise InputError(
            f"input_base {inputs.base!r}: expected one list of {WORDS[inputs.media]}s, or lists "
            f"named after splits, got {', '.join(sorted(paths))}. {advice}.",
            path=inputs.base,
        )
    tables, headers = [], {}
    for path in paths:
        table = read_list(inputs, path, known=_KNOWN)
        if kind_of_list(inputs, path, known=_KNOWN) in DELIMITERS:
            lower = {n: n.lower() if n.lower() in _AUTOML else n for n in table.columns}
            columns = {lower[name]: parts for name, parts in table.columns.items()}
            table = dataclasses.replace(table, columns=columns)
            headers[path] = table.names
        tables.append(table)
    if not inputs.header and not inputs.column_names:
        check_agreement(headers, shown=[path for path in headers if {*headers[path]} & _KNOWN])
    check_class_names({table.path: table.class_names for table in tables})
    tables = _with_unique_names(tables)
    parts = [_table_to_inputs(inputs, table) for table in tables]
    if inputs.rows != "each":
        _refuse_shared_files([table.path for table in tables], parts)
        check_files_of_rows([table.path for table in tables], parts)
    return join_inputs(parts)


def _refuse_shared_files(lists: Sequence[str], parts: Sequence[InputTable]) -> None:
    """Raise an InputError if two lists name the same file.

    The file would become several examples, or be in the splits of both lists.

    Args:
        lists: the path of each list.
        parts: the inputs of each list.
    """
    if len(lists) < 2 or any(len(part.blobs) != 1 for part in parts):
        return
    first_list: dict[bytes, str] = {}
    shared: dict[bytes, tuple[str, str]] = {}
    for path, part in zip(lists, parts, strict=True):
        column = f"blob:{part.blobs[0].name}"
        if is_in_table(part.rows, column):
            return
        for file in bytes_of(pc.unique(blob_paths(part.rows, column))):
            if (other := first_list.setdefault(file, path)) != path:
                shared.setdefault(file, (other, path))
    if shared:
        file, (first, second) = next(iter(shared.items()))
        raise InputError(
            f"{first!r} and {second!r}: expected each file in one list, got "
            f"{display_path(decode_path(file))!r} in both ({len(shared):,} such files in all). "
            "Remove these rows from one list, or join the lists' columns into one list. To leave "
            f"a list out: {how_to_set(ignore=[second])}. To make an example of each row: "
            f"{how_to_set(rows='each')}.",
            path=second,
        )


def _without_copies(inputs: LayoutInputs, paths: Sequence[str]) -> list[str]:
    """Drop lists that are copies with the same stem, such as `captions.txt` of `captions.csv`."""
    stems = {posixpath.splitext(path)[0] for path in paths}
    if len(stems) == len(paths):
        return [*paths]
    by_content: dict[tuple[str, bytes], str] = {}
    for path in sorted(paths, key=lambda path: (not is_list(path), path)):
        content = posixpath.splitext(path)[0], inputs.read_bytes(path)
        if (first := by_content.setdefault(content, path)) != path:
            logging.warning("%r has the bytes of %r: it is read once", path, first)
    return sorted(by_content.values())


def _with_unique_names(tables: Sequence[ListTable]) -> list[ListTable]:
    """Name embedded files by their rows if two files have the same name."""
    names = collections.Counter(
        path for table in tables for embedded in table.embedded.values() for path in embedded.paths
    )
    if len(tables) == 1 or max(names.values(), default=0) < 2:
        return [*tables]
    return [
        dataclasses.replace(
            table,
            embedded={
                name: dataclasses.replace(embedded, paths=[None] * len(embedded.paths))
                for name, embedded in table.embedded.items()
            },
        )
        for table in tables
    ]


def _table_to_inputs(inputs: LayoutInputs, table: ListTable) -> InputTable:
    """Return the table of inputs for a list: splits, features and files."""
    if not table.positions:
        rule = f"expected rows of {','.join(table.names)}, found none"
        raise InputError(f"{table.path!r}: {rule}", path=table.path)
    roles = _roles(table.names, table, inputs)
    roles |= _files_by_inspection(inputs, table, roles)
    roles |= {name: "label" for name in table.class_names if roles[name] is None}
    media = [name for name in table.names if roles[name] in MEDIA]
    if not media:
        raise _no_files_error(inputs, table)
    rows = ListRows.of(table, roles, inputs, files=len(media))
    sources = [*zip(*(_sources(inputs, table, name) for name in media), strict=True)]
    _refuse_if_not_found(inputs, table, sources)
    splits = _splits(inputs, table, roles)
    are_paths = media[0] not in table.embedded
    if not any(splits) and "split" not in roles.values() and are_paths:
        names = [_name_of(files[0]) for files in sources]
        splits = [*splits_of_files(names, source=table.path)]
    keys: list[Hashable] = [*range(len(sources))]
    if len(media) == 1 and are_paths:  # rows of one file may become one example
        keys = [_key_of(files) for files in sources]
    rows, members = rows.grouped(keys, how=inputs.rows)
    splits_of_examples = [_split_of_rows(table, numbers, splits, keys) for numbers in members]
    sources_of_examples = [sources[numbers[0]] for numbers in members]
    positions = [table.positions[numbers[0]] for numbers in members]
    entries, excluded = _entries_of(rows, sources_of_examples, positions, splits_of_examples)
    kinds = [str(roles[name]) for name in media]
    features = _feature_names(media, kinds)
    if any(column.name == "xmin" for column in rows.columns):
        features = ["image"]
    blobs = tuple(map(BlobColumn, features, kinds))
    listing = InputTable.of(entries, excluded, tuple(rows.columns), blobs)
    return dataclasses.replace(listing, vocabularies=dict(table.class_names))


def _no_files_error(inputs: LayoutInputs, table: ListTable) -> InputError:
    """Return the error for a list without a column of files."""
    word = inputs.media
    return InputError.at(
        table.path,
        expected=f"a column with the files ({', '.join(_MEDIA_COLUMNS[word])})",
        got=", ".join(table.names),
        advice=(
            f"If it is not a list of {WORDS[word]}s, leave it out: "
            f"{how_to_set(ignore=[table.path])}. "
            f"Otherwise name the column, such as {how_to_set(columns={table.names[0]: word})}."
        ),
    )


def _feature_names(media: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Return the features of the columns with files.

    A single file is named by its kind. `filename` is reserved for the name of the example.
    """
    if len(media) == 1:
        return [*kinds]
    if "filename" not in media:
        return [*media]
    kind = kinds[media.index("filename")]
    free = kind if kind not in media else f"{kind}_file"
    return [free if name == "filename" else name for name in media]


def _entries_of(
    rows: ListRows,
    sources: Sequence[Sequence[_Source]],
    positions: Sequence[int],
    splits: Sequence[str | NoSplit | None],
) -> tuple[list[Entry], list[ExcludedInput]]:
    """Return the examples of a list, and the excluded ones.

    Args:
        rows: the values of the examples, grouped.
        sources: the files of each example.
        positions: the number of each example's first row, which makes repeated names unique.
        splits: the split of each example.
    """
    unlabelled = _unlabelled_splits(rows, splits)
    label = next((n for n, column in enumerate(rows.columns) if column.name == rows.label), None)
    entries, excluded, taken = [], [], set[str]()
    for number, (files, split) in enumerate(zip(sources, splits, strict=True)):
        place = rows.places[number]
        values = tuple(of_column[number] for of_column in rows.values)
        missing = next((file for file in files if isinstance(file, RejectedInputError)), None)
        name = _name_of(files[0] if missing is None else missing)
        if missing is None:
            while name in taken:
                name += f"#{positions[number]}"
            taken.add(name)
        if isinstance(split, NoSplit):
            excluded.append(ExcludedInput(name, None, split.code, f"{place}: {split.detail}"))
        elif missing is not None:
            detail = f"{place}: {missing.detail}"
            excluded.append(ExcludedInput(name, split, missing.code, detail))
        elif (problem := rows.problems.get(number)) is not None:
            excluded.append(ExcludedInput(name, split, problem.code, problem.detail))
        elif label is not None and values[label] is None and split not in unlabelled:
            detail = f"{place}: no {rows.label!r}"
            excluded.append(ExcludedInput(name, split, "NO_LABEL", detail))
        else:
            blobs = [file[1] for file in files if not isinstance(file, RejectedInputError)]
            entries.append(Entry(name, split, tuple(blobs), values))
    return entries, excluded


def _name_of(source: _Source) -> str:
    """Return the name of a file, whether it was found or not."""
    return source.name if isinstance(source, RejectedInputError) else source[0]


def _key_of(files: Sequence[_Source]) -> Hashable:
    """Return the file of a row as the key for grouping, or its name if it is missing."""
    (source,) = files
    return ("", source.name) if isinstance(source, RejectedInputError) else source[1].path


def _split_of_rows(
    table: ListTable,
    numbers: Sequence[int],
    splits: Sequence[str | NoSplit | None],
    keys: Sequence[Hashable],
) -> str | NoSplit | None:
    """Return the split of a file. Raise an InputError if its rows disagree."""
    first = splits[numbers[0]]
    other = next((number for number in numbers if splits[number] != first), None)
    if other is not None:
        got = " and ".join(
            f"{splits[number]!r} ({table.place(table.positions[number])})"
            for number in (numbers[0], other)
        )
        raise InputError.at(table.path, expected=f"one split for {keys[numbers[0]]!r}", got=got)
    return first


def _unlabelled_splits(
    rows: ListRows, splits: Sequence[str | NoSplit | None]
) -> frozenset[str | NoSplit | None]:
    """Return the named splits without any label, whose rows are kept."""
    place = next((n for n, column in enumerate(rows.columns) if column.name == rows.label), None)
    if place is None:
        return frozenset()
    labelled = {s for s, v in zip(splits, rows.values[place], strict=True) if v is not None}
    unlabelled = frozenset(split for split in splits if isinstance(split, str)) - labelled
    if unlabelled:
        names = ", ".join(sorted(map(str, unlabelled)))
        logging.warning("%r: no row of the split %s has a label; it is kept", rows.path, names)
        if rows.columns[place].is_list:
            rows.values[place] = [() if v is None else v for v in rows.values[place]]
    return unlabelled


def _refuse_if_not_found(
    inputs: LayoutInputs, table: ListTable, sources: Sequence[Sequence[_Source]]
) -> None:
    """Raise an InputError if no file of a list is found, but a setting would find them."""
    missing = [
        (row, file.name)
        for row, files in enumerate(sources)
        for file in files
        if isinstance(file, RejectedInputError) and file.code in MISSING
    ]
    if not missing or len({row for row, _ in missing}) < len(sources):
        return
    uris = [uri for _, uri in missing]
    finder = FileFinder(inputs, folders=[posixpath.dirname(table.path)], uris=uris)
    if advice := finder.advice(uris):
        row, first = missing[0]
        raise InputError(
            f"{table.path!r}: {len(missing)} of its files are not found, such as {first!r} "
            f"({table.place(table.positions[row])}): {advice}.",
            path=table.path,
        )


def _roles(names: Sequence[str], table: ListTable, inputs: LayoutInputs) -> dict[str, str | None]:
    """Return the role of each column: as set by the user, or by its name; None for features."""
    kinds = inputs.columns
    check_columns(kinds, names, of=repr(table.path))
    roles: dict[str, str | None] = {name: kinds.get(name) for name in names}
    split = split_column(
        names, given=kinds, words_of=lambda name: {str(word or "") for word in table.values(name)}
    )
    if split is not None:
        roles[split] = "split"
    if not {*MEDIA} & {*roles.values()}:
        by_lower = {name.lower(): name for name in reversed(names) if roles[name] is None}
        candidates = (by_lower.get(name) for name in _MEDIA_COLUMNS[inputs.media])
        embedded = (name for name in table.embedded if roles[name] is None)
        file_column = next(filter(None, candidates), None) or next(embedded, None)
        if file_column is not None:
            roles[file_column] = inputs.media
    return roles


def _splits(
    inputs: LayoutInputs, table: ListTable, roles: Mapping[str, str | None]
) -> list[str | NoSplit | None]:
    """Return the split of each row: from its column, pattern or list; None if the hash decides."""
    column = next((name for name, role in roles.items() if role == "split"), None)
    list_split = inputs.split or _split_of_name(inputs, table.path)
    if column is None or inputs.split is not None:
        return [list_split] * len(table.positions)
    words = table.values(column)
    return [
        list_split if word is None else split_of_word(str(word), column=column) for word in words
    ]


# The files of rows -------------------------------------------------------------------------------


def _files_by_inspection(
    inputs: LayoutInputs, table: ListTable, roles: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Find the columns with files, and their kinds, unless the user sets them.

    A column with a file name such as `filename` has files of the kind that most suffixes show. In
    any other column, every value must have the suffix of an image or audio file, and one of the
    first must exist. The kind of a column of bytes is found from the bytes.
    """
    kind_of_column: dict[str, str | None] = {}
    nameless: list[str] = []
    for name in table.columns:
        by_name = roles[name] in MEDIA
        if name in inputs.columns or (roles[name] is not None and not by_name):
            continue
        uris = [
            (position, value.strip() if isinstance(value, str) else value)
            for position, value in zip(table.positions, table.values(name), strict=True)
            if value not in (None, "")
        ]
        if not uris or not all(isinstance(uri, str) for _, uri in uris):
            continue
        kinds = collections.Counter(kind_of_name(uri) for _, uri in uris)
        is_named = any(kinds) if by_name else all(kinds)
        is_there = is_named and by_name
        if is_named != by_name:  # otherwise it has no files, or its name and suffixes agree
            sample = _file_sources(inputs, table, uris[:_SAMPLE])
            is_there = any(not isinstance(file, RejectedInputError) for file in sample)
        if is_named and is_there:
            kind_of_column[name] = next(kind for kind, _ in kinds.most_common() if kind is not None)
        elif by_name and not is_there:
            nameless.append(name)
    for name, embedded in table.embedded.items():
        if name not in inputs.columns and (heads := embedded.heads):
            kind_of_column[name] = kind_of_heads(heads) or roles[name]
            if kind_of_column[name] is None:
                raise InputError(
                    f"{table.path!r}, column {name!r}: expected the bytes of images or audio "
                    f"files, got {heads[0][:8]!r}. Keep the bytes unchanged: "
                    f"{how_to_set(columns={name: 'string'})}; or leave them out: "
                    f"{how_to_set(columns={name: 'ignore'})}."
                )
    if not kind_of_column and not any(role in MEDIA for role in roles.values()):
        kind_of_column |= _files_by_stem(inputs, table, roles)
    return kind_of_column | dict.fromkeys(nameless if kind_of_column else ())


def _files_by_stem(
    inputs: LayoutInputs, table: ListTable, roles: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return the column whose values are file names without suffix, such as ids."""
    finder = FileFinder(inputs, folders=[posixpath.dirname(table.path)])
    candidates = []
    for name in table.columns:
        if name in inputs.columns or roles[name] is not None:
            continue
        values = [str(value).strip() for value in table.values(name) if value not in (None, "")]
        sample = dict.fromkeys(values[:_SAMPLE])
        if not sample or any("/" in value or " " in value for value in sample):
            continue
        if all(map(str.isdecimal, sample)) and not _ID_NAME.search(name):
            continue  # a number is more often a value than a name
        if not any(len(finder.named(value)) == 1 for value in sample):
            continue
        count = sum(len(finder.named(value)) == 1 for value in dict.fromkeys(values))
        if 2 * count >= len(set(values)):
            _check_coverage(inputs, table.path, name, count)
            candidates.append(name)
    if len(candidates) > 1:
        first, second = candidates[:2]
        raise InputError(
            f"{table.path!r}: both {first!r} and {second!r} contain file names. Name the column of "
            f"the {WORDS[inputs.media]}: {how_to_set(columns={first: inputs.media})}.",
            path=table.path,
        )
    return dict.fromkeys(candidates, inputs.media)


def _check_coverage(inputs: LayoutInputs, path: str, column: str, count: int) -> None:
    """Raise an InputError if a column that may be the list of files names few of them.

    Of a list that is named after a split, files in folders of other splits do not count.
    """
    folders = collections.Counter(
        parts[:-1] for parts, _ in inputs.paths_below_root(endings=EXTENSIONS[inputs.media])
    )
    list_split = _split_of_name(inputs, path)
    total = sum(
        number
        for folder, number in folders.items()
        if list_split is None or {list_split, None}.issuperset(map(split_of_name, folder))
    )
    if 2 * count < total:
        word = WORDS[inputs.media]
        raise InputError(
            f"{path!r}: column {column!r} names {count:,} of {total:,} {word}s. To read only "
            f"these: {how_to_set(columns={column: inputs.media})}; to leave the list out: "
            f"{how_to_set(ignore=[path])}.",
            path=path,
        )


def _sources(inputs: LayoutInputs, table: ListTable, name: str) -> Iterator[_Source]:
    """Yield the name and the file of each row, or the place of its bytes in a Parquet file."""
    if name not in table.embedded:
        values = ("" if uri is None else str(uri).strip() for uri in table.values(name))
        uris = [*zip(table.positions, values, strict=True)]
        _refuse_base64(table, name, uris)
        yield from _file_sources(inputs, table, uris)
        return
    embedded = table.embedded[name]
    paths, size, column = embedded.paths, embedded.bytes_per_row, embedded.bytes_column
    are_names = all(paths) and len(set(paths)) == len(paths)  # otherwise names are generated
    for row, path in enumerate(paths):
        row_name = path if are_names and path else f"{table.path}/{row:08d}"
        yield row_name, Blob(table.path, size, row=row, column=column)


def _refuse_base64(table: ListTable, name: str, uris: Iterable[tuple[int, str]]) -> None:
    """Raise an InputError for values that are files in Base64, which no reader expects."""
    for position, uri in uris:
        if not _is_base64(uri):
            continue
        path = display_path(table.path)
        stem, ending = posixpath.splitext(path)
        settings = ", lines=True" * (ending == ".jsonl")
        commands = (
            "import base64, pandas",
            f"rows = pandas.read_{'json' if settings else 'csv'}({path!r}{settings})",
            f"files = rows[{name!r}].str.rpartition(',')[2]",
            f"rows[{name!r}] = files.map(base64.b64decode)",
            f"rows.to_parquet({f'{stem}.parquet'!r})",
        )
        raise InputError(
            f"{table.path!r}, column {name!r}: expected paths of files, got {uri[:20]!r}…, a file "
            f"in Base64 ({table.place(position)}). Write a table with the bytes of the files, in "
            f"place of this one: {'; '.join(commands)}",
            path=table.path,
        )


def _is_base64(value: str) -> bool:
    """Return whether a value is an image or audio file in Base64, perhaps in a `data:` URL."""
    if len(value) < _BASE64_CHARACTERS:
        return False
    head = value[value.rfind(",", 0, _BASE64_CHARACTERS) + 1 :][:_BASE64_CHARACTERS]
    try:
        data = base64.b64decode(head, validate=True)
    except ValueError:
        return False
    return kind_of_bytes(data) in EXTENSIONS


def _file_sources(
    inputs: LayoutInputs, table: ListTable, uris: Sequence[tuple[int, str]]
) -> Iterator[_Source]:
    """Yield the name and the file of each row, including files in the list's own folder."""
    finder = FileFinder(
        inputs,
        folders=[posixpath.dirname(table.path)],
        own_folder=_own_folder(inputs, table.path),
        uris=[uri for _, uri in uris],
    )
    inputs.look_up((uri for _, uri in uris), folder=posixpath.dirname(table.path))
    seen: set[str] = set()  # paths of files
    names: set[str] = set()
    known: dict[str, str] = {}  # names by path
    for position, uri in uris:
        try:
            name, blob = finder.find(uri)
        except RejectedInputError as error:
            error.name = uri
            yield error
            continue
        except InputError as error:
            raise InputError(f"{table.path!r}, {table.place(position)}: {error}") from error
        if blob.path in seen:
            name = known[blob.path]
        else:
            # Another root may have a file with the same name: add folders to distinguish them.
            parts = blob.path.replace("://", "/").strip("/").split("/")
            count = name.count("/") + 1
            while name in names and count < len(parts):
                count += 1
                name = "/".join(parts[-count:])
            names.add(name)
            seen.add(blob.path)
            known[blob.path] = name
        yield name, blob
    for how, count in finder.found_by.items():
        logging.warning("%r: %d files are found %s", table.path, count, how)


def _own_folder(inputs: LayoutInputs, path: str) -> str | None:
    """Return the folder of a list's files if the paths in the list do not include it."""
    if folder := inputs.names.get("image_dir"):
        return posixpath.join(inputs.root, folder.replace(_SPLIT, _word_of(inputs, path)))
    if _split_of_name(inputs, path) is None:
        return None
    if "csv_path" in inputs.names:
        return posixpath.join(inputs.root, _word_of(inputs, path))
    return posixpath.splitext(path)[0]
