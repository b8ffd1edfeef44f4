"""Write a Python source of `convert` to one Parquet file that an ExampleGen reads.

    path, options, roots = as_table(frame, "out/source", options={})
    path                  # 'out/source/rows.parquet'

Arrow tables and pandas DataFrames are written by Arrow. Other sources are written row by row in
bounded memory, by the rules of `trainer_utils.writing.values`. Objects of other libraries are
detected by their attributes, without importing the libraries.
"""

import filecmp
import json
import os
import pickle
import posixpath
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from components.layouts.file_kinds import kind_of_name
from components.layouts.names import MEDIA
from components.tables.column_roles import SPLIT_COLUMNS
from components.tables.json_values import JSON_COLUMNS, is_chat, json_text
from pipelines.tools.conversion.python_sources import Options, Row, rows_of
from trainer_utils.core.errors import InputError
from trainer_utils.format.naming import check_feature_names
from trainer_utils.storage import (
    is_folder,
    is_remote,
    list_names,
    local_path,
    make_folder,
    rename,
)
from trainer_utils.writing.values import FeatureRecord, Plain, Steps, stored_value

_PATHS = {"image_uri", "audio_uri", "image", "audio", "clip"}
_PATHS |= {"filename", "file_name", "path", "uri"}
_BATCH_ROWS, _BATCH_BYTES = 4096, 32 << 20
_BYTES = (bytes, bytearray, memoryview)
_TYPES = {"int": pa.int64(), "float": pa.float64()}


def as_table(
    source: Any, folder: str, options: Mapping[str, Any]
) -> tuple[str, Options, list[str]]:
    """Write a source as Parquet; an identical file is not replaced, so that the cache stays valid.

    Args:
        source: a source of `convert` from Python.
        folder: the folder for the file.
        options: settings of `convert`.

    Returns:
        The path of the file; the options with the kinds of columns, names of classes and dtypes of
        tensors of the source; and the folders that contain the files named in the table.
    """
    options = {**options, "columns": dict(options.get("columns") or {})}
    path = Path(folder, "rows.parquet")
    make_folder(folder)
    fresh = Path(tempfile.mkdtemp(dir=folder)) / path.name
    try:
        table = _arrow_table(source)
        if table is not None:
            with pq.ParquetWriter(fresh, table.schema, compression="zstd") as writer:
                for batch in table.to_batches() if isinstance(table, pa.Table) else table:
                    writer.write_batch(batch)
        else:
            _write_rows(rows_of(source, options), fresh, options)
        if not path.is_file() or not filecmp.cmp(fresh, path, shallow=False):
            rename(str(fresh), str(path))
    finally:
        for file in (fresh, fresh.with_suffix(".rows")):
            file.unlink(missing_ok=True)
        fresh.parent.rmdir()
        if not list_names(folder):
            os.rmdir(folder)
    kept = {name: value for name, value in options.items() if value not in (None, {})}
    return str(path), kept, _roots(path, options["columns"])


def _roots(path: Path, columns: Mapping[str, str]) -> list[str]:
    """Return the folders that contain all files named in a table, inner ones first.

    They include the working folder if a path is relative, but never the root of a disk.
    """
    file = pq.ParquetFile(path)
    texts = (pa.string(), pa.large_string())
    names: set[str] = set()
    for field in file.schema_arrow:
        if field.type not in texts:
            continue
        is_named = field.name.lower() in _PATHS or columns.get(field.name) in MEDIA
        values = {local_path(name) for name in _values(file, field.name) if name}
        if is_named or (values and all(map(kind_of_name, values))):
            names |= values
    whole = {name for name in names if is_remote(name) or os.path.isabs(name)}
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for folder in set(map(os.path.dirname, whole)):
        parts = folder.split("/")
        groups.setdefault(tuple(parts[: 3 if "://" in folder else 2]), []).append(parts)
    roots = {"/".join(posixpath.commonprefix(folders)) for folders in groups.values()}
    roots = {root for root in roots if root and is_folder(root)}
    if names - whole:
        roots.add(os.getcwd())
    return sorted(roots, key=lambda root: (-len(root), root))


def _values(file: pq.ParquetFile, name: str) -> list[str | None]:
    values: list[str | None] = file.read([name]).column(0).to_pylist()
    return values


def _arrow_table(source: Any) -> "pa.Table | pa.RecordBatchReader | None":
    """Return a source as a table that Parquet can store directly, or None."""
    if hasattr(source, "to_parquet") and hasattr(source, "iloc"):  # a pandas DataFrame
        names = [str(name) for name in source.columns]
        if len(set(names)) < len(names):
            raise InputError(f"source: expected columns with different names, got {names}")
        for number, kind in enumerate(source.dtypes):
            cells: Any = source.iloc[:, number].dropna() if kind == "O" else ()
            if len(cells) and hasattr(cells.iloc[0], "__array__"):
                return None  # arrays keep their dtype, and images are encoded
        try:
            source = pa.Table.from_pandas(source.set_axis(names, axis=1), preserve_index=False)
        except (pa.ArrowException, TypeError):
            return None
        source = source.replace_schema_metadata()
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    is_table = isinstance(source, (pa.Table, pa.RecordBatchReader))
    return source if is_table and not any(map(_is_nested, source.schema.types)) else None


def _is_nested(kind: pa.DataType) -> bool:
    """Return whether values of a type are arrays: lists of lists, or tensors."""
    inner = getattr(kind, "value_type", None) if pa.types.is_nested(kind) else None
    return isinstance(kind, pa.ExtensionType) or (inner is not None and pa.types.is_nested(inner))


def _write_rows(rows: Iterable[tuple[str | None, Row]], path: Path, options: Options) -> None:
    """Write rows in two passes, because the type of a column is known only after the last row."""
    columns = options["columns"]
    media = {name: kind for name, kind in columns.items() if kind in MEDIA}
    media = {name: name for name in MEDIA if name not in columns} | media
    files: dict[str, bool] = {}  # whether a media column has the bytes of files, or paths
    record = FeatureRecord(may_widen=True)
    lists: set[str] = set()
    binary: set[str] = set()
    as_json: set[str] = {name for name, kind in columns.items() if kind == "json"}
    has_splits, num_rows = False, 0
    with open(path.with_suffix(".rows"), "w+b") as spool:
        for batch in _batches(rows):
            kept = []
            for split, row in batch:
                try:
                    row = _with_json(row, as_json)
                    values = _take(row, split, record, media, files, lists)
                except InputError as error:
                    place = f"record {num_rows}" if split is None else f"{split}, record {num_rows}"
                    text = f"source: {str(error).removesuffix('.')} ({place})."
                    raise InputError(text, record=num_rows) from error
                kept.append((split, values))
                has_splits, num_rows = has_splits or split is not None, num_rows + 1
                binary.update(n for n, v in values.items() if n not in binary and not _is_text(v))
            pickle.dump(kept, spool)
        if not record.kinds:
            raise InputError("source: expected rows with values, got none")
        binary |= {name for name, are_files in files.items() if are_files}
        fields = []
        for name, kind in record.kinds.items():
            type_ = _TYPES.get(kind) or (pa.binary() if name in binary else pa.string())
            fields.append(pa.field(name, pa.list_(type_) if name in lists else type_))
        schema = pa.schema([*fields, *([("split", pa.string())] if has_splits else [])])
        if kept_as_json := sorted(as_json & record.kinds.keys()):
            schema = schema.with_metadata({JSON_COLUMNS: json.dumps(kept_as_json)})
        spool.seek(0)
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            while spool.peek(1):
                writer.write_batch(_arrow_batch(pickle.load(spool), schema, lists))
    tensors = {name: str(spec) for name, spec in record.tensors.items()}
    options["tensors"] = {**tensors, **(options.get("tensors") or {})}
    kinds = {name: media[name] for name in files if name in binary}
    kinds |= dict.fromkeys((n for n in record.kinds if n in record.images), "image")
    texts = binary - {*kinds, *tensors}
    if len(kinds) == 1 and kinds.keys() <= record.images:  # a single image column needs no kind
        kinds = {}
    options["columns"] = {**kinds, **dict.fromkeys(sorted(texts), "string"), **columns}


def _with_json(row: Any, as_json: set[str]) -> Any:
    """Return a row with its chats, and the values of columns of kind `json`, as JSON."""
    if not isinstance(row, Mapping):
        return row
    as_json.update(name for name, value in row.items() if is_chat(value))
    if as_json.isdisjoint(row):
        return row
    try:
        return {
            name: json_text(value) if name in as_json and value is not None else value
            for name, value in row.items()
        }
    except ValueError as error:
        raise InputError(f"expected values that JSON has: {error}") from error


def _batches(rows: Iterable[tuple[str | None, Row]]) -> Iterator[list[tuple[str | None, Row]]]:
    batch: list[tuple[str | None, Row]] = []
    size = 0
    for split, row in rows:
        batch.append((split, row))
        for value in row.values() if isinstance(row, Mapping) else ():
            size += len(value) if isinstance(value, bytes) else getattr(value, "nbytes", 9)
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _take(
    row: Any,
    split: str | None,
    record: FeatureRecord,
    media: Mapping[str, str],
    files: dict[str, bool],
    lists: set[str],
) -> Mapping[str, Any]:
    """Return a row in stored form: bytes or a tuple of values for each feature with a value."""
    if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
        raise InputError(
            "expected dicts of values by feature, or pairs of a key and such a dict, "
            f"got {type(row).__name__}"
        )
    if split is not None and (twice := SPLIT_COLUMNS & {name.lower() for name in row}):
        raise InputError(f"feature {min(twice)!r}: expected none next to the split {split!r}")
    check_feature_names(row)
    stored = {}
    for name, value in row.items():
        try:
            is_path = name in media and isinstance(value, str)
            is_image = media.get(name) == "image" and not is_path
            converted = stored_value(value, is_image=is_image)
        except InputError as error:
            raise InputError(f"feature {name!r}: {error}") from error
        if isinstance(converted, Steps):
            raise InputError(
                f"feature {name!r}: expected a value, a flat list or an array, got a list of "
                "lists. Make an array of it, np.array(…), or write SequenceExamples: "
                "trainer_utils.DatasetWriter"
            )
        if isinstance(converted, Plain) and converted.is_list:
            lists.add(name)
        is_file = is_image or (name in media and isinstance(value, _BYTES))
        if (
            converted is not None
            and (is_file or is_path)
            and files.setdefault(name, is_file) != is_file
        ):
            rule = f"the bytes of each {media[name]}, or the path of each, got both"
            raise InputError(f"feature {name!r}: expected {rule}")
        stored[name] = converted
    return record.take(stored)[0]


def _is_text(value: Any) -> bool:
    """Return whether all bytes of a value are UTF-8; numbers and strings count as text."""
    try:
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, bytes):
                part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _arrow_batch(rows: Sequence[Any], schema: pa.Schema, lists: set[str]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        cells = [values.get(field.name) for _, values in rows]
        if field.name == "split" and any(split is not None for split, _ in rows):
            cells = [split for split, _ in rows]
        elif field.name in lists:
            cells = [[cell] if isinstance(cell, bytes) else cell for cell in cells]
        else:
            cells = [cell[0] if isinstance(cell, tuple) else cell for cell in cells]
        arrays.append(pa.array(cells, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
