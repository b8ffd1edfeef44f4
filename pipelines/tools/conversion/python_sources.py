"""Read rows from Python objects: dicts, generators, arrays, DataFrames, tables, other datasets.

    for split, row in rows_of({"train": [{"text": "good"}], "eval": generate}, {"columns": {}}):
        …                                          # 'train', {'text': 'good'}

Objects of other libraries are detected by their attributes, without importing the libraries.
"""

import inspect
import itertools
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from components.layouts.file_kinds import kind_of_name
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.format import canonical_split

Row: TypeAlias = Mapping[str, Any]
Options: TypeAlias = dict[str, Any]

_CALLED_SPLITS = ("train", "val", "test")  # the splits that Datum passes to generators
_OF_SPLIT = re.compile(r"(?P<name>\w+)_(?P<split>[a-z]+)")  # x_train


def is_in_python(source: Any) -> bool:
    """Return whether a source is a Python object or a file of arrays, not a path to raw inputs."""
    is_path = isinstance(source, (str, bytes, os.PathLike))
    return not is_path or str(source).endswith((".npy", ".npz"))


def rows_of(source: Any, options: Options) -> Iterator[tuple[str | None, Row]]:
    """Return an iterator over rows, each with its split, or None if the source has no splits.

    Args:
        source: a source of `convert` from Python.
        options: settings of `convert`, modified in place: `splits` is removed if it has names, and
            `columns` and `vocabulary` are filled from the source.

    Raises:
        InputError: the source has no rows, or malformed ones.
        ConfigError: the type of the source, or a name of a split, is not supported.
    """
    splits = options.get("splits")
    names = splits if splits is not None and not isinstance(splits, Mapping) else None
    if names is not None:
        del options["splits"]
    if isinstance(source, (str, os.PathLike)):
        source = _load_arrays(os.fspath(source))
    is_called = callable(source) and not _is_table(source)
    if is_called:
        source = _called(source, names or _CALLED_SPLITS)
    elif names is not None:
        raise ConfigError.of("splits", splits, allowed="shares; names only for a function")
    if isinstance(source, Mapping):
        source = _by_split(source) or source
        if is_called or _are_splits(source):
            for name in source:
                if canonical_split(name) is None:
                    rule = "train, eval or test, or another spelling of these"
                    advice = "For other names, write the dataset with trainer_utils.DatasetWriter"
                    raise ConfigError.of("splits", name, allowed=rule, advice=advice)
            parts = [(canonical_split(n), _rows(part, options, n)) for n, part in source.items()]
            return ((split, row) for split, rows in parts for row in rows)
    return ((None, row) for row in _rows(source, options, None))


def _called(source: Callable[..., Any], names: Sequence[str]) -> Any:
    """Call a function and return its result, by split if the function takes a split."""
    try:
        signature = inspect.signature(source)
    except (TypeError, ValueError):  # a class or a C function without a signature
        return source()
    parameters = signature.parameters.values()
    by_name = any(p.name == "split" or p.kind is p.VAR_KEYWORD for p in parameters)
    needed = [p for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    if not by_name and not needed:
        return source()
    try:
        signature.bind(split="") if by_name else signature.bind("")
    except TypeError as error:
        rule = f"a function that takes a split's name, or no arguments ({error})"
        raise ConfigError.of("source", source, allowed=rule) from error
    return {name: source(split=name) if by_name else source(name) for name in names}


def _load_arrays(path: str) -> Any:
    try:
        if path.endswith(".npz"):
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        raise InputError(
            f"source {path!r}: expected arrays written by numpy.save, without objects{why}",
            path=path,
        ) from error


def _by_split(source: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return arrays named `x_train`, `y_train`, `x_test`, …, as in Keras, by split, or None."""
    columns_by_split: dict[str, dict[str, Any]] = {}
    for key, value in source.items():
        match = _OF_SPLIT.fullmatch(key) if isinstance(key, str) else None
        split = match and canonical_split(match["split"])
        if match is None or split is None or not hasattr(value, "shape"):
            return None
        name, columns = match["name"], columns_by_split.setdefault(split, {})
        columns[_array_name(value) if name == "x" else name] = value
    for columns in columns_by_split.values():
        if "y" in columns:
            columns["label"] = _labels(columns.pop("y"))
    return columns_by_split or None


def _labels(array: Any) -> Any:
    """Return labels of shape `(n, 1)` as a vector, others unchanged."""
    return array.reshape(-1) if getattr(array, "ndim", 0) == 2 and array.shape[1] == 1 else array


def _array_name(array: Any) -> str:
    """Return `image` for pixels, `(n, height, width[, 1, 3 or 4]) uint8`, else `x`."""
    shape = array.shape[1:]
    is_image = array.dtype == np.uint8 and (
        (len(shape) == 2 and min(shape) > 1) or (len(shape) == 3 and shape[2] in (1, 3, 4))
    )
    return "image" if is_image else "x"


def _is_table(value: Any) -> bool:
    """Return whether a value is a table or an array by its attributes, even if it is callable."""
    names = ("to_parquet", "to_batches", "schema", "element_spec", "cast_column", "dtype")
    return any(hasattr(value, name) for name in names)


def _are_splits(source: Mapping[str, Any]) -> bool:
    """Return whether the keys of a dict are splits rather than columns."""
    if not source or not all(isinstance(key, str) for key in source):
        return False
    if all(canonical_split(key) is not None for key in source):
        return True
    return all(map(_is_of_rows, source.values()))


def _is_of_rows(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], Mapping)
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")
    return not is_array and (isinstance(value, Mapping) or _is_table(value) or callable(value))


def _rows(source: Any, options: Options, split: str | None) -> Iterable[Row]:
    """Return the rows of one source; all of them belong to one split."""
    if callable(source) and not _is_table(source):
        source = _called(source, [split] if split else [])
        source = source[split] if split and isinstance(source, Mapping) else source
    if isinstance(source, (str, os.PathLike)) and is_in_python(source):
        source = _load_arrays(os.fspath(source))
    if hasattr(source, "cast_column") and hasattr(source, "features"):
        return _hugging_face_rows(source, options)
    if hasattr(source, "to_parquet") and hasattr(source, "iloc"):  # a pandas DataFrame
        frame = source.set_axis([str(name) for name in source.columns], axis=1)
        rows: list[Row] = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return rows
    if hasattr(source, "to_batches") or hasattr(source, "read_next_batch"):
        batches = source.to_batches() if hasattr(source, "to_batches") else source
        return itertools.chain.from_iterable(map(_arrow_rows, batches))
    if hasattr(source, "element_spec") and hasattr(source, "as_numpy_iterator"):
        return map(_element, source.as_numpy_iterator())
    if isinstance(source, Mapping):
        return _column_rows(source)
    if hasattr(source, "__array__") and hasattr(source, "shape"):
        array = np.asanyarray(source)
        if not array.ndim:
            raise InputError("source: expected rows, got an array of rank 0")
        return _column_rows({_array_name(array): array})
    if isinstance(source, tuple) and len(source) == 2 and all(hasattr(p, "dtype") for p in source):
        first, labels = map(np.asanyarray, source)
        return _column_rows({_array_name(first): first, "label": _labels(labels)})
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)):
        for place, path in enumerate(map(os.fspath, source)):
            if kind_of_name(path) is None:
                raise InputError(
                    f"source: expected paths of images or audio files, got {path!r} (index "
                    f"{place}). For tables and folders, pass one path, or rows by split in a dict."
                )
        return ({"filename": os.fspath(path)} for path in source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
        return (_second(row) for row in source)
    rule = "a path, a table, rows as dicts in a list or from a function, arrays or a dict of splits"
    raise ConfigError.of("source", type(source).__name__, allowed=rule)


def _second(row: Any) -> Any:
    """Return a row, without the key if it is a pair (key, row) of a Datum generator."""
    is_pair = isinstance(row, tuple) and len(row) == 2 and isinstance(row[1], Mapping)
    return row[1] if is_pair else row


def _column_rows(columns: Mapping[str, Any]) -> Iterator[Row]:
    for name, column in columns.items():
        if not hasattr(column, "__getitem__") or isinstance(column, (str, bytes, Mapping)):
            raise InputError(
                f"source, column {name!r}: expected an array or a list, got "
                f"{type(column).__name__}. For splits, pass rows or tables"
            )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"source: expected columns of one length, got {lengths}")
    for number in range(next(iter(lengths.values()), 0)):
        yield {name: column[number] for name, column in columns.items()}


def _element(element: Any) -> Row:
    """Return an element of a `tf.data.Dataset`, a dict or features with a label, as a row."""
    is_pair = isinstance(element, tuple) and len(element) == 2
    features, *labels = element if is_pair else (element,)
    if not isinstance(features, Mapping):
        pixels = np.asanyarray(features)
        features = {_array_name(pixels[None]) if pixels.ndim else "x": pixels}
    return {**features, **({"label": labels[0]} if labels else {})}


def _arrow_rows(batch: Any) -> Iterator[Row]:
    columns = {field.name: _cells(batch.column(n)) for n, field in enumerate(batch.schema)}
    for number in range(len(batch)):
        yield {name: cells[number] for name, cells in columns.items()}


def _cells(column: Any) -> Sequence[Any]:
    """Return the cells of an Arrow array; lists of lists of numbers become numpy arrays."""
    if hasattr(column, "to_numpy_ndarray"):  # tensors of the same shape
        tensors: Sequence[Any] = column.to_numpy_ndarray()
        return tensors
    values: Sequence[Any] = column.to_pylist()
    kind, depth = column.type, 0
    while hasattr(kind, "value_type") and kind.num_fields == 1:
        kind, depth = kind.value_type, depth + 1
    if depth < 2 or not values:
        return values
    import pyarrow as pa  # already imported, since the column is an Arrow array

    try:
        dtype = pa.nulls(0, kind).to_numpy(zero_copy_only=False).dtype
        return [None if value is None else np.array(value, dtype) for value in values]
    except (NotImplementedError, TypeError, ValueError):
        return values  # ragged lists are refused later, with the number of the row


def _hugging_face_rows(dataset: Any, options: Options) -> Iterator[Row]:
    """Return the rows of a `datasets.Dataset`; the names of its classes become the vocabulary."""
    names: dict[str, Sequence[str]] = {}
    for column, feature in dataset.features.items():
        kind = type(feature).__name__
        if kind == "Image":
            dataset = dataset.cast_column(column, type(feature)(decode=False))
            options["columns"].setdefault(column, "image")
        elif kind == "ClassLabel" and getattr(feature, "names", None):
            names[column] = list(feature.names)
            options["columns"].setdefault(column, "label")
    if names:
        vocabulary = options.get("vocabulary") or {}
        vocabulary = vocabulary if isinstance(vocabulary, Mapping) else {"label": vocabulary}
        options["vocabulary"] = {**names, **vocabulary}
    return (
        {**row, **{n: _class(row[n], labels) for n, labels in names.items()}} for row in dataset
    )


def _class(value: Any, labels: Sequence[str]) -> str | None:
    return labels[value] if isinstance(value, int) and value >= 0 else None
